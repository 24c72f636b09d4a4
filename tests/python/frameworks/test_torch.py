"""multihead.torch beside PyTorch itself, which is the oracle: outputs, weights, gradients, over a grid of options."""
import sys
import threading

import numpy as np
import pytest
import torch
from torch import nn

import multihead
import multihead.torch as ours

F = nn.functional
TOLERANCE = {torch.float32: 2e-6, torch.float16: 2e-3, torch.bfloat16: 1.6e-2}


def tensors(*shapes, dtype=torch.float32, seed=0):
    """Standard normal tensors."""
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=generator).to(dtype) for shape in shapes]


def near(ours_, theirs, factor=1.0):
    """Asserts the same dtype, shape and numbers."""
    assert ours_.dtype == theirs.dtype and ours_.shape == theirs.shape
    bound = factor * TOLERANCE[ours_.dtype]
    torch.testing.assert_close(ours_, theirs, rtol=bound, atol=bound * max(1.0, theirs.abs().max().item() if theirs.numel() else 1))


def exact(function, *arguments, **options):
    """PyTorch's answer in float64, in the first argument's dtype."""
    wide = lambda x: x.double() if isinstance(x, torch.Tensor) and x.is_floating_point() else x
    return function(*map(wide, arguments), **{name: wide(x) for name, x in options.items()}).to(arguments[0].dtype)


def test_core_takes_and_gives_tensors():
    q, k, v = tensors((1, 2, 5, 8), (1, 2, 7, 8), (1, 2, 7, 3), dtype=torch.bfloat16)
    output, lse = multihead.attention(q, k, v, return_lse=True)
    assert isinstance(output, torch.Tensor) and output.dtype == torch.bfloat16 and lse.dtype == torch.float32
    near(output, exact(F.scaled_dot_product_attention, q, k, v))
    out = torch.empty(1, 5, 2, 3, dtype=torch.bfloat16).transpose(1, 2)
    assert multihead.attention(q, k, v, out=out) is out and torch.equal(out, output)
    with pytest.raises(TypeError, match="query: .*detach"):
        multihead.attention(q.requires_grad_(), k, v)
    with pytest.raises(TypeError, match="query: expected float32"):
        multihead.attention(k.double(), k, v)


def test_core_gives_references_back():
    q, k, v = tensors((1, 2, 5, 8), (1, 2, 7, 8), (1, 2, 7, 3))
    before = [sys.getrefcount(x) for x in (q, k, v)]
    for _ in range(100):
        multihead.attention(q, k, v)
    assert [sys.getrefcount(x) for x in (q, k, v)] == before


MASKS = [None, (5, 7), (1, 7), (2, 1, 5, 7), (1, 3, 5, 7), (3, 1, 1), (5, 1)]


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("kind", ["bool", "float"])
@pytest.mark.parametrize("shape", MASKS, ids=str)
def test_sdpa_masks(shape, kind, dtype):
    q, k, v = tensors((2, 3, 5, 8), (2, 3, 7, 8), (2, 3, 7, 4), dtype=dtype)
    mask = None
    if shape is not None:
        mask = tensors(shape, dtype=dtype, seed=1)[0]
        mask = mask > -0.5 if kind == "bool" else mask
    near(ours.scaled_dot_product_attention(q, k, v, mask), exact(F.scaled_dot_product_attention, q, k, v, attn_mask=mask))


@pytest.mark.parametrize("shapes", [((5, 8), (7, 8), (7, 4)), ((3, 5, 8), (3, 7, 8), (3, 7, 4)), ((2, 3, 5, 8), (2, 3, 7, 8), (2, 3, 7, 4)),
                                    ((2, 2, 3, 5, 8), (2, 2, 3, 7, 8), (2, 2, 3, 7, 4)), ((2, 3, 0, 8), (2, 3, 7, 8), (2, 3, 7, 4)),
                                    ((0, 3, 5, 8), (0, 3, 7, 8), (0, 3, 7, 4))], ids=str)
