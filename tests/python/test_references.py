"""Whose is what: every reference that a call takes is given back, and what it returns owns its memory, or keeps the owner."""
import gc
import sys
import types
import weakref

import ml_dtypes
import numpy as np
import pytest

import definition
import multihead


class OnlyDLPack:
    """An array that is nothing but a producer."""

    def __init__(self, x):
        self.x = x

    def __dlpack__(self, **_):
        return self.x.__dlpack__()


def given(wrap=lambda x: x, dtype=np.float32):
    """Everything that the calls below are given. All of it is watched, what is wrapped and what it is wrapped in."""
    plain = definition.inputs(10, dtype=dtype)
    output, lse = multihead.attention(*plain, return_lse=True)
    g = types.SimpleNamespace(plain_query=plain[0], plain_key=plain[1], plain_value=plain[2], output=output, lse=lse)
    g.query, g.key, g.value = (wrap(x) for x in plain)
    g.out, g.bias, g.mask = np.empty_like(output), np.zeros((9, 13), dtype), np.ones(13, bool)
    g.sinks, g.lengths, g.heads = [0.25, 0.5, 0.75, 1.25], [1300, 1301], [2, 3]
    g.cache = multihead.KvCache(sequences=2, num_kv_heads=2, head_dim=16, value_dim=11, capacity=13)
    g.cache.append(*plain[1:])
    g.seen = multihead.capture(*plain, values=True, outputs=True)[1]
    g.maps = multihead.AttentionMap(g.seen)
    g.config = multihead.LayerConfig(model_dim=4, num_heads=2)
    g.weights = {name: np.eye(4, dtype=np.float32) for name in ("query_weight", "key_weight", "value_weight", "output_weight")}
    g.weight, g.x = g.weights["query_weight"], np.ones((1, 3, 4), np.float32)
    g.layer = multihead.MultiHeadAttention(g.config, g.weights)
    g.layer_cache = multihead.KvCache(num_kv_heads=2, head_dim=2, capacity=3)
    g.wide = np.ones((7, 4 * 11), dtype)
    g.progress = lambda done: None
    return g


def append(g, key):
    for sequence in range(2):
        g.cache.truncate(sequence, 0)
    return g.cache.append(key, g.value)


def over_a_cache(g, x):
    g.layer_cache.truncate(0, 0)
    return g.layer(x, cache=g.layer_cache)


def keep_weight(g, weight):
    seen = multihead.capture(g.query, g.key, g.value)[1]
    seen.output_weight = weight
    return multihead.AttentionMap(seen)


# Name: (which of the given things the call gets as its second argument, the call). With another one it refuses.
CALLS = {
    "attention": ("value", lambda g, x: multihead.attention(
        g.query, g.key, x, mask=g.mask, attention_bias=g.bias, sinks=g.sinks, window=(3, None), return_lse=True)),
    "attention into out": ("out", lambda g, x: multihead.attention(g.query, g.key, g.value, out=x)),
    "attention with a mask": ("mask", lambda g, x: multihead.attention(g.query, g.key, g.value, mask=x)),
    "attention with sinks": ("sinks", lambda g, x: multihead.attention(g.query, g.key, g.value, sinks=x)),
    "attention_probabilities": ("lse", lambda g, x: multihead.attention_probabilities(g.query, g.key, x)),
    "reference_attention": ("key", lambda g, x: multihead.reference_attention(g.query, x, g.value, mask=g.mask)),
    "attention_with_statistics": ("key", lambda g, x: multihead.attention_with_statistics(
        g.query, x, g.value, mask=g.mask, return_lse=True)),
    "plan": ("query", lambda g, x: multihead.plan(x, g.key, g.value)),
    "attention_backward": ("output", lambda g, x: multihead.attention_backward(
        g.query, g.key, g.value, x, g.lse, g.output, attention_bias=g.bias, sinks=g.sinks,
        wanted=["query", "key", "value", "attention_bias", "sinks"])),
    "merge": ("output", lambda g, x: multihead.merge([g.output, x], [g.lse, g.lse], g.sinks, return_lse=True)),
    "capture": ("query", lambda g, x: multihead.capture(x, g.key, g.value, mask=g.mask, values=True, outputs=True)),
    "Capture.output_weight": ("wide", keep_weight),
    "KvCache.append": ("key", append),
    "KvCache.attend": ("query", lambda g, x: g.cache.attend(x, return_lse=True, sinks=g.sinks)),
    "KvCache.capture": ("query", lambda g, x: g.cache.capture(x, values=True)),
    "MultiHeadAttention": ("weight", lambda g, x: multihead.MultiHeadAttention(g.config, {**g.weights, "query_weight": x})),
    "MultiHeadAttention.forward": ("x", lambda g, x: g.layer(x)),
    "MultiHeadAttention.forward across": ("x", lambda g, x: g.layer(g.x, x, g.x)),
    "MultiHeadAttention.forward over a cache": ("x", over_a_cache),
    "MultiHeadAttention.capture": ("x", lambda g, x: g.layer.capture(x, values=True)),
    "AttentionMap": ("seen", lambda g, x: multihead.AttentionMap(x)),
    "AttentionMap.row": ("x", lambda g, x: g.maps.row(1, 3) if x is g.x else g.maps.row(x, 3)),
    "AttentionMap.tile": ("progress", lambda g, x: g.maps.tile(1, progress=x)),
    "AttentionMap.picture": ("progress", lambda g, x: g.maps.picture(progress=x)),
    "AttentionMap._repr_png_": ("maps", lambda g, x: multihead.AttentionMap._repr_png_(x)),
    "Capture._repr_png_": ("seen", lambda g, x: multihead.Capture._repr_png_(x)),
    "statistics": ("heads", lambda g, x: multihead.statistics(g.maps, heads=x, progress=g.progress)),
    "head_similarity": ("heads", lambda g, x: multihead.head_similarity(g.maps, heads=x, progress=g.progress)),
    "statistics of a map": ("maps", lambda g, x: multihead.statistics(x)),
}

