"""What a row of `multihead bench` is, told by its name, with inputs and the right answer for a few of its output rows."""
import dataclasses
import re

import numpy

NAME = re.compile(
    r"(?P<kind>prefill|decode)/h(?P<heads>\d+)(x(?P<kv_heads>\d+))?/(n(?P<queries>\d+)(x(?P<keys>\d+))?|k(?P<cache>\d+))"
    r"/d(?P<dim>\d+)(?P<causal>/causal)?(/(last|window)(?P<window>\d+))?(/(?P<dtype>f16|bf16))?(?P<strided>/strided)?")
LAYER = re.compile(r"layer/(?P<preset>[^/]+)/n(?P<length>\d+)")

# model_dim, heads, causal and rotary, of multihead's presets.
PRESETS = {"vaswani-base": (512, 8, False), "llama-7b": (4096, 32, True)}

# How far a peer may be from the definition, relative to its largest number, and still have done the same work.
TOLERANCE = {"f32": 1e-4, "f16": 1e-2, "bf16": 5e-2}


@dataclasses.dataclass(frozen=True)
class Shape:
    """query [heads, queries, dim], key and value [kv_heads, keys, dim]; of a layer: input [queries, model_dim]."""
    kind: str
    heads: int
    kv_heads: int
    queries: int
    keys: int
    dim: int
    causal: bool = False
    window: int | None = None  # causal: the last so many keys; else keys up to so far away
    dtype: str = "f32"
    strided: bool = False
    model_dim: int = 0
    rotary: bool = False

    @property
    def group(self):
        return self.heads // self.kv_heads

    def visible(self, row):
        """[keys]: what one query row sees."""
        distance = row + self.keys - self.queries - numpy.arange(self.keys)
        seen = distance >= 0 if self.causal else numpy.ones(self.keys, bool)
        if self.window is not None:
            seen = seen & (distance < self.window if self.causal else abs(distance) <= self.window)
        return seen

    def mask(self):
        """[queries, keys] for peers that know no windows, or None when there is none."""
        return None if self.window is None else numpy.stack([self.visible(row) for row in range(self.queries)])


def parse(name):
    """The shape that a name tells."""
    if match := LAYER.fullmatch(name):
        model_dim, heads, causal = PRESETS[match["preset"]]
        length = int(match["length"])
        return Shape("layer", heads, heads, length, length, model_dim // heads, causal, model_dim=model_dim, rotary=causal)
    match = NAME.fullmatch(name)
    if match is None:
        raise ValueError(f"a row with a name of another form: {name}")
    heads, queries = int(match["heads"]), int(match["queries"] or 1)
    return Shape(match["kind"], heads, int(match["kv_heads"] or heads), queries,
                 int(match["cache"] or match["keys"] or queries), int(match["dim"]), bool(match["causal"]),
                 int(match["window"]) if match["window"] else None, match["dtype"] or "f32", bool(match["strided"]))


def rounded(values, dtype):
    """float32 values that `dtype` holds exactly."""
    if dtype == "f16":
        return values.astype(numpy.float16).astype(numpy.float32)
    if dtype == "bf16":
        return (bf16_bits(values).astype(numpy.uint32) << 16).view(numpy.float32)
    return values


def bf16_bits(values):
    """uint16, rounded to nearest even."""
    bits = numpy.ascontiguousarray(values, numpy.float32).view(numpy.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(numpy.uint16)


def rotary_tables(shape):
    """cos and sin, [queries, dim / 2], theta 10000."""
    angles = numpy.outer(numpy.arange(shape.queries), 10000.0 ** (-2 * numpy.arange(shape.dim // 2) / shape.dim))
    return numpy.cos(angles), numpy.sin(angles)


class Inputs:
    """float32 arrays that the row's dtype holds exactly."""

    def __init__(self, shape):
        random = numpy.random.default_rng(1)

        def uniform(*extents, variance=1.0):
            bound = (3 * variance) ** 0.5
            return rounded(random.uniform(-bound, bound, extents).astype(numpy.float32), shape.dtype)

        self.shape = shape
        if shape.kind == "layer":
            width = shape.model_dim
            self.input = uniform(shape.queries, width)
            self.weights = [uniform(width, width, variance=1 / width) for _ in range(4)]  # W_Q, W_K, W_V, W_O: [out, in]
        else:
            self.query = uniform(shape.heads, shape.queries, shape.dim)
            self.key = uniform(shape.kv_heads, shape.keys, shape.dim)
            self.value = uniform(shape.kv_heads, shape.keys, shape.dim)

    def repeated(self, array):
        """[heads, keys, dim]: each kv head as often as query heads read it."""
        return numpy.repeat(array, self.shape.group, axis=0)

    def is_right(self, output):
        """Whether [heads, queries, dim], or [queries, model_dim] of a layer, agrees with the definition in a few rows."""
        rows = sorted({0, 1, self.shape.queries // 2, self.shape.queries - 1} & set(range(self.shape.queries)))
        if self.shape.kind == "layer":
            rows = range(min(4, self.shape.queries))
            exact, got = self._layer_rows(rows), output[list(rows)]
        else:
            exact, got = self._attention_rows(self.query, self.key, self.value, rows), output[:, rows]
        return bool(numpy.abs(got - exact).max() <= TOLERANCE[self.shape.dtype] * numpy.abs(exact).max())

    def _attention_rows(self, query, key, value, rows):
        shape, out = self.shape, []
        for head in range(shape.heads):
            k, v = (array[head // shape.group].astype(float) for array in (key, value))
            scores = query[head][rows].astype(float) @ k.T / shape.dim ** 0.5
            seen = numpy.stack([shape.visible(row)[:len(k)] for row in rows])
            scores = numpy.where(seen, scores, -numpy.inf)
            weights = numpy.exp(scores - scores.max(axis=1, keepdims=True))
            out.append(weights / weights.sum(axis=1, keepdims=True) @ v)
        return numpy.stack(out)

    def _layer_rows(self, rows):
        shape = self.shape
        memory = self.input[:len(rows)] if shape.causal else self.input  # a causal row sees nothing later
        q, k, v = (self._heads(x @ w.T) for x, w in zip((self.input[:len(rows)], memory, memory), self.weights[:3]))
        if shape.rotary:
            q, k = self._rotated(q), self._rotated(k)
        heads = self._attention_rows(q, k, v, list(rows))
        return heads.transpose(1, 0, 2).reshape(len(rows), -1) @ self.weights[3].T.astype(float)

    def _heads(self, rows):
        return rows.reshape(len(rows), self.shape.heads, self.shape.dim).transpose(1, 0, 2)

    def _rotated(self, heads):
        cos, sin = (table[:heads.shape[1]] for table in rotary_tables(self.shape))
        a, b = numpy.split(heads, 2, axis=2)
        return numpy.concatenate([a * cos - b * sin, a * sin + b * cos], axis=2)
