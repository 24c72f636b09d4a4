"""Capture, AttentionMap and statistics: what is looked up later is what was used."""
import gc

import numpy as np
import pytest

import definition
import multihead


@pytest.fixture(name="seen")
def seen_fixture():
    """(arrays, output, capture, exact probabilities) of a causal call."""
    arrays = definition.inputs(1, queries=9, keys=13)
    output, capture = multihead.capture(*arrays, causal=True, values=True, outputs=True)
    return arrays, output, capture, definition.attention(*arrays, causal=True)[2]


def test_capture_has_the_calls_bits(seen):
    arrays, output, capture, _ = seen
    plain, lse = multihead.attention(*arrays, causal=True, return_lse=True)
    assert np.array_equal(output, plain) and np.array_equal(capture.lse.astype(np.float32), lse) and np.array_equal(capture.output, plain)
    for kept, given in zip((capture.query, capture.key, capture.value), arrays):
        assert np.array_equal(kept, given) and not kept.flags.writeable
    assert capture.output_weight is None and capture.bytes == sum(x.nbytes for x in (*arrays, plain, capture.lse))


def test_views_keep_the_capture_alive(seen):
    query = multihead.capture(*seen[0])[1].query
    gc.collect()
    assert np.array_equal(query, seen[0][0])


def test_map_looks_up_what_was_used(seen):
    arrays, _, capture, exact = seen
    probabilities = multihead.attention_probabilities(*arrays[:2], capture.lse, causal=True)
    for batch in range(2):
        maps = multihead.AttentionMap(capture, batch)
        assert (maps.num_heads, maps.query_len, maps.key_len) == (4, 9, 13)
        assert np.array_equal(maps.row(3, 5), probabilities[batch, 3, 5])
        assert maps.probability(3, 5, 2) == probabilities[batch, 3, 5, 2]
        np.testing.assert_allclose(maps.row(3, 5), exact[batch, 3, 5], atol=1e-6)
        top = maps.top(1, 8, 3)
        assert [one.key for one in top] == list(np.argsort(-exact[batch, 1, 8], kind="stable")[:3])
        assert not maps.visible(0, 0, 12) and maps.visible_keys(0, 0) == 5
        assert maps.at(0, 0, 12).state == multihead.CellState.MASKED
    with pytest.raises(ValueError, match="head"):
        multihead.AttentionMap(capture).row(4, 0)
    with pytest.raises(ValueError, match="batch"):
        multihead.AttentionMap(capture, 2)


def test_tiles_pool(seen):
    exact = seen[3]
    maps = multihead.AttentionMap(seen[2])
    whole = maps.tile(2)
    shown = np.where(whole.state == multihead.CellState.VALUE.value, 2.0**whole.log2, 0)
    np.testing.assert_allclose(shown, exact[0, 2], atol=1e-6)
    mass = maps.tile(2, height=1, width=1, pooling="mass")
    np.testing.assert_allclose(2.0**mass.log2, [[1]], atol=1e-6)
    part = maps.tile(2, rows=(4, 8), keys=(0, 6), height=2, width=3)
    assert part.rows == (4, 8) and part.log2.shape == (2, 3)
    np.testing.assert_allclose(2.0**part.log2, exact[0, 2, 4:8, 0:6].reshape(2, 2, 3, 2).max((1, 3)), atol=1e-6)
    with pytest.raises(ValueError, match="pooling: expected 'max', 'mean' or 'mass'; got 'sum'"):
        maps.tile(0, pooling="sum")


def test_statistics(seen):
    exact = seen[3][0]
    heads = multihead.statistics(multihead.AttentionMap(seen[2]), heads=[1, 3], offsets=[0, 2])
    assert [one.head for one in heads] == [1, 3]
    for one in heads:
        p = exact[one.head]
        entropy = -np.where(p > 0, p * np.log(np.where(p > 0, p, 1)), 0).sum(-1)
        np.testing.assert_allclose(one.row_entropy, entropy, atol=1e-5)
        assert one.entropy.value == pytest.approx(entropy.mean(), abs=1e-5)
        assert one.entropy.uniform == pytest.approx(np.log(np.arange(5, 14)).mean())
        np.testing.assert_allclose(one.received, p.sum(0), atol=1e-5)
        diagonal = [p[i, i + 4 - 2] for i in range(9)]
        assert float(one.offset_mass[1]) == pytest.approx(np.mean(diagonal), abs=1e-6)
        assert one.has_values and one.value_norms.shape == (13,) and one.live_rows == 9


