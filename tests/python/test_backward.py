"""multihead.attention_backward against the derivative of the definition, by central differences in float64."""
import ml_dtypes
import numpy as np
import pytest

import definition
import multihead


def numeric(loss, x, step=1e-5):
    """Central differences of a loss by every element of x."""
    x = x.astype(np.float64)
    gradient = np.zeros_like(x)
    for where in np.ndindex(x.shape):
        ends = []
        for sign in (1, -1):
            moved = x.copy()
            moved[where] += sign * step
            ends.append(loss(moved))
        gradient[where] = (ends[0] - ends[1]) / (2 * step)
    return gradient


def forward(arrays, **options):
    output, lse = multihead.attention(*arrays, return_lse=True, **options)
    return output, lse


@pytest.mark.parametrize("options", [{}, {"causal": True}, {"scale": 0.4, "softcap": 1.5}, {"sinks": [0.3, -0.2]}], ids=str)
def test_gradients(options):
    arrays = definition.inputs(1, batch=1, heads=2, kv_heads=1, queries=3, keys=4, head_dim=3, value_dim=2)
    bias = np.random.default_rng(2).standard_normal((1, 2, 1, 4)).astype(np.float32)
    grad = np.random.default_rng(3).standard_normal((1, 2, 3, 2)).astype(np.float32)
    sinks = options.get("sinks")
    wanted = ["query", "key", "value", "attention_bias"] + (["sinks"] if sinks else [])
    output, lse = forward(arrays, attention_bias=bias, **options)
    got = multihead.attention_backward(*arrays, output, lse, grad, wanted=wanted, attention_bias=bias, **options)

    def loss(query=arrays[0], key=arrays[1], value=arrays[2], bias=bias, **changed):
        return (definition.attention(query, key, value, bias=bias, **{**options, **changed})[0] * grad).sum()

    for name, x in zip(("query", "key", "value"), arrays):
        np.testing.assert_allclose(getattr(got, name), numeric(lambda moved, name=name: loss(**{name: moved}), x), atol=1e-5)
    np.testing.assert_allclose(got.attention_bias, numeric(lambda moved: loss(bias=moved), bias), atol=1e-5)
    if sinks:
        np.testing.assert_allclose(got.sinks, numeric(lambda moved: loss(sinks=moved), np.array(sinks)), atol=1e-5)
    assert got.alibi_slopes is None


def test_shared_key_heads_sum_their_gradients():
    query = np.zeros((1, 4, 1, 1), np.float32)
    key = value = np.zeros((1, 2, 1, 1), np.float32)
    grad = np.array([1, 2, 4, 8], np.float32).reshape(1, 4, 1, 1)
    output, lse = forward((query, key, value))
    got = multihead.attention_backward(query, key, value, output, lse, grad)
    assert got.value.ravel().tolist() == [3, 12] and not got.query.any() and not got.key.any()  # case O16


def test_dtypes_and_alibi():
    arrays = definition.inputs(4, dtype=ml_dtypes.bfloat16)
    slopes = multihead.alibi_slopes(4)
    output, lse = forward(arrays, alibi_slopes=slopes)
    got = multihead.attention_backward(*arrays, output, lse, output, wanted=["query", "alibi_slopes"], alibi_slopes=slopes)
    assert got.query.dtype == ml_dtypes.bfloat16 and got.alibi_slopes.dtype == np.float32 and got.alibi_slopes.shape == (4,)
    assert got.key is None


@pytest.mark.parametrize("wanted", ["sinks", "attention_bias", "keys"])
def test_unknown_gradients_are_refused(wanted):
    arrays = definition.inputs(5)
    output, lse = forward(arrays)
    with pytest.raises(ValueError, match=f"attention_backward: wanted: .*'{wanted}'"):
        multihead.attention_backward(*arrays, output, lse, output, wanted=[wanted])


def test_dropout_is_the_same_both_ways():
    arrays = definition.inputs(7, batch=1, heads=2, kv_heads=1, queries=6, keys=5, head_dim=3, value_dim=5)
    arrays[2][:] = np.eye(5, dtype=np.float32)  # the output is the coefficients
    dropped, lse = forward(arrays, dropout=(0.4, 11))
    plain, plain_lse = forward(arrays)
    kept = dropped != 0
    assert 0 < kept.mean() < 1
    np.testing.assert_allclose(dropped, np.where(kept, plain / 0.6, 0), rtol=1e-6)
    np.testing.assert_array_equal(lse, plain_lse)
    got = multihead.attention_backward(*arrays, dropped, lse, np.ones_like(dropped), wanted=["value"], dropout=(0.4, 11))
    np.testing.assert_allclose(got.value[0, 0], np.repeat(dropped.sum((0, 1, 2))[:, None], 5, 1), rtol=1e-5)
    with pytest.raises(TypeError, match=r"attention: dropout: expected \(probability, seed\); got float"):
        forward(arrays, dropout=0.4)
