"""multihead.attention against the definition in float64: options, shapes, types."""
import ml_dtypes
import numpy as np
import pytest

import definition
import multihead

OPTIONS = [
    {},
    {"causal": True},
    {"causal": True, "top_left": True},
    {"causal": True, "query_offsets": [3, 1]},
    {"query_offsets": 2, "window": (2, 1)},
    {"causal": True, "window": multihead.last_keys(3)},
    {"scale": 0.0},
    {"scale": -0.3, "softcap": 2.5},
    {"key_lengths": [13, 0]},
    {"key_lengths": np.array([5, 7]), "causal": True},
    {"sinks": [0.0, 1.0, 2.0, -np.inf]},
]


def expected(arrays, options):
    """The definition's answer to the same options."""
    named = dict(options)
    named["offset"] = 0 if named.pop("top_left", False) else named.pop("query_offsets", None)
    named["bias"] = named.pop("attention_bias", None)
    return definition.attention(*arrays, **named)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_options(options, dtype):
    arrays = definition.inputs(1, dtype=dtype)
    output, lse = multihead.attention(*arrays, return_lse=True, **options)
    exact, exact_lse, exact_probabilities = expected(arrays, options)
    assert output.dtype == np.dtype(dtype) and lse.dtype == np.float32
    definition.near(output, exact)
    np.testing.assert_allclose(lse, exact_lse, atol=1e-5)
    probabilities = multihead.attention_probabilities(*arrays[:2], lse, **options)
    np.testing.assert_allclose(probabilities, exact_probabilities, atol=1e-5)


@pytest.mark.parametrize("shape", [(13,), (9, 13), (9, 1), (2, 4, 9, 13), (1, 4, 1, 13), (2, 1, 9, 1)])
def test_masks_and_biases_broadcast(shape):
    arrays = definition.inputs(2)
    rng = np.random.default_rng(3)
    mask = rng.random(shape) < 0.6
    bias = rng.standard_normal(shape).astype(np.float32)
    bias[rng.random(shape) < 0.2] = -np.inf
    for options in ({"mask": mask}, {"mask": mask.view(np.uint8)}, {"attention_bias": bias}, {"mask": mask, "attention_bias": bias}):
        definition.near(multihead.attention(*arrays, **options), expected(arrays, options)[0])


def test_mask_is_an_intersection_with_causality():
    query = key = np.zeros((1, 1, 3, 4), np.float32)
    value = np.arange(3, dtype=np.float32).reshape(1, 1, 3, 1)
    output = multihead.attention(query, key, value, causal=True, mask=np.ones(3, bool))
    assert output.ravel().tolist() == [0, 0.5, 1]  # case O30: a leak gives 1, 1, 1


def test_rank_3_masks_are_refused_with_their_meanings():
    with pytest.raises(ValueError, match="mask of shape .* has rank 3"):
        multihead.attention(*definition.inputs(2), mask=np.ones((4, 9, 13), bool))


def test_alibi_is_a_bias_by_distance():
    arrays = definition.inputs(4, heads=2)
    slopes = multihead.alibi_slopes(2)
    distance = np.abs(np.arange(9)[:, None] + 13 - 9 - np.arange(13))
    bias = (-np.asarray(slopes)[:, None, None] * distance)[None]
    exact = definition.attention(*arrays, bias=bias)[0]
    definition.near(multihead.attention(*arrays, alibi_slopes=slopes), exact)


def test_packed_sequences_are_separate_calls():
    query, key, value = definition.inputs(5, batch=1)
    packed = multihead.attention(query, key, value, causal=True, packed=([0, 4, 4, 9], [0, 6, 8, 13]))
    for rows, keys in ((slice(0, 4), slice(0, 6)), (slice(4, 9), slice(8, 13))):
        alone = multihead.attention(query[:, :, rows], key[:, :, keys], value[:, :, keys], causal=True)
        assert np.array_equal(packed[:, :, rows], alone)


@pytest.mark.parametrize("sizes", [{"queries": 0}, {"keys": 0}, {"batch": 0}, {"heads": 0, "kv_heads": 0}, {"head_dim": 0},
                                   {"value_dim": 0}, {"queries": 1, "keys": 1}, {"queries": 130, "keys": 257, "head_dim": 80}], ids=str)
def test_sizes(sizes):
    arrays = definition.inputs(6, **sizes)
    options = {"scale": 1.0} if sizes.get("head_dim") == 0 else {}
    output = multihead.attention(*arrays, **options)
    if 0 in (sizes.get("heads"), sizes.get("batch"), sizes.get("queries"), sizes.get("value_dim")):
        assert output.size == 0 and output.shape == arrays[0].shape[:3] + arrays[2].shape[3:]
    else:
        definition.near(output, definition.attention(*arrays, **options)[0])


def test_out_is_written_and_returned():
    query, key, value = definition.inputs(7)
    out = np.full((2, 9, 4, 11), np.nan, np.float32).transpose(0, 2, 1, 3)  # [batch, length, heads, dim] in memory
    assert multihead.attention(query, key, value, out=out) is out
    assert np.array_equal(out, multihead.attention(query, key, value))
    wide = np.empty(out.shape, np.float32)
    sixteen = [x.astype(np.float16) for x in (query, key, value)]
    multihead.attention(*sixteen, out=wide)
    definition.near(wide, definition.attention(*sixteen)[0])


def test_merge_joins_disjoint_keys():
    query, key, value = definition.inputs(8)
    parts = [multihead.attention(query, key[:, :, s], value[:, :, s], return_lse=True) for s in (slice(0, 5), slice(5, 5), slice(5, 13))]
    output, lse = multihead.merge([o for o, _ in parts], [l for _, l in parts], return_lse=True)
    exact, exact_lse, _ = definition.attention(query, key, value)
    definition.near(output, exact)
    np.testing.assert_allclose(lse, exact_lse, atol=1e-5)
    with pytest.raises(ValueError, match="outputs: expected at least one part"):
        multihead.merge([], [])


def test_reference_and_plan():
    arrays = definition.inputs(9)
    for got, exact in zip(multihead.reference_attention(*arrays, causal=True), definition.attention(*arrays, causal=True)):
        np.testing.assert_allclose(got, exact, atol=1e-12)
    plan = multihead.plan(*arrays)
    assert plan.kernel in ("panels", "decode") and plan.reason and plan.target == multihead.active_target()
