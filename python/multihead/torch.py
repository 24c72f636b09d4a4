"""multihead under PyTorch: attention functions and modules with PyTorch's signatures, polarity and alignment, on CPUs.

    from multihead.torch import scaled_dot_product_attention     # instead of torch.nn.functional's
    with multihead.torch.enabled(): model(x)                     # a whole model, for a while
    multihead.torch.switch_on(model)                             # its nn.MultiheadAttention modules, until switch_off

The operators are torch.library custom ops with fake kernels and a backward pass of their own: torch.compile takes them as they
are, and gradients never store the score matrix. Tensors are float32, float16 or bfloat16, on the CPU; nothing is passed on to
PyTorch's own kernels silently: what is not supported is an error.
"""
from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from . import _core

__all__ = ["MultiheadAttention", "attention", "enabled", "scaled_dot_product_attention", "switch_off", "switch_on"]


def _options(mask: Tensor | None = None, bias: Tensor | None = None, scale: float | None = None, softcap: float | None = None,
             causal: bool = False, offset: int | None = None, left: int | None = None, right: int | None = None,
             sinks: Tensor | None = None, dropout_p: float = 0.0, seed: Tensor | None = None) -> dict[str, Any]:
    """Keyword arguments of _core, from what an operator's schema can hold."""
    return {
        "dropout": None if seed is None else (dropout_p, int(seed)),
        "mask": mask, "attention_bias": None if bias is None else bias.detach(), "scale": scale, "softcap": softcap, "causal": causal,
        "query_offsets": offset, "window": None if left is None and right is None else (left, right),
        "sinks": None if sinks is None else sinks.detach().tolist(),
    }


@torch.library.custom_op("multihead::attention", mutates_args=(), device_types="cpu")
def _attention(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, bias: Tensor | None, sinks: Tensor | None,
               scale: float | None, softcap: float | None, causal: bool, offset: int | None, left: int | None,
               right: int | None, dropout_p: float, seed: Tensor | None) -> tuple[Tensor, Tensor]:
    options = _options(mask, bias, scale, softcap, causal, offset, left, right, sinks, dropout_p, seed)
    return _core.attention(query.detach(), key.detach(), value.detach(), return_lse=True, **options)


@_attention.register_fake
def _(query, key, value, mask, bias, sinks, scale, softcap, causal, offset, left, right, dropout_p, seed):
    return (query.new_empty(query.shape[:3] + value.shape[3:]), query.new_empty(query.shape[:3], dtype=torch.float32))


@torch.library.custom_op("multihead::attention_backward", mutates_args=(), device_types="cpu")
def _attention_backward(query: Tensor, key: Tensor, value: Tensor, output: Tensor, lse: Tensor, grad_output: Tensor,
                        mask: Tensor | None, bias: Tensor | None, sinks: Tensor | None, scale: float | None, softcap: float | None,
                        causal: bool, offset: int | None, left: int | None, right: int | None, dropout_p: float,
                        seed: Tensor | None, bias_wanted: bool, sinks_wanted: bool) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    options = _options(mask, bias, scale, softcap, causal, offset, left, right, sinks, dropout_p, seed)
    wanted = ["query", "key", "value"] + ["attention_bias"] * bias_wanted + ["sinks"] * sinks_wanted
    got = _core.attention_backward(query.detach(), key.detach(), value.detach(), output.detach(), lse.detach(), grad_output.detach(),
                                   wanted=wanted, **options)
    return (got.query, got.key, got.value, got.attention_bias if bias_wanted else query.new_empty(0),
            got.sinks if sinks_wanted else query.new_empty(0, dtype=torch.float32))


@_attention_backward.register_fake
def _(query, key, value, output, lse, grad_output, mask, bias, sinks, scale, softcap, causal, offset, left, right, dropout_p, seed,
      bias_wanted, sinks_wanted):
    # The extension returns dense tensors, whatever the strides of its arguments.
    return (query.new_empty(query.shape), key.new_empty(key.shape), value.new_empty(value.shape),
            bias.new_empty(bias.shape) if bias_wanted else query.new_empty(0),
            sinks.new_empty(sinks.shape, dtype=torch.float32) if sinks_wanted else query.new_empty(0, dtype=torch.float32))


def _keep(ctx, inputs, output):
    query, key, value, mask, bias, sinks, *ctx.rest = inputs
    ctx.save_for_backward(query, key, value, mask, bias, sinks, *output)
    ctx.mark_non_differentiable(output[1])


