"""Place the tensors of a loaded file: data on the device, states on the CPU."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn
from torch.utils.data import Dataset

from .batches import Mover

# The last part of the names of parameters and buffers of torch's own modules: nearly every model has one of them.
_OF_MODULES = re.compile(
    r"(?:(?:in|q|k|v|out)_proj_)?(?:weight|bias)(?:_(?:ih|hh|hr)_l\d+(?:_reverse)?|_[guvkq]|_orig)?"
    r"|running_mean|running_var|num_batches_tracked|original\d?|[qg]?(?:zeros|scales)|gamma|beta|lora_[AB]"
)
_RANDOM = re.compile(r"rng|random|generator|seed", re.IGNORECASE)


class Placer(Mover):
    """Puts what a file holds on the device, except for states."""

    def __init__(self, device: torch.device) -> None:
        super().__init__(device, lambda tensor: tensor.to(device))

    def __call__(self, x: Any) -> Any:
        if isinstance(x, nn.Module):
            return self.module(x)
        if (
            isinstance(x, Dataset) and id(x) not in self._met
        ):  # a loop that feeds a model never looks into one
            self._met[id(x)] = (x, x)
            self._attributes(x, vars(x))
            return x
        return super().__call__(x)

    def module(self, x: nn.Module) -> nn.Module:
        """A whole module, with the tensors that it keeps beside its parameters and buffers."""
        if id(x) in self._met:
            return x
        x.to(self._device)
        for part in x.modules():
            self._met[id(part)] = (part, part)
        for part in x.modules():
            own = {n: v for n, v in vars(part).items() if n not in _OF_ALL_MODULES}
            self._attributes(part, own)
        return x

    def _attributes(self, x: Any, held: Mapping[str, Any]) -> None:
        """Move attributes in place: a loaded object has no other owner."""
        for name, value in list(held.items()):
            if (moved := self(value)) is not value:
                object.__setattr__(x, name, moved)

    def _move(self, x: Any) -> Any:
        if isinstance(x, Mapping) and is_state(x):
            return x
        if isinstance(x, torch.optim.Optimizer):
            # Its parameters are a module's, which moves them; a step that is counted on the CPU costs no read.
            for parameter, state in list(x.state.items()):
                kept = {"step": state["step"]} if "step" in state else {}
                x.state[parameter] = {**self._with_items(state, _but(state, kept)), **kept}
            return x
        return super()._move(x)

    def _tensor(self, x: torch.Tensor) -> torch.Tensor:
        if x.layout is not torch.strided:
            warnings.warn(
                f"a tensor of layout {x.layout} stays on the CPU: XLA has no sparse tensors. "
                "Use `xla.sparse(x).to(device)`, or make it dense, before you combine it with "
                "tensors on the device",
                stacklevel=2,
            )
            return x
        return super()._tensor(x)

    def _with_items(self, x: Any, items: Any) -> Any:
        if isinstance(x, Mapping):
            items = [(key, value) for key, value in items if not _is_random_state(key, value)]
        return super()._with_items(x, items)


# What `.to` has seen to, or holds no tensors.
_OF_ALL_MODULES = frozenset(vars(nn.Module()))


def _but(state: Mapping[Any, Any], kept: Mapping[Any, Any]) -> list[tuple[Any, Any]]:
    return [(key, value) for key, value in state.items() if key not in kept]


def is_state(x: Mapping[Any, Any]) -> bool:
    """True if ``load_state_dict`` of a module or an optimizer is what takes this.

    A module's has ``_metadata``. If it was copied into a plain dict, it has the names of parameters,
    some of which torch's own modules use. An optimizer's has ``param_groups``.
    """
    if hasattr(x, "_metadata") or ("state" in x and "param_groups" in x):
        return True
    names = [str(key) for key, value in x.items() if isinstance(value, torch.Tensor)]
    known = [_OF_MODULES.fullmatch(name.rpartition(".")[2]) is not None for name in names]
    if any("." in name for name in names):
        return any(known)
    return bool(names) and all(known)


def _is_random_state(key: Any, value: Any) -> bool:
    """Generators take their states from the CPU."""
    if not _RANDOM.search(str(key)):
        return False
    if isinstance(value, torch.Tensor):
        return value.dtype is torch.uint8 and value.dim() == 1
    return isinstance(value, list | tuple | Mapping) and "rng" in str(key).lower()
