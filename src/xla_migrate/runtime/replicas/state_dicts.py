"""State dicts by ``torch.distributed.checkpoint.state_dict``, of models that one process shards.

Torch's functions gather shards from processes, and send states to them. Where one process has all of it, that is
left out; what they return is the same. On other devices they are torch's.
"""

from __future__ import annotations

import dataclasses
import importlib
from typing import Any

import torch
from torch import nn

from .._backend import backend, uses_torch_xla
from ..processes import world_size


def get_model_state_dict(model: nn.Module, *, submodules: Any = None, options: Any = None) -> Any:
    """Torch's, of a model that is sharded over devices.

    Args:
        model: The model.
        submodules: As for torch.
        options: A ``StateDictOptions``. Whole, sharded or not asked for, tensors are whole.

    Returns:
        The state dict, by the names of parameters and buffers.

    Example:
        >>> states = xla.get_model_state_dict(model)
    """
    found = _torchs("get_model_state_dict")(model, submodules=submodules, options=options)
    return _own(found, options)


def get_optimizer_state_dict(
    model: nn.Module, optimizers: Any, *, submodules: Any = None, options: Any = None
) -> Any:
    """Torch's, of a model that is sharded over devices.

    Args:
        model: The model.
        optimizers: An optimizer, or several.
        submodules: As for torch.
        options: A ``StateDictOptions``.

    Returns:
        The state dict, by the names of parameters.

    Example:
        >>> states = xla.get_optimizer_state_dict(model, optimizer)
    """
    get = _torchs("get_optimizer_state_dict")
    return _own(get(model, optimizers, submodules=submodules, options=options), options)


def get_state_dict(
    model: nn.Module, optimizers: Any, *, submodules: Any = None, options: Any = None
) -> Any:
    """Torch's, of a model that is sharded over devices.

    Args:
        model: The model.
        optimizers: An optimizer, or several.
        submodules: As for torch.
        options: A ``StateDictOptions``.

    Returns:
        The state dicts of the model, and of the optimizers.

    Example:
        >>> states, of_optimizer = xla.get_state_dict(model, optimizer)
    """
    get = _torchs("get_state_dict")
    return _own(get(model, optimizers, submodules=submodules, options=options), options)


def set_model_state_dict(model: nn.Module, model_state_dict: Any, *, options: Any = None) -> Any:
    """Torch's, of a model that is sharded over devices. Parameters on "meta" are made on the device.

    Args:
        model: The model.
        model_state_dict: What ``get_model_state_dict`` gave.
        options: A ``StateDictOptions``; ``broadcast_from_rank0`` has no effect if there is one process.

    Returns:
        The missing and unexpected keys.

    Raises:
        RuntimeError: for parameters on "meta" that ``model_state_dict`` does not have.

    Example:
        >>> xla.set_model_state_dict(model, xla.get_model_state_dict(model))
        <All keys matched successfully>
    """
    _make(model, model_state_dict)
    put = _torchs("set_model_state_dict")
    return put(model, model_state_dict, options=_for_one(options))


def set_optimizer_state_dict(
    model: nn.Module, optimizers: Any, optim_state_dict: Any, *, options: Any = None
) -> None:
    """Torch's, of a model that is sharded over devices.

    Args:
        model: The model.
        optimizers: An optimizer, or several.
        optim_state_dict: What ``get_optimizer_state_dict`` gave.
        options: A ``StateDictOptions``; ``broadcast_from_rank0`` has no effect if there is one process.

    Example:
        >>> states = xla.get_optimizer_state_dict(model, optimizer)
        >>> xla.set_optimizer_state_dict(model, optimizer, states)
    """
    put = _torchs("set_optimizer_state_dict")
    put(model, optimizers, optim_state_dict, options=_for_one(options))


def set_state_dict(
    model: nn.Module,
    optimizers: Any,
    *,
    model_state_dict: Any,
    optim_state_dict: Any,
    options: Any = None,
) -> Any:
    """Torch's, of a model that is sharded over devices. Parameters on "meta" are made on the device.

    Args:
        model: The model.
        optimizers: An optimizer, or several.
        model_state_dict: The first of what ``get_state_dict`` gave.
        optim_state_dict: The second.
        options: A ``StateDictOptions``; ``broadcast_from_rank0`` has no effect if there is one process.

    Returns:
        The missing and unexpected keys.

    Raises:
        RuntimeError: for parameters on "meta" that ``model_state_dict`` does not have.

    Example:
        >>> states, of_optimizer = xla.get_state_dict(model, optimizer)
        >>> xla.set_state_dict(model, optimizer, model_state_dict=states, optim_state_dict=of_optimizer)
        <All keys matched successfully>
    """
    _make(model, model_state_dict)
    return _torchs("set_state_dict")(
        model,
        optimizers,
        model_state_dict=model_state_dict,
        optim_state_dict=optim_state_dict,
        options=_for_one(options),
    )


def _torchs(name: str) -> Any:
    return getattr(importlib.import_module("torch.distributed.checkpoint.state_dict"), name)


def _is_alone() -> bool:
    return uses_torch_xla() and world_size() == 1


def _for_one(options: Any) -> Any:
    """Send nothing if there is one process: torch's function fails on the device's group."""
    if options is None or not _is_alone():
        return options
    return dataclasses.replace(options, broadcast_from_rank0=False)


def _own(found: Any, options: Any) -> Any:
    """Copy gathered states, so that further training does not change them."""
    if options is None or not options.full_state_dict or options.cpu_offload or not _is_alone():
        return found
    return _copied(found)


def _copied(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return backend().clones([value])[0]
    if isinstance(value, dict):
        return {key: _copied(item) for key, item in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_copied(item) for item in value)
    return value


def _make(model: nn.Module, given: Any) -> None:
    """Make on the device what is on "meta" and gets a value now."""
    if not _is_alone():
        return
    states = model.state_dict(keep_vars=True)
    on_meta = {name for name, value in states.items() if getattr(value, "is_meta", False)}
    if not on_meta:
        return
    missing = sorted(name for name in on_meta if name.replace("_orig_mod.", "") not in given)
    if missing:
        raise RuntimeError(
            f"{', '.join(missing[:5])}: on 'meta', and missing in the state dict; create them with "
            "model.to_empty(device=xla.xla_device()), and initialise them"
        )
    filled = {id(value) for value in states.values()}
    model._apply(_Made({id(b) for b in model.buffers() if id(b) not in filled}))  # type: ignore[no-untyped-call]


class _Made:
    """For ``Module._apply``: tensors on "meta" are made, except some."""

    def __init__(self, left: set[int]) -> None:
        self._left = left

    def __call__(self, tensor: torch.Tensor) -> torch.Tensor:
        if not tensor.is_meta or id(tensor) in self._left:
            return tensor
        return torch.empty_like(tensor, device=backend().device())
