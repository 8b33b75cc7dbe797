"""accelerate's ``prepare_pippy``, which splits a model's layers over CUDA devices, one process each."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_flatten, tree_unflatten

from .._backend import uses_torch_xla
from ..processes import world_size
from ..replicas.spmd import data_parallel_size

_SINGLE = (bool, int, float, str, type(None))


def prepare_pippy(
    model: nn.Module,
    split_points: Any = "auto",
    no_split_module_classes: Any = None,
    example_args: Any = (),
    example_kwargs: Any = None,
    num_chunks: int | None = None,
    gather_output: bool = False,
) -> Any:
    """``accelerate.prepare_pippy``: on XLA parameters are split over all devices, and not layers.

    The model runs chunk by chunk, as the pipeline does, and a batch that does not fill the chunks is filled up as
    there. The process that drives all devices is the last one, which has the output.

    Args:
        model: A model to run, not to train.
        split_points: As for accelerate, of use on other devices.
        no_split_module_classes: As for accelerate, of use on other devices.
        example_args: As for accelerate, of use on other devices.
        example_kwargs: As for accelerate, of use on other devices.
        num_chunks: Into how many parts a batch is cut; by default as many as there are devices.
        gather_output: As for accelerate, of use on other devices.

    Returns:
        ``model``.

    Raises:
        RuntimeError: without ``use_spmd()``, and where several processes have been started.

    Example:
        >>> model = xla.prepare_pippy(model, split_points="auto", example_args=(x,))  # doctest: +SKIP
    """
    inference: Any = importlib.import_module("accelerate.inference")
    if not uses_torch_xla():
        return inference.prepare_pippy(
            model,
            split_points,
            no_split_module_classes,
            example_args,
            example_kwargs,
            num_chunks,
            gather_output,
        )
    if world_size() > 1:
        raise RuntimeError(
            "prepare_pippy on XLA: one process drives all devices; start the script with python, not with a "
            "launcher for each device"
        )
    from .. import (
        fully_shard,  # which is the backend's, and that is not chosen when this is imported
    )

    chunks = num_chunks or data_parallel_size()
    model.forward = functools.partial(_in_chunks, inference, model.forward, chunks)
    return fully_shard(model)


def _in_chunks(
    inference: Any, forward: Callable[..., Any], chunks: int, *args: Any, **kwargs: Any
) -> Any:
    """As torch's pipeline cuts a batch, and puts its outputs together."""
    if chunks == 1:
        return forward(*args, **kwargs)
    size = inference.find_pippy_batch_size(args, kwargs)
    if size is None:
        raise ValueError("Could not find batch size from args or kwargs")
    if size != chunks:
        args = inference.pad_input_tensors(args, size, chunks)
        kwargs = inference.pad_input_tensors(kwargs, size, chunks)
    cut: Any = importlib.import_module("torch.distributed.pipelining.microbatch")
    parts = zip(*cut.split_args_kwargs_into_chunks(args, kwargs, chunks), strict=True)
    return _merged([forward(*part, **named) for part, named in parts])


def _merged(outputs: list[Any]) -> Any:
    """Tensors end to end; what holds none, as a cache, is there once for each chunk."""
    leaves, structures = zip(*map(tree_flatten, outputs), strict=True)
    merged: list[Any] = []
    for parts in zip(*leaves, strict=True):
        if isinstance(parts[0], torch.Tensor):
            merged.append(torch.cat(parts))
        else:
            merged.append(parts[0] if isinstance(parts[0], _SINGLE) else parts)
    return tree_unflatten(merged, structures[0])
