"""Saving models of transformers, diffusers and peft in their own way."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import nn

from .._backend import uses_torch_xla
from ..checkpoints import settled


def save_pretrained(model: Any, *args: Any, **kwargs: Any) -> Any:
    """``model.save_pretrained(...)``, which writes with safetensors, and that cannot read XLA tensors.

    Tensors are passed to it on the CPU; tied weights stay tied. The model does not move.

    Args:
        model: Anything with that method: a model, one of peft's, a pipeline of diffusers.
        args: As for the method.
        kwargs: As for the method; tensors of a ``state_dict`` among them are brought to the CPU.

    Returns:
        What the method returned.

    Example:
        >>> xla.save_pretrained(model, "out")  # doctest: +SKIP
    """
    if not uses_torch_xla():
        return model.save_pretrained(*args, **kwargs)
    settled()
    state = kwargs.get("state_dict")
    if isinstance(state, Mapping):
        kwargs["state_dict"] = _on_the_host(state)
    with contextlib.ExitStack() as stack:
        for module in _modules(model):
            stack.enter_context(states_on_the_host(module))
        return model.save_pretrained(*args, **kwargs)


def save_lora(save: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """``save(...)``, a method of diffusers that writes LoRA's weights with safetensors.

    ``Pipeline.save_lora_weights`` is given tensors, ``unet.save_lora_adapter`` takes its own: both on the CPU.

    Args:
        save: The method.
        args: As for the method.
        kwargs: As for the method; tensors of dictionaries among them are brought to the CPU.

    Returns:
        What the method returned.

    Example:
        >>> xla.save_lora(Pipeline.save_lora_weights, "out", unet_lora_layers=state)  # doctest: +SKIP
    """
    if not uses_torch_xla():
        return save(*args, **kwargs)
    settled()
    given = [_on_the_host(a) if isinstance(a, Mapping) else a for a in args]
    named = {k: _on_the_host(v) if isinstance(v, Mapping) else v for k, v in kwargs.items()}
    with contextlib.ExitStack() as stack:
        for module in _modules(getattr(save, "__self__", None)):
            stack.enter_context(states_on_the_host(module))
        return save(*given, **named)


def _modules(model: Any) -> list[nn.Module]:
    """The model, or the modules that a pipeline is made of."""
    if isinstance(model, nn.Module):
        return [model]
    parts = getattr(model, "components", None)
    values = parts.values() if isinstance(parts, Mapping) else ()
    return [part for part in values if isinstance(part, nn.Module)]


@contextlib.contextmanager
def states_on_the_host(module: nn.Module) -> Iterator[None]:
    """In here ``module.state_dict()`` gives CPU tensors."""
    state_dict = module.state_dict

    def on_the_host(*args: Any, **kwargs: Any) -> dict[str, Any]:
        # With the parameters themselves it can be seen which are one.
        return _on_the_host(state_dict(*args, **{**kwargs, "keep_vars": True}))

    module.__dict__["state_dict"] = on_the_host
    try:
        yield
    finally:
        del module.__dict__["state_dict"]


def _on_the_host(state: Mapping[str, Any]) -> dict[str, Any]:
    moved: dict[int, torch.Tensor] = {}
    for value in state.values():
        if isinstance(value, torch.Tensor) and id(value) not in moved:
            moved[id(value)] = value.detach().cpu()
    return {name: moved.get(id(value), value) for name, value in state.items()}