def _give_back(ctx, grad_output, _grad_lse):
    query, key, value, mask, bias, sinks, output, lse = ctx.saved_tensors
    bias_wanted, sinks_wanted = bias is not None and ctx.needs_input_grad[4], sinks is not None and ctx.needs_input_grad[5]
    gradients = _attention_backward(query, key, value, output, lse, grad_output, mask, bias, sinks, *ctx.rest, bias_wanted, sinks_wanted)
    return (*gradients[:3], None, gradients[3] if bias_wanted else None, gradients[4].to(sinks.dtype) if sinks_wanted else None,
            *[None] * 8)


_attention.register_autograd(_give_back, setup_context=_keep)


@torch.library.custom_op("multihead::attention_probabilities", mutates_args=(), device_types="cpu")
def _probabilities(query: Tensor, key: Tensor, lse: Tensor, mask: Tensor | None, bias: Tensor | None, scale: float | None,
                   causal: bool, offset: int | None) -> Tensor:
    options = _options(mask, bias, scale, None, causal, offset, None, None, None)
    return _core.attention_probabilities(query.detach(), key.detach(), lse.detach(), **options)


@_probabilities.register_fake
def _(query, key, lse, mask, bias, scale, causal, offset):
    return query.new_empty(query.shape[:3] + key.shape[2:3], dtype=torch.float32)


# Who might want to see an operator pass by: modes, transforms, tracers. 0, False or None: nobody does.
_WATCHERS = [getattr(torch._C, name, None) for name in
             ("_len_torch_dispatch_stack", "_len_torch_function_stack", "_are_functorch_transforms_active", "_get_tracing_state")]


def _nobody_looks(tensors: Iterable[object]) -> bool:
    """Whether the extension may be called directly: nothing is recorded, compiled, transformed or profiled, and all are plain tensors.

    The dispatcher and a Python operator's wrappers take some 20 microseconds, several times as long as a small call.
    """
    if torch.compiler.is_compiling() or torch.autograd._profiler_enabled():
        return False
    for watcher in _WATCHERS:
        if watcher is None or watcher():
            return False
    records = torch.is_grad_enabled()
    for x in tensors:
        if isinstance(x, Tensor) and (type(x) not in (Tensor, nn.Parameter) or (records and x.requires_grad)):
            return False
    return True


def _refuse_tangents(tensors: Iterable[object]) -> None:
    """PyTorch would drop them without a word."""
    if any(isinstance(x, Tensor) and torch.autograd.forward_ad.unpack_dual(x).tangent is not None for x in tensors):
        raise NotImplementedError("multihead: expected tensors without forward-mode derivatives (torch.func.jvp, "
                                  "forward_ad); gradients are computed backwards only")


def _run(query: Tensor, key: Tensor, value: Tensor, options: dict[str, Any], dropout_p: float,
         with_lse: bool = True) -> tuple[Tensor, Tensor | None]:
    """(output, lse), through the operator only where somebody needs to see it. `options`: those given, by the operator's names."""
    seed = _seed() if dropout_p != 0.0 else None
    tensors = (query, key, value, *options.values())
    if torch.autograd.forward_ad._current_level >= 0:
        _refuse_tangents(tensors)
    if not _nobody_looks(tensors):
        return _attention(query, key, value, *(options.get(name) for name in ("mask", "bias", "sinks", "scale", "softcap")),
                          options.get("causal", False), *(options.get(name) for name in ("offset", "left", "right")), dropout_p, seed)
    if query.requires_grad or key.requires_grad or value.requires_grad:  # under no_grad
        query, key, value = query.detach(), key.detach(), value.detach()
    if seed is None and not options:
        result = _core.attention(query, key, value, return_lse=with_lse)
    else:
        result = _core.attention(query, key, value, return_lse=with_lse, **_options(dropout_p=dropout_p, seed=seed, **options))
    return result if with_lse else (result, None)


def _seed() -> Tensor:
    """Of the next call's dropout, drawn from PyTorch's generator (torch.manual_seed); a tensor, so that torch.compile can draw."""
    return torch.randint(2**63 - 1, ())


def _given(**options: Any) -> dict[str, Any]:
    return {name: x for name, x in options.items() if x is not None}


def attention(query: Tensor, key: Tensor, value: Tensor, *, mask: Tensor | None = None, attention_bias: Tensor | None = None,
              scale: float | None = None, softcap: float | None = None, causal: bool = False, query_offset: int | None = None,
              window: tuple[int | None, int | None] | None = None, sinks: Tensor | None = None,
              dropout_p: float = 0.0) -> tuple[Tensor, Tensor]:
    """multihead.attention, differentiable: (output, lse).

    Arguments and semantics are multihead.attention's (causal is aligned to the last key unless query_offset says otherwise), for
    4-D tensors. Gradients reach query, key, value, attention_bias and sinks; lse has none. With dropout_p each call takes a seed
    from PyTorch's generator.
    """
    left, right = window or (None, None)
    return _run(query, key, value, _given(mask=mask, bias=attention_bias, scale=scale, softcap=softcap, causal=causal or None,
                                          offset=query_offset, left=left, right=right, sinks=sinks), dropout_p)


