"""multihead under Hugging Face transformers: the attention implementation "multihead", and `observe`.

    import multihead.transformers                                       # registers it
    model = AutoModel.from_pretrained(name, attn_implementation="multihead")
    with multihead.observe(model, tokenizer=tokenizer) as seen:         # whatever implementation the model had before
        model(**tokenizer("…", return_tensors="pt"))
    seen.map(layer=0, head=3)                                           # [query_len, key_len]

For models on the CPU whose attention goes through transformers' AttentionInterface: encoders, decoders with caches, grouped heads,
sliding windows, softcaps, sinks, position biases, cross attention.
"""
from __future__ import annotations

import contextlib
import os
import pathlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import torch
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import sdpa_mask

from . import _core
from . import torch as _torch
from ._lab import Lab, lab

__all__ = ["Seen", "attention_forward", "observe"]

# Modules that are being observed, by identity: a module may be called from any thread.
_watched: dict[int, Callable[..., tuple[torch.Tensor, _core.Capture]]] = {}


def _constraints(module: torch.nn.Module, query: torch.Tensor, attention_mask: torch.Tensor | None, is_causal: bool | None,
                 position_bias: torch.Tensor | None) -> dict[str, Any]:
    """What may be seen, as options of multihead.torch.attention. transformers' masks hold causality and windows, when there is one."""
    if is_causal is None:
        is_causal = getattr(module, "is_causal", True)
    causal = bool(is_causal) and attention_mask is None and query.shape[2] > 1
    mask = bias = None
    if attention_mask is not None:
        if attention_mask.dtype == torch.bool:
            mask = attention_mask
        else:
            bias = attention_mask.to(query.dtype)
    if position_bias is not None:
        bias = position_bias.to(query.dtype) if bias is None else bias + position_bias.to(query.dtype)
    # transformers leaves the mask out only where the first query stands at the first key.
    return {"mask": mask, "attention_bias": bias, "causal": causal, "query_offset": 0 if causal else None}


def attention_forward(module: torch.nn.Module, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor,
                      attention_mask: torch.Tensor | None, dropout: float = 0.0, scaling: float | None = None,
                      is_causal: bool | None = None, position_bias: torch.Tensor | None = None, softcap: float | None = None,
                      s_aux: torch.Tensor | None = None, **kwargs: Any) -> tuple[torch.Tensor, torch.Tensor | None]:
    """An attention function of transformers' AttentionInterface: query [batch, heads, query_len, head_dim], key and value with their
    own number of heads, result [batch, query_len, heads, value_dim]. With output_attentions also the coefficients, before dropout.
    """
    if kwargs.get("head_mask") is not None:
        raise ValueError('attn_implementation="multihead": head_mask: expected None; it is not supported')
    options = _constraints(module, query, attention_mask, is_causal, position_bias)
    options |= {"scale": scaling, "softcap": softcap or None, "sinks": None if s_aux is None else s_aux.float()}
    observer = _watched.get(id(module))
    wants_weights = bool(kwargs.get("output_attentions"))
    captured = weights = None
    if observer is not None:
        captured = observer(query, key, value, options)
    elif wants_weights:  # from a capture's lse, which is not rounded to float32
        captured = _core.capture(query.detach(), key.detach(), value.detach(), **_plain(options))
    differentiable = torch.is_grad_enabled() and any(x.requires_grad for x in (query, key, value))
    if captured is None or differentiable or dropout > 0:  # a capture knows neither gradients nor dropout
        output, _ = _torch.attention(query, key, value, **options, dropout_p=dropout)
    else:
        output = captured[0]
    if wants_weights:
        weights = _core.attention_probabilities(query.detach(), key.detach(), captured[1].lse, **_plain(options)).to(query.dtype)
    return output.transpose(1, 2).contiguous(), weights


def _by_keys(mask: torch.Tensor) -> dict[str, Any]:
    """A mask [batch, 1, queries, keys] that says which keys are padding, or that and causality, as options that say so in
    [batch, 1, 1, keys]; {} for any other. A capture keeps its mask, and should not grow with queries * keys for padding.
    """
    keys, (rows, columns) = mask[:, :, -1:], mask.shape[-2:]
    if torch.equal(mask, keys.expand_as(mask)):
        return {"mask": keys.contiguous()}
    causal = torch.ones(rows, columns, dtype=torch.bool).tril(columns - rows)
    if all(torch.equal(one, last & causal) for one, last in zip(mask, keys)):
        return {"mask": keys.contiguous(), "causal": True, "query_offset": None}
    return {}


