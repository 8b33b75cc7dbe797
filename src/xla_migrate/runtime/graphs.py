"""Tools that rewrite or restrict how a function is run: compilation, recomputation, inference."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

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
