"""MultiHeadAttention, its configuration and description, KvCache, checkpoints."""
import gc
import json
import os
import pathlib

import ml_dtypes
import numpy as np
import pytest

import definition
import multihead


def layer_by_hand(x, memory, weights, heads, kv_heads, **constraints):
    """The layer's equation, in float64."""
    x, memory = (np.asarray(a).astype(np.float64) for a in (x, memory))
    project = lambda a, name, count: (a @ weights[name].astype(np.float64).T).reshape(*a.shape[:2], count, -1).swapaxes(1, 2)
    joined = definition.attention(project(x, "query_weight", heads), project(memory, "key_weight", kv_heads),
                                  project(memory, "value_weight", kv_heads), **constraints)[0]
    joined = joined.swapaxes(1, 2).reshape(*x.shape[:2], -1)
    return joined @ weights["output_weight"].astype(np.float64).T


def small(seed=0, **more):
    """(configuration, weights) of 4 heads over 2 key/value heads of 6."""
    config = multihead.LayerConfig(model_dim=10, num_heads=4, num_kv_heads=2, head_dim=6, **more)
    rng = np.random.default_rng(seed)
    shapes = {"query_weight": (24, 10), "key_weight": (12, 10), "value_weight": (12, 10), "output_weight": (10, 24)}
    return config, {name: rng.standard_normal(shape).astype(np.float32) / 3 for name, shape in shapes.items()}


def test_self_and_cross_attention():
    config, weights = small(causal=True)
    x, memory = np.random.default_rng(1).standard_normal((2, 2, 5, 10)).astype(np.float32)
    layer = multihead.MultiHeadAttention(config, weights)
    definition.near(layer(x), layer_by_hand(x, x, weights, 4, 2, causal=True, offset=0))
    definition.near(layer.forward(x, memory), layer_by_hand(x, memory, weights, 4, 2, causal=True, offset=0))
    definition.near(layer(x, memory, memory, key_lengths=[5, 2]),
                    layer_by_hand(x, memory, weights, 4, 2, causal=True, offset=0, key_lengths=[5, 2]))
    assert layer(x.astype(ml_dtypes.bfloat16)).dtype == ml_dtypes.bfloat16
    assert layer.config.value_dim == 6 and layer.config.causal
    with pytest.raises(ValueError, match="value_input: expected key_input"):
        layer(x, value_input=memory)


def test_the_lab_preset_is_the_readmes():
    preset = multihead.find_preset("lab")
    layer = multihead.MultiHeadAttention(preset.config, multihead.preset_weights(preset))
    output = layer(multihead.preset_input(preset, 3)[None])
    np.testing.assert_allclose(output[0, 0], [1.9426, 0.0574, 1.9426, 0.0574], atol=5e-5)


def test_weights_are_checked_by_name():
    config, weights = small()
    with pytest.raises(TypeError, match="no weight 'q_weight'; expected some of query_weight"):
        multihead.MultiHeadAttention(config, {"q_weight": weights["query_weight"]})
    with pytest.raises(TypeError, match="query_weight: expected float32"):
        multihead.MultiHeadAttention(config, {**weights, "query_weight": weights["query_weight"].astype(float)})
    with pytest.raises(ValueError, match=r"query_weight.*\[24, 9\]"):
        multihead.MultiHeadAttention(config, {**weights, "query_weight": weights["query_weight"][:, :9]})
    with pytest.raises(ValueError, match="value_weight"):
        multihead.MultiHeadAttention(config, {**weights, "value_weight": None})


def test_configurations():
    config = multihead.LayerConfig(model_dim=512, num_heads=8, window=(3, None),
                                   rotary=multihead.Rotary(theta=5e5, scaling=multihead.YarnRotaryScaling(factor=4)),
                                   query_key_norm=multihead.QueryKeyNorm(kind=multihead.QueryKeyNormKind.LAYER))
    assert config.resolved().head_dim == 64 and config.window == (3, None) and config.rotary.scaling.factor == 4
    assert config.query_key_norm.kind == multihead.QueryKeyNormKind.LAYER and config.scale is None
    config.window = config.rotary = None
    assert config.window is None and config.rotary is None
    with pytest.raises(ValueError, match="divisors 1, 2, 5, 10"):
        multihead.LayerConfig(model_dim=10, num_heads=3).resolved()
    with pytest.raises(TypeError, match="LayerConfig: no field 'heads'"):
        multihead.LayerConfig(heads=3)


def test_describe_counts():
    described = multihead.describe(multihead.find_preset("llama-7b").config, 4096)
    assert described.parameters == 4 * 4096 * 4096 and described.bytes_not_stored == 32 * 4096 * 4096 * 4
    steps = {step.name: step for step in described.steps}
    assert steps["query heads"].shape == (32, 4096, 128) and not steps["probabilities"].stored
    assert "Q = X W_Q" in repr(described)