def _broadcast_mask(attn_mask: Tensor, batch: torch.Size) -> Tensor:
    """A mask over [*batch, heads, queries, keys] as rank 2 or [batch product, …] of rank 4, without expanding what may broadcast."""
    if attn_mask.dim() <= 2:
        return attn_mask
    leading = attn_mask.shape[:-3]
    if len(batch) == 1 or all(extent == 1 for extent in leading):
        return attn_mask.reshape((-1,) + attn_mask.shape[-3:]) if leading else attn_mask[None]
    return attn_mask.expand(batch + attn_mask.shape[-3:]).reshape((-1,) + attn_mask.shape[-3:])


def _of_rank_4(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor, torch.Size]:
    """The three as [batch product, heads, length, dim], with 1 for axes that are not there, and their batch axes, broadcast."""
    if query.dim() == key.dim() == value.dim() == 4 and query.shape[0] == key.shape[0] == value.shape[0]:
        return query, key, value, query.shape[:1]
    if min(query.dim(), key.dim(), value.dim()) < 2:
        raise ValueError("scaled_dot_product_attention: query, key, value: expected at least two axes; "
                         f"got {tuple(query.shape)}, {tuple(key.shape)}, {tuple(value.shape)}")
    batch = torch.broadcast_shapes(query.shape[:-3], key.shape[:-3], value.shape[:-3])

    def rank_4(x: Tensor) -> Tensor:
        x = x if x.dim() > 2 else x[None]
        return x.expand(batch + x.shape[-3:]).reshape((-1,) + x.shape[-3:]) if batch else x[None]

    return rank_4(query), rank_4(key), rank_4(value), batch


def scaled_dot_product_attention(query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, dropout_p: float = 0.0,
                                 is_causal: bool = False, scale: float | None = None, enable_gqa: bool = False) -> Tensor:
    """torch.nn.functional.scaled_dot_product_attention, computed by multihead: same arguments, same meaning.

    query [N, …, heads, L, E], key [N, …, kv_heads, S, E], value [N, …, kv_heads, S, Ev], of at least two axes. A boolean attn_mask
    is True where a query may attend; a floating one is added to the scores (its dtype may be any of the three). is_causal is
    aligned to the top left and excludes attn_mask, as in PyTorch. Rows that may see nothing give 0, as in PyTorch since 2.5.

    dropout_p drops coefficients whenever it is not 0, as in PyTorch; which ones follows from torch.manual_seed, but they are not
    those that PyTorch drops.

    Raises TypeError for dtypes that multihead does not compute on, NotImplementedError for tensors that are not on the CPU,
    ValueError for shapes and for a dropout_p that is not from 0 to below 1.
    """
    if is_causal and attn_mask is not None:
        raise ValueError("scaled_dot_product_attention: is_causal: expected no attn_mask with it; got both")
    queries, keys, values, batch = _of_rank_4(query, key, value)
    if not enable_gqa and queries.shape[1] != keys.shape[1] != 1 != queries.shape[1]:
        raise ValueError(f"scaled_dot_product_attention: key: expected {queries.shape[1]} heads as query has; got {keys.shape[1]} "
                         "(enable_gqa=True shares them)")
    options = {} if scale is None else {"scale": scale}
    if is_causal:
        options |= {"causal": True, "offset": 0}
    elif attn_mask is not None:
        attn_mask = _broadcast_mask(attn_mask, batch)
        options["mask" if attn_mask.dtype == torch.bool else "bias"] = attn_mask
    output, _ = _run(queries, keys, values, options, dropout_p, with_lse=False)
    if query.dim() == 4 and len(batch) == 1 and output.shape[0] == query.shape[0]:
        return output
    return output.reshape(batch + output.shape[1:]) if query.dim() > 2 else output.reshape(output.shape[2:])