# Another shape, another element type, no array at all.
WRONG = [np.zeros((2, 3, 5), np.float32), np.zeros((2, 4, 9, 16), np.int64), object()]


def arrays_in(result):
    """(place, array) of every array that a result holds or gives out."""
    if isinstance(result, np.ndarray):
        yield "", result
    elif isinstance(result, (tuple, list)):
        for number, part in enumerate(result):
            yield from ((f"[{number}]{place}", array) for place, array in arrays_in(part))
    elif type(result).__module__.startswith("multihead"):
        for name in dir(type(result)):
            if isinstance(getattr(type(result), name), property):
                yield from ((f".{name}{place}", array) for place, array in arrays_in(getattr(result, name)))


def refused(call):
    try:
        call()
    except (TypeError, ValueError):
        return True
    return False


KINDS = {"arrays": lambda x: x, "bfloat16": lambda x: x, "buffers": memoryview, "DLPack": OnlyDLPack}
OF_ARRAYS = ("attention", "capture", "KvCache", "plan", "reference")  # the calls that get query, key or value


@pytest.mark.parametrize("name, kind", [(name, kind) for kind in KINDS for name in CALLS
                                        if kind == "arrays" or name.startswith(OF_ARRAYS)])
def test_references_are_given_back(name, kind):
    g = given(KINDS[kind], ml_dtypes.bfloat16 if kind == "bfloat16" else np.float32)
    argument, call = CALLS[name]
    watched = [*vars(g).values(), *WRONG, *g.sinks, *g.lengths]
    right = getattr(g, argument)
    call(g, right)  # what is made once, and stays
    del right
    before = [sys.getrefcount(x) for x in watched]
    for _ in range(3):
        call(g, getattr(g, argument))
        for wrong in WRONG:
            assert refused(lambda: call(g, wrong)), wrong  # pylint: disable=cell-var-from-loop
        del wrong
    assert [sys.getrefcount(x) for x in watched] == before
    for x in (g.plain_query, g.plain_key, g.plain_value, g.bias, g.mask, g.lse):
        if kind != "buffers" and x.base is None and x.flags.owndata:
            x.resize((1,), refcheck=False)  # a buffer that is still exported would refuse


@pytest.mark.parametrize("name", CALLS)
def test_results_die_when_nobody_has_them(name):
    g = given()
    argument, call = CALLS[name]
    result = call(g, getattr(g, argument))
    ends = [(place, weakref.ref(array)) for place, array in arrays_in(result)]
    gc.disable()  # dead by reference count alone
    try:
        g.out = None
        del result
        assert [place for place, end in ends if end() is not None] == []
    finally:
        gc.enable()


@pytest.mark.parametrize("name", CALLS)
def test_results_own_their_memory(name):
    g = given()
    argument, call = CALLS[name]
    found = list(arrays_in(call(g, getattr(g, argument))))
    copies = [array.copy() for _, array in found]
    del g
    gc.collect()
    for _ in range(5):
        call(again := given(), getattr(again, argument))
    for (place, array), copy in zip(found, copies):
        assert np.array_equal(array, copy, equal_nan=True), place


def test_which_results_have_arrays():
    g = given()
    counts = {name: len(list(arrays_in(call(g, getattr(g, argument))))) for name, (argument, call) in CALLS.items()}
    assert counts["attention"] == 2 and counts["reference_attention"] == 3 and counts["attention_backward"] == 5
    assert counts["capture"] == 1 + 5 and counts["AttentionMap.tile"] == 5 and counts["statistics"] > 10
    assert counts["attention_with_statistics"] == 2 + 4 and counts["head_similarity"] == 1


def test_views_keep_their_capture_and_maps_too():
    query, key, value = definition.inputs(11)
    seen = multihead.capture(query, key, value)[1]
    before = sys.getrefcount(seen)
    view = seen.query
    assert sys.getrefcount(seen) == before + 1
    del view
    assert sys.getrefcount(seen) == before
    maps = multihead.AttentionMap(seen)
    row = maps.row(0, 0)
    del seen
    gc.collect()
    assert np.array_equal(maps.row(0, 0), row)


def test_an_exception_of_a_callback_is_let_go():
    maps = given().maps

    class Marked(Exception):
        pass

    ends = []

    def progress(done):
        error = Marked(done)
        ends.append(weakref.ref(error))
        raise error

    before = sys.getrefcount(progress)
    for call in (lambda: maps.tile(0, progress=progress), lambda: maps.picture(progress=progress),
                 lambda: multihead.statistics(maps, progress=progress)):
        try:
            call()
        except Marked:
            pass
        else:
            raise AssertionError("not raised")
    gc.collect()
    assert ends and all(end() is None for end in ends)
    assert sys.getrefcount(progress) == before