@pytest.mark.parametrize("options", [{}, {"is_causal": True}, {"scale": 0.2}], ids=str)
def test_sdpa_shapes(shapes, options):
    q, k, v = tensors(*shapes)
    near(ours.scaled_dot_product_attention(q, k, v, **options), exact(F.scaled_dot_product_attention, q, k, v, **options))


def test_sdpa_grouped_heads_and_strides():
    q, k, v = tensors((2, 5, 6, 8), (2, 7, 2, 8), (2, 7, 2, 8))
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    near(ours.scaled_dot_product_attention(q, k, v, enable_gqa=True), exact(F.scaled_dot_product_attention, q, k, v, enable_gqa=True))
    with pytest.raises(ValueError, match="key: expected 6 heads as query has; got 2"):
        ours.scaled_dot_product_attention(q, k, v)


def test_sdpa_rows_without_keys_are_zero():
    q, k, v = tensors((1, 1, 2, 4), (1, 1, 3, 4), (1, 1, 3, 4))
    mask = torch.tensor([[False] * 3, [True] * 3])
    near(ours.scaled_dot_product_attention(q, k, v, mask), F.scaled_dot_product_attention(q, k, v, mask))


@pytest.mark.parametrize("options, text", [({"dropout_p": 1.0}, "dropout: expected a probability from 0 to below 1; got 1"),
                                           ({"is_causal": True, "attn_mask": torch.ones(5, 7).bool()}, "is_causal: expected no attn_mask")])
def test_sdpa_refuses(options, text):
    with pytest.raises(ValueError, match=text):
        ours.scaled_dot_product_attention(*tensors((5, 8), (7, 8), (7, 4)), **options)


def test_sdpa_refuses_other_dtypes():
    q, k, v = tensors((1, 2, 5, 8), (1, 2, 7, 8), (1, 2, 7, 4))
    with pytest.raises(TypeError, match="attention: query: expected float32, float16 or bfloat16; got float64"):
        ours.scaled_dot_product_attention(q.double(), k.double(), v.double())
    with pytest.raises(ValueError, match="attention: expected key of the query's dtype f32; got bf16"):
        ours.scaled_dot_product_attention(q, k.bfloat16(), v)
    with pytest.raises(ValueError, match="head_dim"):
        ours.scaled_dot_product_attention(q, k[..., :4], v)


def gradients(function, arguments, grad):
    """Gradients of <function(arguments), grad> by every argument that wants one."""
    leaves = [x.detach().clone().requires_grad_(x.requires_grad) for x in arguments]
    function(*leaves).backward(grad.to(leaves[0].dtype))
    return [x.grad for x in leaves if x.requires_grad]


@pytest.mark.parametrize("causal, bias_shape", [(False, None), (True, None), (False, (5, 7)), (False, (1, 3, 1, 7))])
def test_sdpa_gradients(causal, bias_shape):
    arguments = tensors((2, 3, 5, 8), (2, 3, 7, 8), (2, 3, 7, 4)) + (tensors(bias_shape, seed=3) if bias_shape else [])
    for x in arguments:
        x.requires_grad_()
    grad = tensors((2, 3, 5, 4), seed=4)[0]
    call = lambda f: lambda q, k, v, mask=None: f(q, k, v, attn_mask=mask, is_causal=causal)
    mine = gradients(call(ours.scaled_dot_product_attention), arguments, grad)
    theirs = gradients(call(F.scaled_dot_product_attention), [x.detach().double().requires_grad_() for x in arguments], grad)
    for a, b in zip(mine, theirs):
        near(a, b.float(), 4)


@pytest.mark.filterwarnings("ignore:Input")  # gradcheck would like double precision
def test_gradcheck():
    arguments = [x.requires_grad_() for x in tensors((1, 2, 3, 4), (1, 2, 4, 4), (1, 2, 4, 2), (3, 4))]
    assert torch.autograd.gradcheck(ours.scaled_dot_product_attention, arguments, eps=1e-2, atol=2e-3, rtol=1e-2, check_undefined_grad=False)