def test_head_kinds():
    """Heads that are made: keys are unit vectors, so a query is its row of scores."""
    n = 60
    key = np.eye(n, dtype=np.float32)[None, None]
    previous, broad = 30 * np.eye(n, k=-1, dtype=np.float32), np.zeros((n, n), np.float32)
    three_back, dots = 30 * np.eye(n, k=-3, dtype=np.float32), np.zeros((n, n), np.float32)
    dots[:, 40] = 30
    scores = np.stack([previous, broad, three_back, dots])[None]
    capture = multihead.capture(scores, key, key, scale=1.0)[1]
    heads = multihead.statistics(multihead.AttentionMap(capture))
    tokens = ["." if j == 40 else f"t{j}" for j in range(n)]
    looks = [multihead.look_of(head, tokens) for head in heads]
    assert [str(look) for look in looks] == ["previous token", "broad", "3 tokens back", "separators"]
    assert [look.kind for look in looks] == [multihead.HeadKind.PREVIOUS, multihead.HeadKind.BROAD, multihead.HeadKind.OFFSET,
                                             multihead.HeadKind.SEPARATOR]
    assert looks[2].distance == 3 and looks[0].distance == 0
    assert looks[0].measured.value == pytest.approx((n - 1) / n, abs=1e-6)  # row 0 has none before it
    assert looks[3].separator_mass.value == pytest.approx(1, abs=1e-6) and looks[3].separator_mass.uniform == pytest.approx(1 / n)
    assert multihead.look_of(heads[3]).kind != multihead.HeadKind.SEPARATOR
    assert multihead.most_interesting(looks) == 3 and multihead.most_interesting([]) == -1
    with pytest.raises(ValueError, match="look_of: expected a token for each of 60 keys; got 2"):
        multihead.look_of(heads[0], ["a", "b"])


@pytest.mark.parametrize("options", [{}, {"causal": True}, {"causal": True, "window": (2, None), "key_lengths": [13, 6]}])
def test_statistics_that_ride_along(options):
    arrays = definition.inputs(3, queries=9, keys=13)
    output, lse, seen = multihead.attention_with_statistics(*arrays, return_lse=True, **options)
    plain, plain_lse = multihead.attention(*arrays, return_lse=True, **options)
    assert np.array_equal(output, plain) and np.array_equal(lse, plain_lse)
    p = definition.attention(*arrays, **options)[2]
    entropy = -np.where(p > 0, p * np.log(np.where(p > 0, p, 1)), 0).sum(-1)
    np.testing.assert_allclose(seen.entropy, entropy, atol=2e-5)
    np.testing.assert_allclose(seen.max_probability, p.max(-1), atol=1e-6)
    squares = (p**2).sum(-1)
    np.testing.assert_allclose(seen.effective_keys, np.divide(p.sum(-1)**2, squares, out=np.zeros_like(squares), where=squares > 0),
                               rtol=1e-5)
    position = np.array(options.get("key_lengths", [13, 13]))[:, None, None] - 9 + np.arange(9)[:, None]
    distance = np.abs(position - np.arange(13))[:, None]
    np.testing.assert_allclose(seen.mean_distance, (p * distance).sum(-1), atol=2e-5)
    again, _ = multihead.attention_with_statistics(*arrays, out=output, **options)
    assert again is output and np.array_equal(again, plain)
    with pytest.raises(TypeError, match="attention_with_statistics: key: expected float32"):
        multihead.attention_with_statistics(arrays[0], arrays[1].astype(int), arrays[2])


