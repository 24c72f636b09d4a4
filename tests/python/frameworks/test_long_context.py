"""`observe` and its statistics where the matrices would not fit: a Llama of random weights at 16,384 tokens.

Run as a program, with a length, it is the process whose memory is measured: it prints what it saw as JSON.
"""
import json
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest
import torch
import transformers

import multihead
import multihead.transformers

LAYERS, HEADS, KV_HEADS, HEAD_DIM, WIDTH = 2, 4, 2, 64, 256
F32 = 4  # bytes
BESIDE = 14  # activations of [length, WIDTH] that may live at once


def model_of(length):
    torch.manual_seed(0)
    config = transformers.LlamaConfig(hidden_size=WIDTH, num_hidden_layers=LAYERS, num_attention_heads=HEADS, num_key_value_heads=KV_HEADS,
                                      head_dim=HEAD_DIM, intermediate_size=WIDTH, vocab_size=256, max_position_embeddings=length)
    model = transformers.LlamaModel._from_config(config, attn_implementation="sdpa").eval()
    for name, parameter in model.named_parameters():
        if "q_proj" in name or "k_proj" in name:
            torch.nn.init.normal_(parameter, std=0.1)  # scores of some size: transformers' own give nearly even attention
    return model


def ids_of(length):
    return torch.randint(0, 256, (1, length), generator=torch.Generator().manual_seed(1))


def look(length):
    """(Seen, output) of one call."""
    ids, model = ids_of(length), model_of(length)
    with torch.no_grad(), multihead.observe(model) as seen:
        output = model(input_ids=ids, attention_mask=torch.ones_like(ids), use_cache=False)[0]
    return seen, output


def exact_rows(capture, head, rows):
    """Coefficients of some rows in float64, [rows, keys]."""
    query, key = (np.asarray(x, np.float64) for x in (capture.query[0, head], capture.key[0, head // (HEADS // KV_HEADS)]))
    scores = query[rows] @ key.T / np.sqrt(HEAD_DIM)
    scores[np.arange(len(key)) > np.asarray(rows)[:, None]] = -np.inf
    p = np.exp(scores - scores.max(-1, keepdims=True))
    return p / p.sum(-1, keepdims=True)


def check_rows(found, p, rows):
    """What `statistics` says of some rows, beside their coefficients."""
    logarithm = np.log(np.where(p > 0, p, 1))
    back = np.abs(np.asarray(rows)[:, None] - np.arange(p.shape[1]))
    np.testing.assert_allclose(found.row_entropy[rows], -(p * logarithm).sum(-1), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(found.row_max_probability[rows], p.max(-1), rtol=1e-5)
    np.testing.assert_allclose(found.row_effective_keys[rows], 1 / np.square(p).sum(-1), rtol=2e-5)
    np.testing.assert_allclose(found.row_mean_distance[rows], (p * back).sum(-1), rtol=1e-5, atol=1e-5)
    assert found.row_visible[rows].tolist() == [row + 1 for row in rows]


def memory(what):
    """VmHWM (the most so far) or VmRSS in bytes. Not ru_maxrss, which a process inherits from the one that started it."""
    line = next(line for line in pathlib.Path("/proc/self/status").read_text().splitlines() if line.startswith(what))
    return int(line.split()[1]) * 1024


def measured(length):
    look(16)[0].statistics()  # what is loaded and started once
    before = memory("VmRSS")
    seen, _ = look(length)
    statistics = seen.statistics()
    peak = memory("VmHWM") - before  # what follows is NumPy's
    rows = [0, 1, length // 3, length // 2 + 1, length - 1]
    for name, heads in statistics.items():
        for head, found in enumerate(heads):
            p = exact_rows(seen.capture(name), head, rows)
            check_rows(found, p, rows)
            assert seen.maps(name).top(head, rows[-1], 1)[0].key == p[-1].argmax()
            assert abs(found.received.sum() - length) < 1e-5 * length  # every row gives 1
            assert abs(found.received[-1] - p[-1, -1]) < 1e-6  # only the last row sees the last key
    return {"layers": len(statistics), "heads": sum(map(len, statistics.values())), "peak": peak,
            "captures": sum(seen.capture(name).bytes for name in seen.layers)}


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc/self/status")
def test_memory_grows_with_the_length():
    # glibc gives large blocks back as soon as they are freed, so that the peak is what was needed.
    environment = os.environ | {"HF_HUB_OFFLINE": "1", "MALLOC_MMAP_THRESHOLD_": "131072", "MALLOC_ARENA_MAX": "1"}
    peaks = {}
    for length in (4096, 16384):
        done = subprocess.run([sys.executable, __file__, str(length)], stdout=subprocess.PIPE, text=True, check=True, env=environment)
        report = json.loads(done.stdout)
        peaks[length], token = report["peak"], F32 * length
        matrices = HEADS * length * token  # eager's, of one layer
        print(f"{length} tokens: captures {report['captures'] / 1e6:.1f} MB, at most {report['peak'] / 1e6:.1f} MB in all; "
              f"the matrices of one layer {matrices / 1e6:.1f} MB")
        assert (report["layers"], report["heads"]) == (LAYERS, LAYERS * HEADS)
        # Queries, keys and lse (float64); nothing of a mask.
        assert report["captures"] == LAYERS * token * ((HEADS + KV_HEADS) * HEAD_DIM + 2 * HEADS)
        # Beside them the activations of one layer, a few matrices of [length, WIDTH], and the model.
        assert report["peak"] <= report["captures"] + BESIDE * token * WIDTH
    assert peaks[16384] <= 1.2 * 4 * peaks[4096]  # four times the length: four times as much, not sixteen
    assert peaks[16384] <= matrices / 20


def test_every_row_at_a_length_that_numpy_can():
    seen, output = look(300)
    with torch.no_grad():
        torch.testing.assert_close(output, model_of(300)(input_ids=ids_of(300))[0], rtol=1e-4, atol=1e-4)
    rows = list(range(300))
    for name, heads in seen.statistics().items():
        for head, found in enumerate(heads):
            p = exact_rows(seen.capture(name), head, rows)
            check_rows(found, p, rows)
            np.testing.assert_allclose(found.received, p.sum(0), atol=1e-4)
            back = range(found.first_distance, found.first_distance + len(found.distance_mass))
            np.testing.assert_allclose(found.distance_mass, [np.trace(p, -d) for d in back], atol=1e-4)
            np.testing.assert_allclose(seen.map(name, head), p, atol=2e-6)


if __name__ == "__main__":
    print(json.dumps(measured(int(sys.argv[1]))))
