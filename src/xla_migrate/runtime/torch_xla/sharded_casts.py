"""Mixed precision of sharded modules: computed in one type, kept in another.

Parameters are exchanged for casts of them while a module runs. Each module does so for what is below it, where
that is not done yet: activation checkpointing runs parts of a model again in the backward pass.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any

import torch
from torch import nn
from torch.distributed.utils import _apply_to_tensors

from .._backend import backend

_BATCH_NORM = nn.modules.batchnorm._BatchNorm


def computed(dtype: torch.dtype | None) -> torch.dtype | None:
    """The type that takes the place of one of a policy: float16 is bfloat16."""
    return None if dtype is None else backend().autocast_dtype(dtype)


def cast(value: Any, dtype: torch.dtype) -> Any:
    """The floating-point tensors in whatever holds them: torch's own walk, which knows dataclasses and packed sequences."""
    return _apply_to_tensors(functools.partial(_cast, dtype=dtype), value)


def _cast(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return tensor.to(dtype) if tensor.is_floating_point() else tensor


def cast_inputs(module: nn.Module, dtype: torch.dtype) -> None:
    """Those of its forward, before anything else hears of them."""
    module.register_forward_pre_hook(_Inputs(dtype), prepend=True, with_kwargs=True)


def cast_output(module: nn.Module, dtype: torch.dtype) -> None:
    module.register_forward_hook(_Output(dtype))


def cast_states(
    what: str,
    managed: Iterable[nn.Module],
    parameters: torch.dtype | None,
    buffers: torch.dtype | None = None,
) -> None:
    """Cast parameters and buffers of some modules while one of them runs, if ``what`` requests it."""
    parts = list(managed)
    if not (parameters or buffers):
        return
    if any(isinstance(part, _BATCH_NORM) for part in parts):
        raise NotImplementedError(
            f"{what} of a model with batch norms on XLA: remove it, and run forward under xla.autocast()"
        )
    states = _States(parts, parameters, buffers)
    for part in parts:
        begins = _Begins(states)
        part.register_forward_pre_hook(begins, prepend=True)
        part.register_forward_hook(_Ends(states, begins), always_call=True)


class _Inputs:
    """A forward pre-hook."""

    def __init__(self, dtype: torch.dtype) -> None:
        self._dtype = dtype

    def __call__(self, module: nn.Module, args: Any, kwargs: Any) -> Any:
        return cast(args, self._dtype), cast(kwargs, self._dtype)


class _Output:
    """A forward hook."""

    def __init__(self, dtype: torch.dtype) -> None:
        self._dtype = dtype

    def __call__(self, module: nn.Module, args: Any, output: Any) -> Any:
        return cast(output, self._dtype)


class _States:
    """The tensors that are exchanged at the moment."""

    def __init__(
        self,
        managed: list[nn.Module],
        parameters: torch.dtype | None,
        buffers: torch.dtype | None,
    ) -> None:
        self._managed = set(managed)
        self._parameters, self._buffers = parameters, buffers
        self._is_cast = False
        self._kept: list[tuple[dict[str, Any], str, Any]] = []

    def begin(self, module: nn.Module) -> bool:
        """True if it is this call that exchanges."""
        if self._is_cast:
            return False
        self._is_cast = True
        for part in module.modules():
            if part in self._managed:
                self._exchange(part._parameters, self._parameters)
                self._exchange(part._buffers, self._buffers)
        return True

    def _exchange(self, states: dict[str, Any], dtype: torch.dtype | None) -> None:
        for name, state in states.items():
            if dtype is not None and state is not None:
                self._kept.append((states, name, state))
                states[name] = _cast(state, dtype)

    def end(self) -> None:
        """Put back what was there."""
        while self._kept:
            states, name, state = self._kept.pop()
            states[name] = state
        self._is_cast = False


class _Begins:
    """A forward pre-hook; remembers of each call under way whether it exchanged."""

    def __init__(self, states: _States) -> None:
        self._states = states
        self.calls: list[bool] = []

    def __call__(self, module: nn.Module, args: Any) -> None:
        self.calls.append(self._states.begin(module))


class _Ends:
    """A forward hook."""

    def __init__(self, states: _States, begins: _Begins) -> None:
        self._states, self._begins = states, begins

    def __call__(self, module: nn.Module, args: Any, output: Any) -> None:
        if self._begins.calls.pop():
            self._states.end()