@pytest.mark.parametrize("chunks", [[9], [4, 5], [1] * 9])
def test_cache_gives_the_bits_of_one_pass(chunks):
    query, key, value = definition.inputs(3, queries=9, keys=9)
    whole = multihead.attention(query, key, value, causal=True)
    cache = multihead.KvCache(sequences=2, num_kv_heads=2, head_dim=16, value_dim=11, capacity=9)
    begin = 0
    for size in chunks:
        cut = np.s_[:, :, begin:begin + size]
        cache.append(key[cut], value[cut])
        assert np.array_equal(cache.attend(query[cut]), whole[cut])
        begin += size
    assert cache.length(1) == 9 and np.array_equal(cache.keys(1), key[1]) and np.array_equal(cache.values(0), value[0])
    with pytest.raises(ValueError, match="holds 9 of 9 positions; got 9 more"):
        cache.append(key, value)
    cache.truncate(0, 4)
    assert cache.length(0) == 4 and cache.keys(0).shape == (2, 4, 16)


def test_cache_of_one_sequence_and_other_storage():
    query, key, value = definition.inputs(4, queries=1)
    cache = multihead.KvCache(sequences=2, num_kv_heads=2, head_dim=16, value_dim=11, capacity=20, dtype=ml_dtypes.bfloat16)
    cache.append(key[1], value[1], sequence=1)
    assert cache.length(0) == 0 and cache.length(1) == 13 and cache.dtype == "bfloat16"
    output, lse = cache.attend(query[1:], sequences=[1], return_lse=True)
    rounded = [x[1:].astype(ml_dtypes.bfloat16) for x in (key, value)]
    exact, exact_lse, _ = definition.attention(query[1:], *rounded)
    definition.near(output, exact)
    np.testing.assert_allclose(lse, exact_lse, atol=1e-5)
    with pytest.raises(TypeError, match="KvCache: dtype: expected the name of an element type"):
        multihead.KvCache(num_kv_heads=1, head_dim=1, capacity=1, dtype="half")


def test_layer_over_a_cache():
    config, weights = small(causal=True, rotary=multihead.Rotary())
    layer = multihead.MultiHeadAttention(config, weights)
    x = np.random.default_rng(5).standard_normal((1, 7, 10)).astype(np.float32)
    cache = multihead.KvCache(num_kv_heads=2, head_dim=6, capacity=7)
    parts = [layer(x[:, begin:end], cache=cache) for begin, end in ((0, 3), (3, 4), (4, 7))]
    assert np.array_equal(np.concatenate(parts, 1), layer(x))
    with pytest.raises(ValueError, match="cache: expected self attention"):
        layer(x, x, cache=cache)


def test_checkpoint_of_a_torch_layer(tmp_path):
    # nn.MultiheadAttention's names: 2 heads of 5.
    rng = np.random.default_rng(6)
    write_safetensors(tmp_path / "model.safetensors", {
        "in_proj_weight": rng.standard_normal((30, 10)).astype(np.float32), "in_proj_bias": np.zeros(30, np.float32),
        "out_proj.weight": np.eye(10, dtype=np.float32), "out_proj.bias": np.zeros(10, np.float32)})
    (tmp_path / "config.json").write_text('{"num_heads": 2}')
    found = multihead.load_checkpoint(tmp_path)
    assert len(found) == 1 and found.layers[0].family == "torch" and found.layers[0].config.num_heads == 2
    assert found.load_weights(0)["query_weight"].shape == (10, 10) and found.layers[0].role == "self"
    layer = found.load(0)
    del found
    gc.collect()
    assert layer(np.zeros((1, 2, 10), np.float32)).shape == (1, 2, 10)
    with pytest.raises(OSError, match="nowhere"):
        multihead.load_checkpoint(tmp_path / "nowhere")


def write_safetensors(path, tensors):
    """The format by hand: length of the header, header, data."""
    header, data = {}, b""
    for name, x in tensors.items():
        header[name] = {"dtype": "F32", "shape": list(x.shape), "data_offsets": [len(data), len(data) + x.nbytes]}
        data += x.tobytes()
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


@pytest.mark.skipif("MULTIHEAD_SHARED_DATA" not in os.environ, reason="MULTIHEAD_SHARED_DATA names no folder with stories260k")
def test_a_real_checkpoint():
    found = multihead.load_checkpoint(pathlib.Path(os.environ["MULTIHEAD_SHARED_DATA"]) / "stories260k")
    assert {layer.family for layer in found.layers} == {"llama"}
    layer = found.load(0)
    width = layer.config.model_dim
    assert layer(np.ones((1, 3, width), np.float32)).shape == (1, 3, width)
