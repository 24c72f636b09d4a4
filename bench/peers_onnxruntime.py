"""ONNX Runtime: its MultiHeadAttention and GroupQueryAttention operators, and the layer out of them and MatMul."""
import numpy
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from peers_shape import rotary_tables

NAME = "ONNX Runtime"
VERSION = onnxruntime.__version__
DTYPES = {"f32": (TensorProto.FLOAT, numpy.float32), "f16": (TensorProto.FLOAT16, numpy.float16)}


class Contestant:
    """A graph of one session, inputs and outputs bound to memory once. run() computes once; output() is what it left.

    inputs: {name: array}; outputs: {name: (shape, array type)}, the first of which is the answer; shared: {output: input} pairs
    that have the same memory.
    """

    def __init__(self, nodes, inputs, outputs, threads, constants=None, shared=None, to_heads=None):
        def info(name, shape, dtype):
            return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(numpy.dtype(dtype)), shape)

        shared = shared or {}
        outputs = outputs | {to: (inputs[source].shape, inputs[source].dtype) for to, source in shared.items()}
        graph = helper.make_graph(
            nodes, "row", [info(name, array.shape, array.dtype) for name, array in inputs.items()],
            [info(name, *of) for name, of in outputs.items()],
            [numpy_helper.from_array(array, name) for name, array in (constants or {}).items()])
        opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 4
        self.session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        self.binding = self.session.io_binding()
        values = {name: onnxruntime.OrtValue.ortvalue_from_numpy(array) for name, array in inputs.items()}
        for name, value in values.items():
            self.binding.bind_ortvalue_input(name, value)
        for name, (shape, dtype) in outputs.items():
            value = values[shared[name]] if name in shared else onnxruntime.OrtValue.ortvalue_from_shape_and_type(shape, dtype)
            values[name] = value
            self.binding.bind_ortvalue_output(name, value)
        self.answer, self.to_heads = values[next(iter(outputs))], to_heads

    def run(self):
        self.session.run_with_iobinding(self.binding)

    def output(self):
        answer = self.answer.numpy()[0].astype(numpy.float32)
        return self.to_heads(answer) if self.to_heads else answer


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
    outputs = {"output": ((1, queries, heads * shape.dim), numpy.float32)}
    return Contestant([node], arrays, outputs, threads,
                      to_heads=lambda y: y.reshape(queries, heads, shape.dim).transpose(1, 0, 2).reshape(
                          shape.heads, shape.queries, shape.dim))


def group_query(inputs, threads):
    """A prompt into an empty cache, or one token more: past and present keys share one buffer, as the operator wants it."""
    shape = inputs.shape
    element, dtype = DTYPES[shape.dtype]
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
    outputs = {"output": ((1, shape.queries, shape.heads * shape.dim), dtype)}
    return Contestant([node], arrays, outputs, threads,
                      shared={"present_key": "past_key", "present_value": "past_value"},
                      to_heads=lambda y: y.reshape(shape.queries, shape.heads, shape.dim).transpose(1, 0, 2))


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
    return Contestant(nodes, {"input": inputs.input[None]}, {"output": ((1, shape.queries, shape.model_dim), numpy.float32)},
                      threads, constants)
