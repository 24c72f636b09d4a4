"""ONNX Runtime: its MultiHeadAttention and GroupQueryAttention operators, and the layer out of them and MatMul."""
import dataclasses

import numpy
import onnxruntime
from onnx import helper, numpy_helper

from peers_shape import rotary_tables

NAME = "ONNX Runtime"
VERSION = onnxruntime.__version__
DTYPES = {"f32": numpy.float32, "f16": numpy.float16}


@dataclasses.dataclass
class Graph:
    nodes: list
    inputs: dict  # {name: array}
    output: tuple  # shape and array type of "output", the answer
    constants: dict = dataclasses.field(default_factory=dict)  # {name: array}
    shared: dict = dataclasses.field(default_factory=dict)  # {another output: the input whose memory it has}

    def model(self):
        def info(name, shape, dtype):
            return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(numpy.dtype(dtype)), shape)

        same = [(to, self.inputs[source]) for to, source in self.shared.items()]
        graph = helper.make_graph(
            self.nodes, "row", [info(name, array.shape, array.dtype) for name, array in self.inputs.items()],
            [info("output", *self.output), *(info(name, array.shape, array.dtype) for name, array in same)],
            [numpy_helper.from_array(array, name) for name, array in self.constants.items()])
        opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString()


class Contestant:
    """A session with inputs and outputs bound to memory once. run() computes once; output() is what it left."""

    def __init__(self, graph, threads, to_heads=lambda answer: answer):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 4
        self.session = onnxruntime.InferenceSession(graph.model(), options, providers=["CPUExecutionProvider"])
        self.binding = self.session.io_binding()
        # Kept: the binding does not hold the arrays in which the values lie.
        self.values = {name: onnxruntime.OrtValue.ortvalue_from_numpy(array) for name, array in graph.inputs.items()}
        for name, value in self.values.items():
            self.binding.bind_ortvalue_input(name, value)
        self.answer, self.to_heads = onnxruntime.OrtValue.ortvalue_from_shape_and_type(*graph.output), to_heads
        self.binding.bind_ortvalue_output("output", self.answer)
        for name, source in graph.shared.items():
            self.binding.bind_ortvalue_output(name, self.values[source])

    def run(self):
        self.session.run_with_iobinding(self.binding)

    def output(self):
        return self.to_heads(self.answer.numpy()[0].astype(numpy.float32))


def by_length(array, dtype):
    """[heads, length, dim] -> [1, length, heads * dim], the operators' layout."""
    return numpy.ascontiguousarray(array.transpose(1, 0, 2).reshape(1, array.shape[1], -1), dtype)


def contestants(inputs, threads):
    """{how: a function that makes the Contestant} of every way that suits the shape."""
    shape = inputs.shape
    if shape.kind == "layer":
        return {"MatMul and attention operator": lambda: layer(inputs, threads)}
    if shape.dtype not in DTYPES:
        return {}
    ways = {}
    if shape.dtype == "f32" and (shape.group == 1 or shape.kind == "decode"):
        ways["MultiHeadAttention"] = lambda: multi_head(inputs, threads)
    if shape.causal or shape.kind == "decode":
        ways["GroupQueryAttention"] = lambda: group_query(inputs, threads)
    return ways


def multi_head(inputs, threads):
    """Decoding: the heads of a group are queries of one head."""
    shape = inputs.shape
    heads, queries = shape.kv_heads, shape.queries * shape.group
    query = inputs.query.reshape(heads, queries, shape.dim)
    arrays = {name: by_length(array, numpy.float32)
              for name, array in (("query", query), ("key", inputs.key), ("value", inputs.value))}
    names = list(arrays)
    if shape.window is not None:
        bias = numpy.where(shape.mask(), 0, -numpy.inf).astype(numpy.float32)[None, None]
        arrays["attention_bias"] = bias
        names += ["", "", "attention_bias"]
    node = helper.make_node("MultiHeadAttention", names, ["output"], domain="com.microsoft", num_heads=heads,
                            unidirectional=int(shape.causal))
    graph = Graph([node], arrays, ((1, queries, heads * shape.dim), numpy.float32))
    return Contestant(graph, threads, lambda y: y.reshape(queries, heads, shape.dim).transpose(1, 0, 2).reshape(
        shape.heads, shape.queries, shape.dim))


def group_query(inputs, threads):
    """A prompt into an empty cache, or one token more: past and present keys share one buffer, as the operator wants it."""
    shape = inputs.shape
    dtype = DTYPES[shape.dtype]
    new = slice(shape.keys - shape.queries, None)
    cached = new.start if shape.kind == "decode" else 0
    caches = {}
    for name, array in (("past_key", inputs.key), ("past_value", inputs.value)):
        caches[name] = numpy.zeros((1, *array.shape), dtype)
        caches[name][0, :, :cached] = array[:, :cached]
    arrays = {
        "query": by_length(inputs.query, dtype), "key": by_length(inputs.key[:, new], dtype),
        "value": by_length(inputs.value[:, new], dtype), **caches,
        "last": numpy.array([shape.keys - 1], numpy.int32), "total": numpy.array(shape.keys, numpy.int32)}
    node = helper.make_node(
        "GroupQueryAttention", list(arrays), ["output", "present_key", "present_value"], domain="com.microsoft",
        num_heads=shape.heads, kv_num_heads=shape.kv_heads, local_window_size=shape.window or -1)
    graph = Graph([node], arrays, ((1, shape.queries, shape.heads * shape.dim), dtype),
                  shared={"present_key": "past_key", "present_value": "past_value"})
    return Contestant(graph, threads, lambda y: y.reshape(shape.queries, shape.heads, shape.dim).transpose(1, 0, 2))


def layer(inputs, threads):
    shape = inputs.shape
    constants = {f"weight{i}": numpy.ascontiguousarray(w.T) for i, w in enumerate(inputs.weights)}
    nodes = [helper.make_node("MatMul", ["input", f"weight{i}"], [name]) for i, name in enumerate(("query", "key", "value"))]
    if shape.rotary:
        constants |= dict(zip(("cos", "sin"), (table.astype(numpy.float32) for table in rotary_tables(shape))))
        constants |= {"last": numpy.array([shape.keys - 1], numpy.int32), "total": numpy.array(shape.keys, numpy.int32)}
        nodes.append(helper.make_node(
            "GroupQueryAttention", ["query", "key", "value", "", "", "last", "total", "cos", "sin"],
            ["heads", "present_key", "present_value"], domain="com.microsoft", num_heads=shape.heads,
            kv_num_heads=shape.kv_heads, do_rotary=1))
    else:
        nodes.append(helper.make_node("MultiHeadAttention", ["query", "key", "value"], ["heads"], domain="com.microsoft",
                                      num_heads=shape.heads))
    nodes.append(helper.make_node("MatMul", ["heads", "weight3"], ["output"]))
    graph = Graph(nodes, {"input": inputs.input[None]}, ((1, shape.queries, shape.model_dim), numpy.float32), constants)
    return Contestant(graph, threads)