def test_sinks_have_gradients():
    q, k, v = tensors((1, 2, 3, 4), (1, 2, 4, 4), (1, 2, 4, 2))
    sinks = torch.tensor([0.5, -1.0], requires_grad=True)
    ours.attention(q, k, v, sinks=sinks)[0].sum().backward()
    wide = sinks.detach().double().requires_grad_()
    scores = torch.cat([(q @ k.mT).double() / 2, wide[None, :, None, None].expand(1, 2, 3, 1)], -1)
    (scores.softmax(-1)[..., :4] @ v.double()).sum().backward()
    near(sinks.grad, wide.grad.float(), 4)


def test_operators_keep_their_promises():
    """Schema, fake kernels and autograd as torch.library itself checks them: what torch.compile relies on."""
    q, k, v = (x.requires_grad_() for x in tensors((1, 2, 3, 4), (1, 2, 5, 4), (1, 2, 5, 2)))
    torch.library.opcheck(ours._attention, (q, k, v, None, None, None, None, None, True, 0, None, None, 0.5, torch.tensor(3)))
    q, k, v = (x.detach() for x in (q, k, v))
    output, lse = ours._attention(q, k, v, None, None, None, None, None, False, None, None, None, 0.0, None)
    torch.library.opcheck(ours._probabilities, (q, k, lse, None, None, None, False, None))
    torch.library.opcheck(ours._attention_backward, (q, k, v, output, lse, output, None, None, None, None, None, False, None, None, None,
                                                     0.0, None, False, False))


def test_compiled_in_one_graph():
    q, k, v = (x.requires_grad_() for x in tensors((1, 2, 3, 4), (1, 2, 5, 4), (1, 2, 5, 2)))
    function = lambda q, k, v: ours.scaled_dot_product_attention(q * 2, k, v, is_causal=True).square().sum()
    compiled = torch.compile(function, fullgraph=True, backend="aot_eager")
    compiled(q, k, v).backward()
    got = [x.grad.clone() for x in (q, k, v)]
    for x in (q, k, v):
        x.grad = None
    function(q, k, v).backward()
    assert all(torch.equal(a, x.grad) for a, x in zip(got, (q, k, v)))


