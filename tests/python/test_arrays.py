"""What counts as an array, and what is refused by name (case O12: never a reinterpretation of bytes)."""
import array

import ml_dtypes
import numpy as np
import pytest

import definition
import multihead


def strided(x, kind):
    """The same numbers in other memory."""
    if kind == "fortran":
        return np.asfortranarray(x)
    if kind == "reversed":
        return x[:, :, ::-1].copy()[:, :, ::-1]
    if kind == "every second":
        wide = np.zeros(x.shape[:3] + (2 * x.shape[3],), x.dtype)
        wide[..., ::2] = x
        return wide[..., ::2]
    if kind == "length first":
        return np.ascontiguousarray(x.transpose(2, 0, 1, 3)).transpose(1, 2, 0, 3)
    return x


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("kind", ["fortran", "reversed", "every second", "length first"])
def test_strides_give_the_same_bits(kind, dtype):
    arrays = definition.inputs(1, dtype=dtype)
    plain = multihead.attention(*arrays, causal=True)
    other = multihead.attention(*(strided(x, kind) for x in arrays), causal=True)
    assert np.array_equal(plain.view(np.uint8), other.view(np.uint8))


def test_broadcast_axes_are_read_in_place():
    query, key, value = definition.inputs(2, batch=3)
    shared = np.broadcast_to(key[:1], key.shape), np.broadcast_to(value[:1], value.shape)
    copied = [np.ascontiguousarray(x) for x in shared]
    assert np.array_equal(multihead.attention(query, *shared), multihead.attention(query, *copied))


def test_buffers_and_dlpack():
    query, key, value = definition.inputs(3)
    plain = multihead.attention(query, key, value)

    class OnlyDLPack:
        def __init__(self, x):
            self.x = x

        def __dlpack__(self):  # a producer from before DLPack 1.0: no max_version
            return self.x.__dlpack__()

    for wrap in (memoryview, OnlyDLPack):
        assert np.array_equal(multihead.attention(wrap(query), wrap(key), wrap(value)), plain)
    assert np.array_equal(multihead.attention(query, key, value, mask=memoryview(bytes(13))), np.zeros_like(plain))


RECORD = np.dtype([("tag", "u1"), ("x", "4f4")])  # 17 bytes a record: steps that are no multiple of 4


@pytest.mark.parametrize("bad, error, text", [
    (lambda q: np.zeros(q.shape[:3], RECORD)["x"], ValueError, "query: expected steps that are multiples"),
    (lambda q: np.frombuffer(bytes(4 * q.size + 4), np.uint8)[1:1 + 4 * q.size].view(np.float32).reshape(q.shape), ValueError,
     "query: expected memory at a multiple"),
    (lambda q: q.astype(np.float64), TypeError, "query: expected float32, float16 or bfloat16; got float64"),
    (lambda q: q.astype(np.int64), TypeError, "query: expected float32, float16 or bfloat16; got int64"),
    (lambda q: q.astype(np.complex64), TypeError, "query: expected numbers; got elements of format 'Zf'"),
    (lambda q: q.astype(">f4"), TypeError, "query: expected this machine's byte order"),
    (lambda q: q.astype(">f2"), TypeError, "query: expected this machine's byte order"),
    (lambda q: q.tolist(), TypeError, "query: expected an array .*; got list"),
    (lambda q: None, TypeError, "query: expected an array .*; got NoneType"),
    (lambda q: "text", TypeError, "query: expected an array .*; got str"),
    (lambda q: array.array("f", [1.0]), ValueError, r"expected query of rank 4 .*; got \[1\]"),
    (lambda q: np.float32(1), ValueError, r"expected query of rank 4 .*; got \[\]"),
    (lambda q: q.astype(object), TypeError, "query: expected numbers"),
    (lambda q: q.astype(ml_dtypes.float8_e4m3fn), TypeError, "query: "),
    (lambda q: np.zeros((1,) * 9, np.float32), ValueError, "query: expected at most 8 axes; got 9"),
])
def test_refused_by_name(bad, error, text):
    query, key, value = definition.inputs(6, head_dim=4)
    with pytest.raises(error, match=text):
        multihead.attention(bad(query), key, value)


def test_another_device_is_refused():
    class OnGpu:
        """A DLPack capsule whose device says CUDA, made by hand."""

        def __dlpack__(self, **_):
            import ctypes
            capsule = np.zeros((1, 1, 1, 1), np.float32).__dlpack__()
            pointer = ctypes.pythonapi.PyCapsule_GetPointer
            pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
            # DLTensor: data pointer, then device_type.
            ctypes.c_int32.from_address(pointer(capsule, b"dltensor") + 8).value = 2
            return capsule

    _, key, value = definition.inputs(6)
    with pytest.raises(TypeError, match="query: expected an array in the CPU's memory"):
        multihead.attention(OnGpu(), key, value)


@pytest.mark.parametrize("options, error, text", [
    ({"mask": np.ones(13)}, TypeError, "mask: expected bool or uint8"),
    ({"attention_bias": np.ones(13)}, TypeError, "attention_bias: expected float32, float16 or bfloat16; got float64"),
    ({"attention_bias": np.ones(12, np.float32)}, ValueError, "attention_bias: expected a shape that broadcasts"),
    ({"scale": "1"}, TypeError, "scale: expected a number; got str"),
    ({"scale": float("nan")}, ValueError, "scale"),
    ({"causal": 1}, TypeError, "causal: expected True or False; got int"),
    ({"key_lengths": [1.5, 2]}, TypeError, "key_lengths: expected an integer; got float"),
    ({"key_lengths": 3}, TypeError, "key_lengths: expected integers; got int"),
    ({"key_lengths": [3]}, ValueError, "key_lengths"),
    ({"window": 3}, TypeError, r"window: expected \(left, right\)"),
    ({"window": (-1, 0)}, ValueError, "window"),
    ({"sinks": ["a"]}, TypeError, "sinks: expected a number; got str"),
    ({"packed": [1]}, TypeError, r"packed: expected \(query_starts, key_starts\)"),
    ({"casual": True}, TypeError, "no argument 'casual'; the options are scale"),
    ({"out": np.zeros((2, 4, 9, 12), np.float32)}, ValueError, "output"),
    ({"out": np.zeros((2, 4, 9, 11))}, TypeError, "out: expected float32"),
])
def test_options_refused_by_name(options, error, text):
    with pytest.raises(error, match=f"attention: .*{text}"):
        multihead.attention(*definition.inputs(7), **options)


def test_read_only_and_overlapping_out():
    query, key, value = definition.inputs(8, value_dim=16)
    out = np.zeros_like(query)
    out.flags.writeable = False
    with pytest.raises(ValueError, match="out: expected an array that may be written"):
        multihead.attention(query, key, value, out=out)
    before = query.copy()
    with pytest.raises(ValueError, match="overlap"):
        multihead.attention(query, key, value, out=query)
    assert np.array_equal(query, before)


def test_read_only_inputs_are_fine():
    arrays = definition.inputs(9)
    plain = multihead.attention(*arrays)
    for x in arrays:
        x.flags.writeable = False
    assert np.array_equal(multihead.attention(*arrays), plain)
