"""Tools that rewrite or restrict how a function is run: compilation, recomputation, inference."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

from ._backend import backend


def compile(model_or_fn: Any = None, **kwargs: Any) -> Any:
    """``torch.compile`` where it helps; on XLA, which compiles by itself, its argument as it is.

    On XLA tensors inductor fails, and the openxla backend takes four launches per training step in
    place of one (fact 1.100).

    Args:
        model_or_fn: A module or function; without one, a decorator.
        kwargs: As for ``torch.compile``.

    Returns:
        On XLA ``model_or_fn`` itself, or a decorator that gives its argument back; elsewhere what
        ``torch.compile`` gives.

    Example:
        >>> xla.compile(model) is model  # on XLA
        True
    """
    if model_or_fn is None:
        return functools.partial(compile, **kwargs)
    return backend().compile(model_or_fn, kwargs)


def checkpoint(
    function: Callable[..., Any],
    *args: Any,
    use_reentrant: bool | None = None,
    **kwargs: Any,
) -> Any:
    """``torch.utils.checkpoint.checkpoint``: recompute activations in backward, to save memory.

    Torch's own fails on XLA tensors, and torch_xla's takes neither keyword arguments nor inputs
    without gradients (fact 1.101). On XLA this is the non-reentrant kind whatever
    ``use_reentrant`` says: it gives the same gradients, with the same dropout masks (1.102), and
    asks nothing of the inputs.

    Args:
        function: What to run and to recompute.
        args: Its arguments.
        use_reentrant: As for torch, on eager backends.
        kwargs: ``preserve_rng_state``, ``context_fn``, ``determinism_check`` and ``debug`` as for
            torch; all others are ``function``'s.

    Returns:
        What ``function`` returned.

    Example:
        >>> y = xla.checkpoint(model, x, use_reentrant=False)
        >>> y.sum().backward()
    """
    options = {name: kwargs.pop(name) for name in _CHECKPOINT_OPTIONS if name in kwargs}
    if use_reentrant is not None:
        options["use_reentrant"] = use_reentrant
    return backend().checkpoint(function, args, kwargs, options)


_CHECKPOINT_OPTIONS = ("preserve_rng_state", "context_fn", "determinism_check", "debug")


def checkpoint_sequential(
    functions: nn.Sequential | Sequence[Callable[..., Any]],
    segments: int,
    input: Any,
    use_reentrant: bool | None = None,
    **kwargs: Any,
) -> Any:
    """``torch.utils.checkpoint.checkpoint_sequential``, by way of ``checkpoint``.

    Args:
        functions: The layers, run one after the other.
        segments: How many stretches to cut them into; the last is not recomputed.
        input: The first layer's.
        use_reentrant: As for ``checkpoint``.
        kwargs: ``preserve_rng_state`` as for torch.

    Returns:
        The last layer's output.

    Example:
        >>> layers = torch.nn.Sequential(model, torch.nn.ReLU())
        >>> xla.checkpoint_sequential(layers, 2, x, use_reentrant=False).shape
        torch.Size([3, 2])
    """
    layers = list(functions.children()) if isinstance(functions, nn.Sequential) else list(functions)
    size = len(layers) // segments
    recomputed = size * (segments - 1)
    for start in range(0, recomputed, size or 1):
        stretch = functools.partial(_run, layers[start : start + size])
        input = checkpoint(stretch, input, use_reentrant=use_reentrant, **kwargs)
    return _run(layers[recomputed:], input)


def _run(layers: Sequence[Callable[..., Any]], input: Any) -> Any:
    for layer in layers:
        input = layer(input)
    return input


def inference_mode(mode: Any = True) -> Any:
    """``torch.inference_mode``; on XLA, where it fails, ``torch.no_grad``.

    A context manager, a decorator, and a decorator without parentheses.

    Args:
        mode: As for torch: False leaves gradients on. Or the function that is decorated.

    Returns:
        A context manager and decorator; the decorated function where ``mode`` is one.

    Example:
        >>> with xla.inference_mode():
        ...     print(model(x).requires_grad)
        False
    """
    if callable(mode):
        return inference_mode()(mode)
    return backend().inference_mode(mode)


def narrow(tensor: torch.Tensor, dim: int, start: Any, length: int) -> torch.Tensor:
    """``torch.narrow`` for a ``start`` that changes from step to step.

    ``x[:, i : i + n]`` is another graph for every ``i``, so it compiles at each (fact 3.31).
    On XLA this gathers by positions that are data: one graph for all. There it is a copy, so
    writing to it does not reach ``tensor``.

    Args:
        tensor: What to slice.
        dim: Along which dimension.
        start: Where the slice begins, as an int or an integer tensor.
        length: How long it is; a change of it is a new graph.

    Returns:
        ``tensor`` from ``start`` on, ``length`` long in dimension ``dim``.

    Example:
        >>> table = torch.arange(6.0, device=device)
        >>> [xla.narrow(table, 0, i, 2).tolist() for i in (0, 4)]
        [[0.0, 1.0], [4.0, 5.0]]
    """
    return backend().narrow(tensor, dim, start, length)


def put(tensor: torch.Tensor, dim: int, start: Any, value: Any, length: int | None = None) -> None:
    """``tensor[..., start] = value`` for a ``start`` that changes from step to step.

    ``x[i] = value`` is another graph for every ``i``, so it compiles at each (fact 3.31). On
    XLA this copies to positions that are data: one graph for all.

    Args:
        tensor: What is written to, in place.
        dim: Along which dimension.
        start: Where, as an int or an integer tensor.
        value: What is written: a tensor, moved to where ``tensor`` is, or a number. It is broadcast.
        length: Of a slice ``start : start + length``; None for the one at ``start``.

    Example:
        >>> scores = torch.zeros(3, device=device)
        >>> for i in range(3):
        ...     xla.put(scores, 0, i, float(i))
        >>> scores.tolist()
        [0.0, 1.0, 2.0]
    """
    backend().put(tensor, dim, start, value, length)


def assign(tensor: torch.Tensor, mask: torch.Tensor, value: Any) -> None:
    """``tensor[mask] = value``, and ``tensor[mask] = value[mask]``, without reading the mask.

    torch_xla reads the mask from the device to learn how many elements it selects, and compiles
    again for each number. This computes all elements, and keeps those outside of
    the mask.

    Args:
        tensor: What is written to, in place.
        mask: Booleans of the shape of ``tensor``, or of its first dimensions. Any other index
            writes as in torch.
        value: A number, a tensor with one element, or a tensor from which the elements under the
            mask are taken.

    Example:
        >>> distances = torch.tensor([4.0, 1.0, 3.0], device=device)
        >>> xla.assign(distances, distances > 2, 0)
        >>> distances.tolist()
        [0.0, 1.0, 0.0]
    """
    is_selected = isinstance(value, torch.Tensor) and value.numel() != 1
    are_tensors = isinstance(tensor, torch.Tensor) and isinstance(mask, torch.Tensor)
    if not are_tensors or mask.dtype not in (torch.bool, torch.uint8):
        tensor[mask] = value[mask] if is_selected else value
        return
    mask = mask.to(tensor.device, torch.bool)
    mask = mask.reshape(mask.shape + (1,) * (tensor.dim() - mask.dim()))
    if isinstance(value, torch.Tensor):
        value = value.to(tensor.device)
        value = value if is_selected else value.reshape(())
    tensor.copy_(torch.where(mask, value, tensor))
