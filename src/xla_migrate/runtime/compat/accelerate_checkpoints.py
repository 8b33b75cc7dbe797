"""Patches for accelerate on XLA devices (1.15 with torch_xla 2.9): checkpoints, and gathering of objects."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterator
from typing import Any

import torch

from .._backend import uses_torch_xla
from ..checkpoints import settled
from .pretrained import states_on_the_host

_OF_LOADERS = (
    "dataset get_sampler load_state_dict set_sampler state_dict use_stateful_dataloader".split()
)


def save_state(accelerator: Any, *args: Any, **kwargs: Any) -> Any:
    """``accelerator.save_state(...)``, which fails on XLA: its device loaders hide what it asks them for.

    Args:
        accelerator: An Accelerator.
        args: As for the method.
        kwargs: As for the method.

    Returns:
        What the method returned: the folder.

    Example:
        >>> xla.save_state(accelerator, folder / "state")  # doctest: +SKIP
    """
    with _works_on_xla():
        return accelerator.save_state(*args, **kwargs)


def load_state(accelerator: Any, *args: Any, **kwargs: Any) -> Any:
    """``accelerator.load_state(...)``, which fails on XLA: safetensors cannot load into XLA tensors.

    Args:
        accelerator: An Accelerator.
        args: As for the method.
        kwargs: As for the method.

    Returns:
        What the method returned.

    Example:
        >>> xla.load_state(accelerator, folder / "state")  # doctest: +SKIP
    """
    with _works_on_xla():
        found = accelerator.load_state(*args, **kwargs)
    _keep_steps_on_the_host(accelerator)
    return found


def save_model(accelerator: Any, model: Any, *args: Any, **kwargs: Any) -> Any:
    """``accelerator.save_model(model, ...)``, which fails on XLA: safetensors cannot read XLA tensors.

    Args:
        accelerator: An Accelerator.
        model: The model.
        args: As for the method.
        kwargs: As for the method.

    Returns:
        What the method returned.

    Example:
        >>> xla.save_model(accelerator, model, folder / "model")  # doctest: +SKIP
    """
    if not uses_torch_xla():
        return accelerator.save_model(model, *args, **kwargs)
    settled()
    with states_on_the_host(accelerator.unwrap_model(model)):
        return accelerator.save_model(model, *args, **kwargs)


def gather_lists(value: Any) -> Any:
    """``accelerate.utils.gather_object(value)``, which raises on XLA: the lists of all replicas, one behind the other.

    Args:
        value: A list of objects that pickle can write.

    Returns:
        With one replica `value` itself.

    Example:
        >>> xla.gather_lists([xla.rank()])
        [0]
    """
    from ..processes import world_size
    from ..replicas.object_collectives import all_gather_object

    if not uses_torch_xla():
        return importlib.import_module("accelerate.utils").gather_object(value)
    if world_size() == 1:
        return value
    found: list[Any] = [None] * world_size()
    all_gather_object(found, value)
    return [part for parts in found for part in parts]


@contextlib.contextmanager
def _works_on_xla() -> Iterator[None]:
    if not uses_torch_xla():
        yield
        return
    settled()
    checkpointing: Any = importlib.import_module("accelerate.checkpointing")
    loaders: Any = importlib.import_module("accelerate.data_loader")
    _show_loaders(loaders.MpDeviceLoaderWrapper)
    load_model = checkpointing.load_model
    checkpointing.load_model = _load_model
    try:
        yield
    finally:
        checkpointing.load_model = load_model


def _show_loaders(wrapper: Any) -> None:
    for name in _OF_LOADERS:
        if not hasattr(wrapper, name):
            setattr(wrapper, name, _of_the_loader(name))


def _of_the_loader(name: str) -> property:
    def get(self: Any) -> Any:
        return getattr(self._loader, name)

    return property(get)


def _load_model(
    model: Any, filename: Any, strict: bool = True, device: Any = "cpu"
) -> tuple[list[str], list[str]]:
    """Safetensors' `load_model`, by way of the host."""
    state = importlib.import_module("safetensors.torch").load_file(filename, device="cpu")
    found = model.load_state_dict(state, strict=False)
    own = model.state_dict(keep_vars=True)
    came = {id(value) for name, value in own.items() if name in state}
    missing = [
        name for name in found.missing_keys if id(own.get(name)) not in came
    ]  # but tied ones
    if strict and (missing or found.unexpected_keys):
        what = f"missing {missing}, unexpected {found.unexpected_keys}"
        raise RuntimeError(f"{filename} is not of this {type(model).__name__}: {what}")
    return missing, list(found.unexpected_keys)


def _keep_steps_on_the_host(accelerator: Any) -> None:
    """Adam reads its counter in every step (fact 3.28); accelerate moves it to the device with the rest."""
    for optimizer in accelerator._optimizers:
        for state in optimizer.optimizer.state.values():
            step = state.get("step")
            if isinstance(step, torch.Tensor) and step.device.type == "xla":
                state["step"] = step.cpu()