def test_threads_give_the_same_bits():
    q, k, v = tensors((2, 4, 65, 16), (2, 4, 130, 16), (2, 4, 130, 16))
    alone, answers = ours.scaled_dot_product_attention(q, k, v), []
    threads = [threading.Thread(target=lambda: answers.append(ours.scaled_dot_product_attention(q, k, v))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == 8 and all(torch.equal(x, alone) for x in answers)


LAYERS = [{}, {"bias": False}, {"batch_first": True}, {"kdim": 7, "vdim": 5}, {"add_bias_kv": True}, {"add_zero_attn": True},
          {"add_bias_kv": True, "add_zero_attn": True, "batch_first": True}]


@pytest.mark.parametrize("options", LAYERS, ids=str)
@pytest.mark.parametrize("masks", ["none", "bool", "float", "padding", "both", "per head"])
def test_module(options, masks):
    theirs = nn.MultiheadAttention(12, 3, **options).eval()
    mine = ours.MultiheadAttention(12, 3, **options).eval()
    for parameter in theirs.parameters():
        nn.init.normal_(parameter, std=0.3)
    mine.load_state_dict(theirs.state_dict())
    q, k, v = tensors((4, 2, 12), (6, 2, options.get("kdim", 12)), (6, 2, options.get("vdim", 12)))
    if options.get("batch_first"):
        q, k, v = (x.transpose(0, 1) for x in (q, k, v))
    call = {}
    if masks in ("bool", "both"):
        call["attn_mask"] = torch.ones(4, 6).triu(2).bool()
    if masks == "float":
        call["attn_mask"] = tensors((4, 6), seed=2)[0]
    if masks == "per head":
        call["attn_mask"] = torch.rand(6, 4, 6, generator=torch.Generator().manual_seed(5)) < 0.4
        call["attn_mask"][..., 0] = False
    if masks in ("padding", "both"):
        call["key_padding_mask"] = torch.tensor([[False] * 6, [False] * 4 + [True] * 2])
    for average in (True, False):
        a, b = (layer(q, k, v, average_attn_weights=average, **call) for layer in (mine, theirs))
        near(a[0], b[0], 4)
        near(a[1], b[1], 4)
    assert mine(q, k, v, need_weights=False, **call)[1] is None


def test_module_unbatched_and_trained():
    theirs, mine = nn.MultiheadAttention(12, 3), ours.MultiheadAttention(12, 3)
    mine.load_state_dict(theirs.state_dict())
    x = tensors((4, 12))[0]
    for layer in (mine, theirs):
        layer(x, x, x)[0].square().sum().backward()
    for a, b in zip(mine.parameters(), theirs.parameters()):
        near(a.grad, b.grad, 8)


def test_a_model_switches_over_and_back():
    model = nn.TransformerEncoder(nn.TransformerEncoderLayer(12, 3, 24, batch_first=True), 2, enable_nested_tensor=False).eval()
    x = tensors((2, 5, 12))[0]
    with torch.no_grad():
        before = model(x)
        assert ours.switch_on(model) == 2 and ours.switch_on(model) == 0
        calls = []
        hook = model.layers[0].self_attn.register_forward_hook(lambda module, *_: calls.append(type(module)))
        near(model(x), before, 4)
        hook.remove()
        assert calls == [ours.MultiheadAttention]  # the encoder's own fast path did not pass it by
        assert ours.switch_off(model) == 2
        assert type(model.layers[0].self_attn) is nn.MultiheadAttention and torch.equal(model(x), before)


def test_the_function_switches_over_and_back(monkeypatch):
    q, k, v = tensors((2, 3, 5, 8), (2, 3, 7, 8), (2, 3, 7, 4))
    theirs = F.scaled_dot_product_attention
    with ours.enabled():
        assert F.scaled_dot_product_attention is ours.scaled_dot_product_attention
        near(F.scaled_dot_product_attention(q, k, v), theirs(q, k, v))
        with pytest.raises(RuntimeError), ours.enabled():
            raise RuntimeError
    assert F.scaled_dot_product_attention is theirs
    assert np.isfinite(theirs(q, k, v).numpy()).all()


def test_dropout_follows_the_generator_and_its_gradient_the_draws():
    q, k, v = tensors((1, 2, 40, 8), (1, 2, 50, 8), (1, 2, 50, 50))
    v = torch.eye(50).expand(1, 2, 50, 50).clone().requires_grad_()  # the output is the coefficients
    torch.manual_seed(3)
    output = ours.scaled_dot_product_attention(q, k, v, dropout_p=0.25)
    torch.manual_seed(3)
    assert torch.equal(ours.scaled_dot_product_attention(q, k, v, dropout_p=0.25), output)
    assert not torch.equal(ours.scaled_dot_product_attention(q, k, v, dropout_p=0.25), output)
    plain = ours.scaled_dot_product_attention(q, k, v)
    kept = output != 0
    assert 0.70 < kept.float().mean() < 0.80
    near(output, torch.where(kept, plain / 0.75, 0.0))
    gradient, = torch.autograd.grad(output.sum(), v)
    near(gradient, output.detach().transpose(-1, -2).sum(-1, keepdim=True).expand_as(v), 8)


def test_a_module_drops_in_training_alone():
    layer = ours.MultiheadAttention(12, 3, dropout=0.5, batch_first=True)
    x = tensors((2, 9, 12))[0]
    weights = layer(x, x, x)[1]
    assert not torch.equal(layer(x, x, x)[0], layer(x, x, x)[0])
    near(weights.sum(-1), torch.ones(2, 9))
    layer.eval()
    assert torch.equal(layer(x, x, x)[0], layer(x, x, x)[0])
