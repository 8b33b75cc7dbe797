"""Dropout alike in both runs: off, or with the same masks.

"off" sets p to 0 when dropout is computed, not when it is configured, so modules, functional
calls, attention, RNNs and configurations of model libraries are all reached. "same" draws the masks
from the stream of `device_random`, with one formula for both sides.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from ..process.patching import Patches
from . import device_random

MODES = ("off", "same")
notes: set[str] = set()  # what could not be made alike; the run's record shows them

# name -> number of leading dimensions of the mask that are not 1 (None: all)
_ELEMENTWISE = {"dropout": None, "dropout1d": 2, "dropout2d": 2, "dropout3d": 2}
_ALPHA = ("alpha_dropout", "feature_alpha_dropout")
_RNN = ("lstm", "gru", "rnn_tanh", "rnn_relu")
_DROPPED = -1.7580993408473766  # SELU's negative saturation, what alpha dropout drops to


def install(patches: Patches, mode: str) -> None:
    """Make dropout "off" or "same" in this process."""
    if mode not in MODES:
        raise ValueError(f"dropout must be one of {', '.join(MODES)}, not {mode!r}")
    off = mode == "off"
    f = nn.functional
    for name, dims in _ELEMENTWISE.items():
        patches.put(f, name, _off if off else _masked(getattr(f, name), dims))
    for name in _ALPHA:
        patches.put(f, name, _off if off else _alpha(getattr(f, name), name.startswith("feature")))
    for name in ("dropout", "feature_dropout", "alpha_dropout", "feature_alpha_dropout"):
        patches.put(
            torch, name, _positional(getattr(f, name.replace("feature_dropout", "dropout2d")))
        )
    patches.put(f, "scaled_dot_product_attention", _attention(f.scaled_dot_product_attention, off))
    for name in _RNN:
        patches.put(torch._VF, name, _recurrent(getattr(torch._VF, name), off))


def _off(
    input: torch.Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> torch.Tensor:
    return input


def _positional(fn: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """torch.dropout(input, p, train), the operator behind the function."""

    def dropout(input: torch.Tensor, p: float, train: bool) -> torch.Tensor:
        return fn(input, p, train)

    return dropout


def _mask(x: torch.Tensor, p: float, dims: int | None) -> torch.Tensor:
    shape = x.shape if dims is None else (*x.shape[:dims], *[1] * (x.dim() - dims))
    return device_random.uniform(x.detach().new_empty(shape)) >= p


def _masked(original: Callable[..., torch.Tensor], dims: int | None) -> Callable[..., torch.Tensor]:
    @functools.wraps(original)
    def dropout(
        input: torch.Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
    ) -> torch.Tensor:
        if not training or p == 0 or not device_random.on_device(input.device):
            return original(input, p, training, inplace)
        if p == 1:
            return input * 0
        scale = _mask(input, p, dims).to(input.dtype) / (1 - p)
        return input.mul_(scale) if inplace else input * scale

    return dropout


def _alpha(original: Callable[..., torch.Tensor], feature: bool) -> Callable[..., torch.Tensor]:
    @functools.wraps(original)
    def dropout(
        input: torch.Tensor, p: float = 0.5, training: bool = False, inplace: bool = False
    ) -> torch.Tensor:
        if not training or p == 0 or not device_random.on_device(input.device):
            return original(input, p, training, inplace)
        keep = _mask(input, p, 2 if feature else None).to(input.dtype)
        a = ((1 - p) * (1 + p * _DROPPED**2)) ** -0.5
        return a * (input * keep + _DROPPED * (1 - keep)) - a * p * _DROPPED  # type: ignore[no-any-return]

    return dropout


def _attention(original: Callable[..., torch.Tensor], off: bool) -> Callable[..., torch.Tensor]:
    @functools.wraps(original)
    def attention(
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        attn_mask: torch.Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        **kwargs: Any,
    ) -> torch.Tensor:
        if dropout_p == 0 or off or not device_random.on_device(query.device):
            p = 0.0 if off else dropout_p
            return original(query, key, value, attn_mask, p, is_causal, **kwargs)
        if kwargs.get("enable_gqa"):
            groups = query.size(-3) // key.size(-3)
            key, value = key.repeat_interleave(groups, -3), value.repeat_interleave(groups, -3)
        scale = kwargs.get("scale") or query.size(-1) ** -0.5
        scores = query @ key.transpose(-2, -1) * scale
        if is_causal:
            attn_mask = scores.new_ones(scores.shape[-2:], dtype=torch.bool).tril()
        if attn_mask is not None and attn_mask.dtype == torch.bool:
            scores = scores.masked_fill(~attn_mask, float("-inf"))
        elif attn_mask is not None:
            scores = scores + attn_mask
        weights = scores.softmax(-1)
        return weights * _mask(weights, dropout_p, None).to(weights.dtype) / (1 - dropout_p) @ value  # type: ignore[no-any-return]

    return attention


def _recurrent(original: Callable[..., Any], off: bool) -> Callable[..., Any]:
    """nn.LSTM and its like drop between layers, inside the operator: there p is only set to 0."""

    def recurrent(*args: Any) -> Any:
        # (input, hx, weights, biases, layers, dropout, train, ...); packed: (input, sizes, hx, ...)
        at = 5 if isinstance(args[2], list) else 6
        if args[at] and args[at + 1]:
            if not off:
                notes.add("dropout between RNN layers cannot draw the same masks: off in both runs")
            args = (*args[:at], 0.0, *args[at + 1 :])
        return original(*args)

    return recurrent


class _WithoutDropout:
    """torch.nn.functional for a module that runs without dropout."""

    dropout = staticmethod(_off)

    def __getattr__(self, name: str) -> Any:
        return getattr(nn.functional, name)


def install_torch_xla(patches: Patches) -> None:
    """torch_xla's own nn.GRU (fact 1.106) drops in Python, unlike torch's."""
    from torch_xla.experimental import gru

    patches.put(gru, "F", _WithoutDropout())