def test_similarity_of_heads(seen):
    exact, maps = seen[3][0], multihead.AttentionMap(seen[2])
    alike = multihead.head_similarity(maps)
    gram = np.einsum("aij,bij->ab", exact, exact)
    assert alike.heads == [0, 1, 2, 3]
    np.testing.assert_allclose(alike.gram, gram, rtol=1e-5)
    np.testing.assert_allclose(np.diag(alike.gram), [one.squares for one in multihead.statistics(maps)], rtol=1e-6)
    assert alike.cosine(1, 1) == pytest.approx(1)
    two = multihead.head_similarity(maps, heads=[3, 1])
    assert two.heads == [3, 1] and two.cosine(0, 1) == pytest.approx(gram[3, 1] / np.sqrt(gram[3, 3] * gram[1, 1]), rel=1e-5)
    for wrong in (2, -1):
        with pytest.raises(ValueError, match=f"HeadSimilarity.cosine: b: expected a place in heads, 0 to 1; got {wrong}"):
            two.cosine(0, wrong)
    with pytest.raises(ValueError, match="head"):
        multihead.head_similarity(maps, heads=[4])
    with pytest.raises(multihead.Cancelled):
        multihead.head_similarity(maps, progress=lambda done: False)


def test_progress_cancels_and_passes_errors_on(seen):
    maps = multihead.AttentionMap(seen[2])
    shares = []
    multihead.statistics(maps, progress=shares.append)
    assert shares == sorted(shares) and all(0 <= share <= 1 for share in shares) and shares
    with pytest.raises(multihead.Cancelled):
        multihead.statistics(maps, progress=lambda done: False)

    def interrupt(done):
        raise KeyboardInterrupt(done)

    with pytest.raises(KeyboardInterrupt):
        multihead.statistics(maps, progress=interrupt)


def test_labels_and_files(seen, tmp_path):
    capture = seen[2]
    capture.name, capture.layer, capture.model = "block.3", 3, "made up"
    capture.query_tokens = [f"q{i}" for i in range(9)]
    capture.key_tokens = ["a", "é", "", "<b>"] + ["x"] * 9
    capture.output_weight = np.ones((7, 44), np.float32)
    capture.save(tmp_path / "one.safetensors")
    again = multihead.load_capture(tmp_path / "one.safetensors")
    assert (again.name, again.layer, again.model) == ("block.3", 3, "made up")
    assert again.query_tokens == capture.query_tokens and again.key_tokens == capture.key_tokens
    assert np.array_equal(again.output_weight, capture.output_weight)
    assert np.array_equal(multihead.AttentionMap(again).row(0, 4), multihead.AttentionMap(capture).row(0, 4))
    (tmp_path / "broken").write_bytes(b"no capture")
    with pytest.raises(multihead.FormatError, match="broken"):
        multihead.load_capture(tmp_path / "broken")
    with pytest.raises(OSError, match="absent"):
        multihead.load_capture(tmp_path / "absent")


def test_captures_of_layers_and_caches():
    preset = multihead.find_preset("lab")
    layer = multihead.MultiHeadAttention(preset.config, multihead.preset_weights(preset))
    _, capture = layer.capture(multihead.preset_input(preset, 3)[None], values=True)
    np.testing.assert_allclose(multihead.AttentionMap(capture).row(0, 0), [0.4856, 0.0287, 0.4856], atol=5e-5)
    assert capture.output_weight.shape == (4, 4)
    query, key, value = definition.inputs(2, queries=2)
    cache = multihead.KvCache(sequences=2, num_kv_heads=2, head_dim=16, value_dim=11, capacity=13)
    cache.append(key, value)
    output, seen = cache.capture(query)
    assert np.array_equal(output, cache.attend(query))
    np.testing.assert_allclose(multihead.AttentionMap(seen).row(0, 1), definition.attention(query, key, value, causal=True)[2][0, 0, 1],
                               atol=1e-6)


def test_the_lab_is_served(tmp_path, seen):
    import shutil
    import urllib.request
    if shutil.which("multihead") is None:
        with pytest.raises(FileNotFoundError, match="expected the command line `multihead` on PATH"):
            multihead.lab()
        pytest.skip("no multihead on PATH")
    with multihead.lab(seen[2], open_browser=False) as lab:
        with urllib.request.urlopen(lab.address) as page:
            assert b"<html" in page.read()
    lab.stop()
    with pytest.raises(RuntimeError, match="lab"):
        multihead.lab(tmp_path / "absent.safetensors", open_browser=False)