def _plain(options: dict[str, Any]) -> dict[str, Any]:
    """Options of multihead.torch.attention as those of _core."""
    plain = {name: x.detach() if isinstance(x, torch.Tensor) else x for name, x in options.items() if name != "query_offset"}
    if plain["sinks"] is not None:
        plain["sinks"] = plain["sinks"].tolist()
    return plain | {"query_offsets": options["query_offset"]}


AttentionInterface.register("multihead", attention_forward)
AttentionMaskInterface.register("multihead", sdpa_mask)


class Seen:
    """What `observe` collected: the captures of every call of every observed layer, by the layers' names.

    A layer is given by its name or by its place in `layers`; `call` counts the calls of a layer (-1: the last one).
    """

    def __init__(self, names: list[str]):
        self.captures: dict[str, list[_core.Capture]] = {name: [] for name in names}

    @property
    def layers(self) -> list[str]:
        """Names of the layers that computed attention, in the model's order."""
        return [name for name, captures in self.captures.items() if captures]

    def capture(self, layer: int | str, call: int = -1) -> _core.Capture:
        """One call of one layer. KeyError or IndexError, with the names, for one that was not seen."""
        names = self.layers
        if isinstance(layer, str) and layer not in names:
            raise KeyError(f"Seen: no call of a layer '{layer}'; layers: {', '.join(names) or 'none'}")
        if not isinstance(layer, str) and not -len(names) <= layer < len(names):
            raise IndexError(f"Seen: no layer {layer}; {len(names)} layers were seen: {', '.join(names) or 'none'}")
        return self.captures[layer if isinstance(layer, str) else names[layer]][call]

    def maps(self, layer: int | str, call: int = -1, batch: int = 0) -> _core.AttentionMap:
        """The maps of all heads of a layer, to look into at any size."""
        return _core.AttentionMap(self.capture(layer, call), batch)

    def map(self, layer: int | str, head: int, call: int = -1, batch: int = 0) -> np.ndarray:
        """All coefficients of one head, [query_len, key_len] float32; `maps` for what is too large for that."""
        maps = self.maps(layer, call, batch)
        return np.stack([maps.row(head, i) for i in range(maps.query_len)])

    def statistics(self, call: int = -1, batch: int = 0, **request: Any) -> dict[str, list[_core.HeadStatistics]]:
        """multihead.statistics of every layer, by name; `request` as there."""
        return {name: _core.statistics(self.maps(name, call, batch), **request) for name in self.layers}

    def lab(self, call: int = -1, **options: Any) -> Lab:
        """The lab with the maps of every layer; options as for multihead.lab."""
        return lab(*(self.capture(name, call) for name in self.layers), **options)

    def save(self, folder: str | os.PathLike[str], call: int = -1) -> list[pathlib.Path]:
        """A file NAME.safetensors for each layer, for the command line."""
        pathlib.Path(folder).mkdir(parents=True, exist_ok=True)
        paths = [pathlib.Path(folder) / f"{name}.safetensors" for name in self.layers]
        for name, path in zip(self.layers, paths):
            self.capture(name, call).save(path)
        return paths


