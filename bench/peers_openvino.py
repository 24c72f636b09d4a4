"""OpenVINO: its ScaledDotProductAttention operator, and the layer out of it and MatMul."""
import numpy
import openvino
from openvino import opset13 as ops

from peers_shape import bf16_bits, rotary_tables

NAME = "OpenVINO"
VERSION = openvino.__version__.split("-")[0]
DTYPES = {"f32": openvino.Type.f32, "f16": openvino.Type.f16, "bf16": openvino.Type.bf16}
CORE = openvino.Core()


def tensor_of(array, dtype):
    """[1, ...] in memory that the request reads where it is."""
    array = array[None]
    if dtype == "bf16":
        return openvino.Tensor(bf16_bits(array), openvino.Shape(array.shape), openvino.Type.bf16)
    return openvino.Tensor(numpy.ascontiguousarray(array, numpy.float16 if dtype == "f16" else numpy.float32), shared_memory=True)


class Contestant:
    """A compiled model with its inputs set once. run() computes once; output() is what it left.

    build: parameters -> result; inputs: tensors in their order."""

    def __init__(self, build, inputs, dtype, threads, shape_of_output):
        parameters = [ops.parameter(list(tensor.shape), tensor.element_type) for tensor in inputs]
        result = ops.convert(build(*parameters), "f32") if dtype == "bf16" else build(*parameters)
        self.compiled = CORE.compile_model(openvino.Model([result], parameters), "CPU", {
            "INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": 1, "PERFORMANCE_HINT": "LATENCY",
            "INFERENCE_PRECISION_HINT": DTYPES[dtype]})
        self.request, self.inputs, self.shape = self.compiled.create_infer_request(), inputs, shape_of_output
        for index, tensor in enumerate(inputs):
            self.request.set_input_tensor(index, tensor)

    def run(self):
        self.request.infer()

    def output(self):
        return self.request.get_output_tensor(0).data.astype(numpy.float32).reshape(self.shape)


def contestants(inputs, threads):
    """{how: a function that makes the Contestant} of every way that suits the shape."""
    shape = inputs.shape
    if shape.kind == "layer":
        return {"MatMul and ScaledDotProductAttention": lambda: layer(inputs, threads)}
    mask = shape.mask()
    output = (shape.heads, shape.queries, shape.dim)

    def attend(build, *arrays):
        tensors = [tensor_of(array, shape.dtype) for array in arrays]
        if mask is not None:
            tensors.append(openvino.Tensor(mask[None, None]))
        return lambda: Contestant(build, tensors, shape.dtype, threads, output)

    def plain(q, k, v, *masks):
        return ops.scaled_dot_product_attention(q, k, v, *masks, causal=shape.causal and not masks)

    def repeating(q, k, v, *masks):
        """Each kv head as often as query heads read it, the pattern that OpenVINO's own models have."""
        return plain(q, repeat(k, shape), repeat(v, shape), *masks)

    if shape.group == 1:
        return {"ScaledDotProductAttention": attend(plain, inputs.query, inputs.key, inputs.value)}
    ways = {"repeating in the graph": attend(repeating, inputs.query, inputs.key, inputs.value)}
    if shape.kind == "decode":  # the heads of a group are queries of one head
        ways["group as queries"] = attend(plain, inputs.query.reshape(shape.kv_heads, shape.group, shape.dim), inputs.key,
                                          inputs.value)
    else:
        ways["repeated"] = attend(plain, inputs.query, *(inputs.repeated(x) for x in (inputs.key, inputs.value)))
    return ways


def repeat(x, shape):
    apart = ops.unsqueeze(x, ops.constant(2))
    wide = ops.broadcast(apart, ops.constant([1, shape.kv_heads, shape.group, shape.keys, shape.dim]))
    return ops.reshape(wide, ops.constant([1, shape.heads, shape.keys, shape.dim]), False)


def layer(inputs, threads):
    shape = inputs.shape
    cos, sin = (table.astype(numpy.float32)[None, None] for table in rotary_tables(shape))

    def rotated(y):
        a, b = ops.split(y, ops.constant(3), 2).outputs()
        first = ops.subtract(ops.multiply(a, cos), ops.multiply(b, sin))
        return ops.concat([first, ops.add(ops.multiply(a, sin), ops.multiply(b, cos))], 3)

    def build(x):
        q, k, v = (ops.transpose(ops.reshape(ops.matmul(x, w, False, True), [1, shape.queries, shape.heads, shape.dim], False),
                                 [0, 2, 1, 3]) for w in inputs.weights[:3])
        if shape.rotary:
            q, k = rotated(q), rotated(k)
        y = ops.scaled_dot_product_attention(q, k, v, causal=shape.causal)
        y = ops.reshape(ops.transpose(y, [0, 2, 1, 3]), [1, shape.queries, shape.model_dim], False)
        return ops.matmul(y, inputs.weights[3], False, True)

    return Contestant(build, [tensor_of(inputs.input, "f32")], "f32", threads, (shape.queries, shape.model_dim))
