"""attn_implementation="multihead" beside sdpa and eager on tiny random models of each kind, and observe."""
import gc
import types

import numpy as np
import pytest
import torch
import transformers

import multihead
import multihead.transformers

SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48, "vocab_size": 64,
         "max_position_embeddings": 64}
GQA = SIZES | {"num_key_value_heads": 2, "pad_token_id": 0}
T5 = {"d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4, "vocab_size": 64, "decoder_start_token_id": 0, "dropout_rate": 0.0}
BART = {"d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4, "decoder_attention_heads": 4,
        "encoder_ffn_dim": 48, "decoder_ffn_dim": 48, "vocab_size": 64, "max_position_embeddings": 64, "decoder_start_token_id": 2}

# name: (configuration, model class, the implementation that is the oracle: eager where sdpa cannot)
MODELS = {
    "bert": (lambda: transformers.BertConfig(**SIZES), transformers.BertModel, "sdpa"),
    "llama": (lambda: transformers.LlamaConfig(**GQA), transformers.LlamaForCausalLM, "sdpa"),
    "mistral": (lambda: transformers.MistralConfig(**GQA, sliding_window=4), transformers.MistralForCausalLM, "sdpa"),
    "gemma2": (lambda: transformers.Gemma2Config(**GQA, head_dim=8, sliding_window=4, query_pre_attn_scalar=8),
               transformers.Gemma2ForCausalLM, "eager"),
    "gpt_oss": (lambda: transformers.GptOssConfig(**GQA, head_dim=8, sliding_window=4, num_local_experts=2, num_experts_per_tok=1),
                transformers.GptOssForCausalLM, "eager"),
    "t5": (lambda: transformers.T5Config(**T5), transformers.T5ForConditionalGeneration, "sdpa"),
    "bart": (lambda: transformers.BartConfig(**BART), transformers.BartForConditionalGeneration, "sdpa"),
}


def model_of(name, implementation):
    """The same random model each time."""
    config, kind, _ = MODELS[name]
    torch.manual_seed(0)
    model = kind._from_config(config(), attn_implementation=implementation).eval()
    for parameter in model.parameters():  # larger than transformers' own: attention that is nearly uniform shows little
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=0.3)
    return model


def inputs_of(name, batch=2, length=9):
    """Ids, with padding in front in the second row."""
    generator = torch.Generator().manual_seed(1)
    inputs = {"input_ids": torch.randint(3, 64, (batch, length), generator=generator)}
    if batch > 1:
        inputs["attention_mask"] = torch.ones(batch, length, dtype=torch.long)
        inputs["attention_mask"][1, :3] = 0
    if name in ("t5", "bart"):
        inputs["decoder_input_ids"] = torch.randint(3, 64, (batch, 5), generator=generator)
    return inputs


