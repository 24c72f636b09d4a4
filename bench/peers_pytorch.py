"""PyTorch: scaled_dot_product_attention, nn.MultiheadAttention, and the layer out of Linear modules."""
import functools

import torch
from torch.nn import functional

from peers_shape import rotary_tables

NAME = "PyTorch"
VERSION = torch.__version__
DTYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}


class Contestant:
    """run() computes once; output() is what it left, as a float32 array."""

    def __init__(self, call, to_array):
        self.call, self.to_array, self.result = call, to_array, None

    def run(self):
        with torch.inference_mode():
            self.result = self.call()

    def output(self):
        return self.to_array(self.result).float().numpy()


def contestants(inputs, threads, function=functional.scaled_dot_product_attention):
    """{how: a function that makes the Contestant} of every way that suits the shape, with PyTorch's function or another like it."""
    torch.set_num_threads(threads)
    if inputs.shape.kind == "layer":
        return layers(inputs)
    shape, dtype = inputs.shape, DTYPES[inputs.shape.dtype]

    def tensor(array):  # [1, heads, length, dim]
        return torch.from_numpy(array).to(dtype)[None]

    q, k, v = map(tensor, (inputs.query, inputs.key, inputs.value))
    mask = shape.mask()
    options = {"is_causal": shape.causal} if mask is None else {"attn_mask": torch.from_numpy(mask)}

    def attend(q, k, v, **more):
        return Contestant(lambda: function(q, k, v, **options, **more), lambda y: y[0])

    if shape.group == 1:
        by_length = [x.transpose(1, 2).contiguous().transpose(1, 2) for x in (q, k, v)]
        return {"[heads, length, dim]": lambda: attend(q, k, v), "[length, heads, dim]": lambda: attend(*by_length)}
    ways = {"enable_gqa": lambda: attend(q, k, v, enable_gqa=True)}
    if shape.kind == "decode":  # the heads of a group are queries of one head
        grouped = q.reshape(1, shape.kv_heads, shape.group, shape.dim)
        ways["group as queries"] = lambda: Contestant(functools.partial(function, grouped, k, v),
                                                      lambda y: y.reshape(shape.heads, 1, shape.dim))
    else:
        ways["repeated"] = lambda: attend(q, *(tensor(inputs.repeated(x)) for x in (inputs.key, inputs.value)))
    return ways


def layers(inputs):
    shape = inputs.shape
    x = torch.from_numpy(inputs.input)[None]
    weights = [torch.from_numpy(w) for w in inputs.weights]
    cos, sin = (torch.from_numpy(table).float() for table in rotary_tables(shape))

    def heads(y):  # [1, length, model_dim] -> [1, heads, length, dim]
        return y.view(1, shape.queries, shape.heads, shape.dim).transpose(1, 2)

    def rotated(y):
        a, b = y.chunk(2, dim=-1)
        return torch.cat([a * cos - b * sin, a * sin + b * cos], dim=-1)

    def by_linears():
        q, k, v = (heads(functional.linear(x, w)) for w in weights[:3])
        if shape.rotary:
            q, k = rotated(q), rotated(k)
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=shape.causal)
        return functional.linear(y.transpose(1, 2).reshape(1, shape.queries, -1), weights[3])

    def by_module():
        module = torch.nn.MultiheadAttention(shape.model_dim, shape.heads, bias=False, batch_first=True).eval()
        module.in_proj_weight.data = torch.cat(weights[:3])
        module.out_proj.weight.data = weights[3]
        return Contestant(lambda: module(x, x, x, need_weights=False)[0], lambda y: y[0])

    ways = {"linear and scaled_dot_product_attention": lambda: Contestant(by_linears, lambda y: y[0])}
    if not shape.rotary:  # the module has no positions
        ways["nn.MultiheadAttention"] = by_module
    return ways
