"""What a call costs, and who sees it: the operator is left out only where nobody looks."""
import time

import numpy as np
import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._python_dispatch import TorchDispatchMode

import multihead
import multihead.torch as ours

OPERATOR = torch.ops.multihead.attention.default


def tensors(heads=2, length=5, dim=8):
    return torch.randn(3, 1, heads, length, dim, generator=torch.Generator().manual_seed(0)).unbind(0)


class Names(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.seen.append(function)
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("options", [{}, {"is_causal": True}, {"scale": 0.3}, {"attn_mask": torch.eye(5).bool()},
                                     {"attn_mask": torch.arange(25.0).reshape(5, 5)}])
def test_modes_see_the_operator_and_bits_do_not_depend_on_it(options):
    q, k, v = tensors()
    direct = ours.scaled_dot_product_attention(q, k, v, **options)
    with Names() as names:
        seen = ours.scaled_dot_product_attention(q, k, v, **options)
    assert OPERATOR in names.seen
    assert torch.equal(direct, seen)


def test_dropout_draws_the_same_either_way():
    q, k, v = tensors(length=50)
    torch.manual_seed(3)
    direct = ours.scaled_dot_product_attention(q, k, v, dropout_p=0.3)
    torch.manual_seed(3)
    with Names():
        assert torch.equal(direct, ours.scaled_dot_product_attention(q, k, v, dropout_p=0.3))


@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning", "ignore::DeprecationWarning", "ignore::FutureWarning")
def test_graphs_are_recorded():
    q, k, v = tensors()
    graph = make_fx(lambda q, k, v: ours.scaled_dot_product_attention(q, k, v))(q, k, v)
    assert OPERATOR in [node.target for node in graph.graph.nodes]
    other = tensors(length=5)[0] + 1
    assert torch.equal(graph(other, k, v), ours.scaled_dot_product_attention(other, k, v))
    traced = torch.jit.trace(lambda q, k, v: ours.scaled_dot_product_attention(q, k, v), (q, k, v), check_trace=False)
    assert "multihead::attention" in str(traced.graph)


def test_fake_tensors_stay_fake():
    with FakeTensorMode() as mode:
        q = torch.empty(1, 2, 5, 8)
        output = ours.scaled_dot_product_attention(q, q, q)
    assert output.shape == q.shape and output.fake_mode is mode


def test_the_profiler_sees_the_operator():
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        ours.scaled_dot_product_attention(*tensors())
    assert "multihead::attention" in {event.key for event in profile.key_averages()}


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")
def test_forward_mode_derivatives_are_refused():
    q, k, v = tensors()
    with pytest.raises(NotImplementedError, match="forward-mode"):
        torch.func.jvp(lambda x: ours.scaled_dot_product_attention(x, k, v), (q,), (torch.ones_like(q),))
    with torch.autograd.forward_ad.dual_level():
        with pytest.raises(NotImplementedError, match="forward-mode"):
            ours.scaled_dot_product_attention(q, torch.autograd.forward_ad.make_dual(k, torch.ones_like(k)), v)
        assert torch.equal(ours.scaled_dot_product_attention(q, k, v), ours.attention(q, k, v)[0])


@pytest.mark.filterwarnings("ignore:There is a performance drop")
def test_mapped_over_another_axis():
    q, k, v = tensors()
    queries = torch.stack([q, 2 * q])
    mapped = torch.func.vmap(lambda x: ours.scaled_dot_product_attention(x, k, v))(queries)
    assert torch.equal(mapped, torch.stack([ours.scaled_dot_product_attention(x, k, v) for x in queries]))


def test_gradients_are_recorded_where_they_are_wanted():
    q, k, v = tensors()
    q.requires_grad_()
    assert ours.scaled_dot_product_attention(q, k, v).grad_fn is not None
    with torch.no_grad():
        without = ours.scaled_dot_product_attention(q, k, v)
    assert not without.requires_grad
    assert torch.equal(without, ours.scaled_dot_product_attention(q.detach(), k, v))
    with pytest.raises(TypeError, match="query"):
        multihead.attention(q, k, v)  # the extension records none, and says so


def shortest(call, seconds=1.0):
    best, end = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - start)
    return best


def test_a_call_costs_little():
    q, k, v = tensors()
    arrays, out = [x.numpy() for x in (q, k, v)], np.empty(q.shape, np.float32)
    with torch.no_grad():
        around = shortest(lambda: ours.scaled_dot_product_attention(q, k, v)) - shortest(lambda: multihead.attention(*arrays, out=out))
    assert around < 15e-6, f"expected less than 15 microseconds over the extension's own call; got {around * 1e6:.1f}"