class _Tokens:
    """Ids that a part of a model has been given so far, a list for each batch entry; as text when somebody has a tokenizer.

    Only a single entry is followed from call to call: of several, beam search changes the order between calls.
    """

    def __init__(self, tokenizer: Any):
        self.tokenizer = tokenizer
        self.ids: list[list[int]] = []

    def hook(self, _module: torch.nn.Module, arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
        ids = named.get("input_ids", arguments[0] if arguments else None)
        usable = isinstance(ids, torch.Tensor) and ids.dim() == 2 and not ids.is_floating_point()
        now = ids.tolist() if usable else []
        self.ids = [self.ids[0] + now[0]] if len(self.ids) == len(now) == 1 else now

    def last(self, count: int, batch: int) -> list[str]:
        """The last `count` tokens of each entry, one entry after another, or none when that many are not known."""
        if count == 0 or len(self.ids) != batch or any(len(entry) < count for entry in self.ids):
            return []
        ids = [i for entry in self.ids for i in entry[-count:]]
        return [str(i) for i in ids] if self.tokenizer is None else [str(t) for t in self.tokenizer.convert_ids_to_tokens(ids)]


def _is_cross(name: str) -> bool:
    return any(word in name.lower() for word in ("crossattention", "cross_attn", "encoder_attn", "encdecattention"))


class _Observer:
    """Captures the calls of one model's attention modules into a Seen."""

    def __init__(self, model: torch.nn.Module, tokenizer: Any, values: bool, chosen: Callable[[str], bool]):
        self.model, self.values = model, values
        self.modules = {name: module for name, module in model.named_modules() if chosen(name)}
        self.seen = Seen(list(self.modules))
        both = bool(getattr(model.config, "is_encoder_decoder", False))
        self.decoder = _Tokens(tokenizer)
        self.encoder = _Tokens(tokenizer) if both else self.decoder
        self.hooks: list[Any] = []

    def start(self) -> None:
        if any(id(module) in _watched for module in self.modules.values()):
            raise ValueError("observe: expected a model that nobody observes; it is being observed already")
        self.hooks = [part.register_forward_pre_hook(tokens.hook, with_kwargs=True) for part, tokens in self._parts()]
        for name, module in self.modules.items():
            _watched[id(module)] = lambda *call, name=name: self.keep(name, *call)

    def _parts(self) -> list[tuple[torch.nn.Module, _Tokens]]:
        if self.encoder is self.decoder:
            return [(self.model, self.decoder)]
        return [(self.model.get_encoder(), self.encoder), (self.model.get_decoder(), self.decoder)]

    def stop(self) -> None:
        for hook in self.hooks:
            hook.remove()
        for module in self.modules.values():
            del _watched[id(module)]

    def keep(self, name: str, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, options: dict[str, Any]) -> tuple[torch.Tensor, _core.Capture]:
        mask = options["mask"]
        if mask is not None and mask.dim() == 4 and mask.shape[2] > 0:
            options = options | _by_keys(mask)
        output, capture = _core.capture(query.detach(), key.detach(), value.detach(), values=self.values, outputs=self.values,
                                        **_plain(options))
        capture.name, capture.model = name, type(self.model).__name__
        capture.layer = next((int(part) for part in name.split(".") if part.isdigit()), -1)
        encoder = self.encoder is not self.decoder and "decoder" not in name
        queries = self.encoder if encoder else self.decoder
        capture.query_tokens = queries.last(query.shape[2], query.shape[0])
        capture.key_tokens = (self.encoder if _is_cross(name) else queries).last(key.shape[2], query.shape[0])
        self.seen.captures[name].append(capture)
        return output, capture


@contextlib.contextmanager
def observe(model: torch.nn.Module, *, layers: Iterable[str] | Callable[[str], bool] | None = None, tokenizer: Any = None,
            values: bool = False) -> Iterator[Seen]:
    """Within it, every attention call of a transformers model is captured; the Seen stays when it ends.

    layers     names of attention modules, or a function of a name; None: all
    tokenizer  turns ids into the labels of rows and columns; None: the ids themselves. Over a cache, keys of earlier calls have
               labels in a batch of one: larger ones may change their order between calls
    values     keep values and outputs too, for value-weighted statistics

    A model with another attention implementation computes with "multihead" inside, and with its own again afterwards. Every call
    keeps its query and key: (heads · query_len + kv_heads · key_len) · head_dim elements, and its mask: a byte a key where that is
    padding, or padding and causality.
    """
    chosen = layers if callable(layers) else (lambda name: True) if layers is None else set(layers).__contains__
    observer = _Observer(model, tokenizer, values, chosen)
    if layers is not None and not callable(layers) and set(layers) - set(observer.modules):
        raise ValueError(f"observe: layers: no module {', '.join(sorted(set(layers) - set(observer.modules)))} in the model")
    before = model.config._attn_implementation
    observer.start()
    try:
        if before != "multihead":
            model.set_attn_implementation("multihead")
        yield observer.seen
    finally:
        observer.stop()
        if before != "multihead":
            model.set_attn_implementation(before)