def answer(model, inputs):
    """The model's numbers, without rows of padding, which see nothing and mean nothing."""
    with torch.no_grad():
        output = model(**inputs)[0]
    kept = inputs.get("attention_mask") if "decoder_input_ids" not in inputs else None
    return output if kept is None else output[kept.bool()]


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("name", MODELS)
def test_forward(name, batch):
    theirs, mine = model_of(name, MODELS[name][2]), model_of(name, "multihead")
    assert mine.config._attn_implementation == "multihead"
    inputs = inputs_of(name, batch)
    torch.testing.assert_close(answer(mine, inputs), answer(theirs, inputs), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", [name for name in MODELS if name != "bert"])
def test_generate_with_cache(name):
    inputs = inputs_of(name, batch=1)
    inputs.pop("decoder_input_ids", None)
    options = {"max_new_tokens": 8, "do_sample": False, "min_new_tokens": 8, "pad_token_id": 0}
    theirs = model_of(name, MODELS[name][2]).generate(**inputs, **options)
    mine = model_of(name, "multihead").generate(**inputs, **options)
    assert torch.equal(mine, theirs) and mine.shape[1] >= 8


def test_gradients():
    grads = []
    for implementation in ("eager", "multihead"):
        model = model_of("llama", implementation)
        ids = inputs_of("llama", batch=1)["input_ids"]
        model(input_ids=ids, labels=ids).loss.backward()
        grads.append([parameter.grad for parameter in model.parameters()])
    for a, b in zip(*grads):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("name", ["bert", "llama", "mistral", "gemma2", "t5", "bart"])
def test_observe_sees_what_eager_returns(name):
    theirs, model = model_of(name, "eager"), model_of(name, MODELS[name][2])
    inputs = inputs_of(name, batch=1)
    with torch.no_grad():
        before = model(**inputs)[0]
        weights = theirs(**inputs, output_attentions=True)
        with multihead.observe(model, values=True) as seen:
            model(**inputs)
        assert torch.equal(model(**inputs)[0], before)
    assert model.config._attn_implementation == MODELS[name][2] and not multihead.transformers._watched
    kinds = {"attentions": "", "encoder_attentions": "encoder", "decoder_attentions": "decoder", "cross_attentions": "cross"}
    compared = 0
    for attribute, part in kinds.items():
        if getattr(weights, attribute, None) is None:
            continue
        cross = multihead.transformers._is_cross
        layers = [layer for layer in seen.layers
                  if part == "" or (cross(layer) if part == "cross" else layer.startswith((part, f"model.{part}")) and not cross(layer))]
        for layer, expected in zip(layers, getattr(weights, attribute), strict=True):
            for head in range(4):
                np.testing.assert_allclose(seen.map(layer, head), expected[0, head].numpy(), atol=1e-5)
            compared += 1
    assert compared == len(seen.layers)


def test_observe_labels_and_statistics(tmp_path):
    model = model_of("llama", "sdpa")
    ids = inputs_of("llama", batch=1)["input_ids"]
    tokenizer = types.SimpleNamespace(convert_ids_to_tokens=lambda ids: [f"<{i}>" for i in ids])
    with multihead.observe(model, tokenizer=tokenizer) as seen:
        whole = model.generate(ids, max_new_tokens=3, do_sample=False, pad_token_id=0)
    assert seen.layers == ["model.layers.0.self_attn", "model.layers.1.self_attn"]
    first, last = seen.capture(0, call=0), seen.capture("model.layers.0.self_attn")
    words = [f"<{i}>" for i in whole[0].tolist()]
    assert first.query_tokens == first.key_tokens == words[:9] and (first.layer, seen.capture(1).layer) == (0, 1)
    assert last.query_tokens == words[10:11] and last.key_tokens == words[:11]
    assert len(seen.captures[seen.layers[0]]) == 3
    heads = seen.statistics(call=0)["model.layers.1.self_attn"]
    assert len(heads) == 4 and heads[0].has_tokens and heads[0].received.sum() == pytest.approx(9, abs=1e-4)
    paths = seen.save(tmp_path, call=0)
    assert np.array_equal(multihead.AttentionMap(multihead.load_capture(paths[1])).row(2, 8), seen.map(1, 2, call=0)[8])
    with pytest.raises(IndexError, match="no layer 2; 2 layers were seen"):
        seen.map(2, 0)
    with pytest.raises(KeyError, match="no call of a layer 'nobody'"):
        seen.capture("nobody")


def test_observe_labels_every_entry_of_a_batch():
    model = model_of("llama", "multihead")
    inputs = inputs_of("llama")
    ids = inputs["input_ids"]
    with torch.no_grad(), multihead.observe(model) as seen:
        past = model(**inputs, use_cache=True).past_key_values
        model(ids[:, :1], past_key_values=past)
    for batch, entry in enumerate(ids.tolist()):
        maps = seen.maps(0, call=0, batch=batch)
        assert maps.query_tokens == maps.key_tokens == [str(i) for i in entry]
        assert seen.statistics(call=0, batch=batch)["model.layers.0.self_attn"][0].has_tokens
        later = seen.maps(0, batch=batch)  # keys of the call before: nobody says that the entries are still the same
        assert later.query_tokens == [str(entry[0])] and later.key_tokens == []


@pytest.mark.parametrize("name", ["bert", "llama", "mistral"])
def test_observe_keeps_padding_by_its_keys(name):
    """A padded batch costs a byte a key, not one a pair, and changes no bit; a window's mask is kept as it is."""
    inputs = inputs_of(name, length=20)
    model = model_of(name, "multihead")
    with torch.no_grad():
        plain = model(**inputs, output_attentions=True)
        with multihead.observe(model) as seen:
            assert torch.equal(model(**inputs)[0], plain[0])
    capture = seen.capture(0)
    mask = capture.bytes - capture.query.nbytes - capture.key.nbytes - capture.lse.nbytes
    assert mask == 2 * 20 * (20 if name == "mistral" else 1)
    for layer, weights in enumerate(plain.attentions):
        for batch, head in np.ndindex(2, 4):
            assert np.array_equal(seen.map(layer, head, batch=batch), weights[batch, head].numpy())


def test_observe_chosen_layers_and_refusals():
    model = model_of("llama", "multihead")
    inputs = inputs_of("llama")
    plain = answer(model, inputs)
    with multihead.observe(model, layers=["model.layers.1.self_attn"]) as seen:
        assert torch.equal(answer(model, inputs), plain)
        with pytest.raises(ValueError, match="observed already"), multihead.observe(model, layers=lambda name: name.endswith("attn")):
            pass
    assert seen.layers == ["model.layers.1.self_attn"]
    assert seen.map(0, 0, batch=1)[3:, :3].max() == 0  # padding is not seen
    with pytest.raises(ValueError, match="layers: no module model.layers.7.self_attn"), multihead.observe(model, layers=["model.layers.7.self_attn"]):
        pass
    count = len(seen.captures["model.layers.1.self_attn"])
    model(**inputs)
    gc.collect()
    assert len(seen.captures["model.layers.1.self_attn"]) == count


def test_dropout_is_for_training():
    config = transformers.LlamaConfig(**GQA, attention_dropout=0.5)
    model = transformers.LlamaForCausalLM._from_config(config, attn_implementation="multihead").train()
    inputs = inputs_of("llama")
    assert not torch.equal(model(**inputs).logits, model(**inputs).logits)
    model.eval()
    assert torch.equal(model(**inputs).logits, model(**inputs).logits)
