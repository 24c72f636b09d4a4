"""Attention as its definition says, in float64 with NumPy, for comparison. Nothing here is fast or clever."""
import numpy as np


def visibility(shape, *, causal=False, offset=None, window=None, key_lengths=None, mask=None, bias=None):
    """Which query sees which key, [batch, heads, queries, keys] of bool."""
    batch, heads, queries, keys = shape
    lengths = np.full(batch, keys) if key_lengths is None else np.asarray(key_lengths)
    seen = np.ones(shape, bool) & (np.arange(keys) < lengths[:, None, None, None])
    start = lengths - queries if offset is None else np.broadcast_to(offset, batch)
    position = start[:, None, None, None] + np.arange(queries)[:, None]
    if causal:
        seen &= np.arange(keys) <= position
    left, right = window or (None, None)
    if left is not None:
        seen &= np.arange(keys) >= position - left
    if right is not None:
        seen &= np.arange(keys) <= position + right
    if mask is not None:
        seen &= np.asarray(mask).astype(bool)
    if bias is not None:
        seen &= np.asarray(bias, np.float64) != -np.inf
    return seen


def attention(query, key, value, *, scale=None, softcap=None, bias=None, sinks=None, **constraints):
    """(output, lse, probabilities) in float64; rows that see nothing are 0, with lse -inf or their sink."""
    query, key, value = (np.asarray(x).astype(np.float64) for x in (query, key, value))
    group = query.shape[1] // key.shape[1]
    key, value = np.repeat(key, group, 1), np.repeat(value, group, 1)
    scores = query @ np.swapaxes(key, -1, -2) * (query.shape[-1]**-0.5 if scale is None else scale)
    if softcap:
        scores = softcap * np.tanh(scores / softcap)
    if bias is not None:
        scores = scores + np.asarray(bias).astype(np.float64)
    seen = visibility(scores.shape, bias=bias, **constraints)
    scores = np.where(seen, scores, -np.inf)
    if sinks is not None:
        logits = np.broadcast_to(np.asarray(sinks, np.float64)[:, None, None], scores.shape[:-1] + (1,))
        scores = np.concatenate([scores, logits], -1)
    top = scores.max(-1, keepdims=True, initial=-np.inf)
    weights = np.exp(scores - np.where(np.isinf(top), 0, top))
    total = weights.sum(-1, keepdims=True)
    probabilities = np.divide(weights, total, out=np.zeros_like(weights), where=total > 0)[..., :key.shape[2]]
    with np.errstate(divide="ignore"):
        lse = np.where(np.isinf(top), -np.inf, np.log(total) + np.where(np.isinf(top), 0, top))[..., 0]
    return probabilities @ value, lse, probabilities


def inputs(seed, batch=2, heads=4, kv_heads=2, queries=9, keys=13, head_dim=16, value_dim=11, dtype=np.float32):
    """(query, key, value), standard normal."""
    rng = np.random.default_rng(seed)
    shapes = ((batch, heads, queries, head_dim), (batch, kv_heads, keys, head_dim), (batch, kv_heads, keys, value_dim))
    return tuple(rng.standard_normal(shape).astype(dtype) for shape in shapes)


TOLERANCE = {"float32": 4e-6, "float16": 2e-3, "bfloat16": 1.6e-2}


def near(result, exact):
    """Asserts that a result is within its dtype's tolerance, relative to the largest exact number (at least 1)."""
    tolerance = TOLERANCE[str(result.dtype)] * max(1.0, np.abs(exact).max(initial=0))
    np.testing.assert_allclose(np.asarray(result).astype(np.float64), exact, rtol=0, atol=tolerance)
