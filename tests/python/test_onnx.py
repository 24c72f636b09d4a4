"""The ONNX backend's node tests of the operator Attention (opsets 23 to 25), run through the package: every one must pass.

The operator is a recipe of ours: 3-D inputs are strided views, a past is concatenated, `attn_mask` is a mask or a bias by its
type, and positions are query offsets. What ONNX calls qk_matmul_output is our scores (modes 0 to 2) or probabilities (mode 3).
"""
import warnings

import numpy as np
import onnx
import pytest

import multihead

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # other operators' cases overflow on purpose while they are collected
    from onnx.backend.test.case.node import collect_testcases

    # "Expanded" twins are the same cases with the operator replaced by its function body: no test of ours.
    CASES = [case for case in collect_testcases("Attention") if "_expanded" not in case.name]

# Reference results of 16-bit inputs were rounded after every step; ours once. (relative, absolute)
TOLERANCE = {"float16": (2e-3, 2e-3), "bfloat16": (1.6e-2, 1.6e-2)}


def heads_of(x, num_heads):
    """[batch, heads, length, dim] of a 3-D [batch, length, heads * dim], as a view."""
    return x if x.ndim == 4 else x.reshape(*x.shape[:2], num_heads, -1).swapaxes(1, 2)


def mask_options(attn_mask, key_len):
    """attn_mask as our mask or bias; missing columns are not visible."""
    if attn_mask is None:
        return {}
    boolean = attn_mask.dtype == bool
    missing = key_len - attn_mask.shape[-1] if attn_mask.shape[-1] != 1 else 0
    pad = [(0, 0)] * (attn_mask.ndim - 1) + [(0, missing)]
    attn_mask = np.pad(attn_mask, pad, constant_values=False if boolean else -np.inf)
    if attn_mask.ndim == 3:
        attn_mask = attn_mask[None]  # [heads, queries, keys]
    return {"mask": attn_mask} if boolean else {"attention_bias": attn_mask}


def scores(query, key, mode, options):
    """Scores, exactly: the lse of a call that sees one key is that key's score. Mode 0: scaled; 1: capped; 2: with bias and mask."""
    kept = {0: ("scale",), 1: ("scale", "softcap")}.get(mode, tuple(options))
    chosen = {name: value for name, value in options.items() if name in kept}
    offsets = chosen.pop("query_offsets", 0)
    lengths = chosen.pop("key_lengths", None)
    columns = []
    for j in range(key.shape[2]):
        one = {name: x[..., j:j + 1] if name in ("mask", "attention_bias") and x.shape[-1] > 1 else x for name, x in chosen.items()}
        if lengths is not None:
            one["key_lengths"] = np.clip(np.asarray(lengths) - j, 0, 1)
        at = key[:, :, j:j + 1]
        columns.append(multihead.attention(query, at, at, return_lse=True, query_offsets=np.atleast_1d(offsets) - j, **one)[1])
    return np.stack(columns, -1)


def attention_operator(node, inputs):
    """Outputs by position: Y, present_key, present_value, qk_matmul_output."""
    attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    query, key, value, attn_mask, past_key, past_value, nonpad = inputs + [None] * (7 - len(inputs))
    flat = query.ndim == 3
    query = heads_of(query, attributes.get("q_num_heads"))
    key, value = (heads_of(x, attributes.get("kv_num_heads")) for x in (key, value))
    if past_key is not None:
        key, value = np.concatenate([past_key, key], 2), np.concatenate([past_value, value], 2)
    offsets = past_key.shape[2] if past_key is not None else 0 if nonpad is None else nonpad - query.shape[2]
    options = {"causal": bool(attributes.get("is_causal", 0)), "query_offsets": offsets, **mask_options(attn_mask, key.shape[2])}
    for name in ("scale", "softcap"):
        if attributes.get(name):
            options[name] = attributes[name]
    sides = [attributes.get(f"{side}_window_size", -1) for side in ("left", "right")]
    if max(sides) >= 0:
        options["window"] = tuple(None if side < 0 else side for side in sides)
    if nonpad is not None:
        options["key_lengths"] = nonpad
    batch, heads, length, _ = query.shape
    # A 3-D result is written where it belongs: no transposition afterwards.
    memory = np.empty((batch, length, heads, value.shape[3]) if flat else (batch, heads, length, value.shape[3]), query.dtype)
    _, lse = multihead.attention(query, key, value, out=memory.swapaxes(1, 2) if flat else memory, return_lse=True, **options)
    mode = attributes.get("qk_matmul_output_mode", 0)
    seen = None
    if len(node.output) > 3:
        seen = multihead.attention_probabilities(query, key, lse, **options) if mode == 3 else scores(query, key, mode, options)
        seen = seen.astype(query.dtype)
    return [memory.reshape(batch, length, -1) if flat else memory, key, value, seen]


def test_the_list_is_whole():
    """A new release of onnx brings new cases: they are looked at, not lost."""
    assert len(CASES) == 93


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_attention(case):
    node = case.model.graph.node[0]
    for inputs, expected in case.data_sets:
        given = iter(inputs)
        outputs = attention_operator(node, [next(given) if name else None for name in node.input])
        named = [x for name, x in zip(node.output, outputs) if name]
        assert len(named) == len(expected)
        for got, exact in zip(named, expected):
            assert got.dtype == exact.dtype and got.shape == exact.shape
            relative, absolute = TOLERANCE.get(str(exact.dtype), (case.rtol, case.atol))
            np.testing.assert_allclose(got.astype(np.float64), exact.astype(np.float64), rtol=relative, atol=absolute)