class MultiheadAttention(nn.MultiheadAttention):
    """torch.nn.MultiheadAttention, computed by multihead: the same constructor, parameters, state_dict and results.

    Its masks keep the module's polarity: in key_padding_mask and attn_mask True means *not* to attend, the opposite of everything
    else here. average_attn_weights and need_weights as in PyTorch; the weights have no gradient and are those before
    dropout (PyTorch's are those behind it). A row that may see no key gives 0 in front of the output projection, where PyTorch gives NaN.
    """

    def forward(self, query: Tensor, key: Tensor, value: Tensor, key_padding_mask: Tensor | None = None, need_weights: bool = True,
                attn_mask: Tensor | None = None, average_attn_weights: bool = True,
                is_causal: bool = False) -> tuple[Tensor, Tensor | None]:
        if is_causal and attn_mask is None:
            raise ValueError("MultiheadAttention: is_causal: expected attn_mask with it, as in PyTorch; got none")
        batched = query.dim() == 3
        if not batched:
            query, key, value = query[None], key[None], value[None]
            key_padding_mask = None if key_padding_mask is None else key_padding_mask[None]
        elif not self.batch_first:
            query, key, value = query.transpose(0, 1), key.transpose(0, 1), value.transpose(0, 1)
        q, k, v = self._project(query, key, value)
        mask, bias = self._masks(attn_mask, key_padding_mask, query.shape[0], k.shape[2], q.dtype)
        dropout_p = self.dropout if self.training else 0.0
        output, lse = _run(q, k, v, _given(mask=mask, bias=bias), dropout_p)
        joined = output.transpose(1, 2).reshape(query.shape[0], query.shape[1], self.embed_dim)
        result = nn.functional.linear(joined, self.out_proj.weight, self.out_proj.bias)
        weights = None
        if need_weights:
            weights = _probabilities(q, k, lse, mask, bias, None, False, None).to(q.dtype)
            weights = weights.mean(1) if average_attn_weights else weights
        if not batched:
            return result[0], None if weights is None else weights[0]
        return result if self.batch_first else result.transpose(0, 1), weights

    def _project(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Heads of the three projections, with the learned and the zero key behind them."""
        weights = self.in_proj_weight.chunk(3) if self._qkv_same_embed_dim else (self.q_proj_weight, self.k_proj_weight,
                                                                                 self.v_proj_weight)
        biases = self.in_proj_bias.chunk(3) if self.in_proj_bias is not None else (None,) * 3
        q, k, v = (nn.functional.linear(x, w, b) for x, w, b in zip((query, key, value), weights, biases))
        if self.bias_k is not None:
            k = torch.cat([k, self.bias_k.expand(k.shape[0], 1, -1)], 1)
            v = torch.cat([v, self.bias_v.expand(v.shape[0], 1, -1)], 1)
        if self.add_zero_attn:
            k, v = nn.functional.pad(k, (0, 0, 0, 1)), nn.functional.pad(v, (0, 0, 0, 1))
        return tuple(x.unflatten(-1, (self.num_heads, self.head_dim)).transpose(1, 2) for x in (q, k, v))

    def _masks(self, attn_mask: Tensor | None, padding: Tensor | None, batch: int, keys: int,
               dtype: torch.dtype) -> tuple[Tensor | None, Tensor | None]:
        """(mask, bias) with True = may attend, over the keys that were added, too."""
        mask = bias = None
        if attn_mask is not None and attn_mask.dim() == 3:  # [batch * heads, queries, keys]
            attn_mask = attn_mask.unflatten(0, (batch, self.num_heads))
        for given in (attn_mask, None if padding is None else padding[:, None, None, :]):
            if given is None:
                continue
            given = nn.functional.pad(given, (0, keys - given.shape[-1]))  # False, or 0: may attend
            if given.dtype == torch.bool:
                mask = ~given if mask is None else mask & ~given
            else:
                given = given.to(dtype)
                bias = given if bias is None else bias + given
        return mask, bias




@contextlib.contextmanager
def enabled() -> Iterator[None]:
    """Within it, torch.nn.functional.scaled_dot_product_attention is multihead's, in the whole process.

    For models that call it through the module. Compiled models remember what they saw: compile inside. Contexts may nest.
    """
    before = nn.functional.scaled_dot_product_attention
    nn.functional.scaled_dot_product_attention = scaled_dot_product_attention
    try:
        yield
    finally:
        nn.functional.scaled_dot_product_attention = before


def _no_fast_path(_module, _inputs):
    """A hook that does nothing: nn.TransformerEncoderLayer calls its modules only when one of them has a hook."""


def switch_on(model: nn.Module) -> int:
    """Makes every nn.MultiheadAttention in a model compute with multihead; parameters, names and hooks stay. Returns how many."""
    found = [module for module in model.modules() if type(module) is nn.MultiheadAttention]
    for module in found:
        module.__class__ = MultiheadAttention
        module._multihead_hook = module.register_forward_pre_hook(_no_fast_path)
    return len(found)


def switch_off(model: nn.Module) -> int:
    """Undoes switch_on. Modules that were built as multihead.torch.MultiheadAttention stay what they are. Returns how many."""
    found = [module for module in model.modules() if hasattr(module, "_multihead_hook")]
    for module in found:
        module._multihead_hook.remove()
        del module._multihead_hook
        module.__class__ = nn.MultiheadAttention
    return len(found)
