"""Loops that torch_xla makes one operation of a graph: plain ones, which compute the same."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import torch
from torch import nn
from torch.utils._pytree import tree_iter, tree_map

from ...randomness import fork_rng, manual_seed

F = TypeVar("F", bound=Callable[..., Any])


def assume_pure(fn: F, *, add_rng_seed_argument: bool = False) -> F:
    """Return the function unchanged, or with a seed as additional first argument if requested."""
    if not add_rng_seed_argument:
        return fn

    def seeded(rng_seed: Any, *args: Any, **kwargs: Any) -> Any:
        with fork_rng():
            manual_seed(int(rng_seed))
            return fn(*args, **kwargs)

    return seeded  # type: ignore[return-value]


def scan(
    fn: Callable[[Any, Any], tuple[Any, Any]],
    init: Any,
    xs: Any,
    partition_fn: Any = None,
    is_fn_pure: bool = False,
) -> tuple[Any, Any]:
    """``fn(carry, x)`` for each slice of `xs`: the last carry, and what came out, stacked."""
    lengths = {len(leaf) for leaf in tree_iter(xs)}
    if len(lengths) != 1:
        raise ValueError(f"the leaves of `xs` must have one leading dimension size, not {lengths}")
    carry, out = init, []
    for index in range(lengths.pop()):
        carry, y = fn(carry, tree_map(lambda leaf, index=index: leaf[index], xs))
        out.append(y)
    return carry, tree_map(lambda *parts: torch.stack(parts), *out)


def scan_layers(
    layers: Iterable[nn.Module],
    input_data: Any,
    partition_fn: Any = None,
    is_layer_pure: bool = False,
) -> Any:
    for layer in layers:
        input_data = layer(input_data)
    return input_data


def gradient_accumulation(
    train_step: Callable[..., Any],
    iterable_tensors: Sequence[torch.Tensor],
    model: nn.Module,
    *carried_tensors: Any,
) -> Any:
    """The mean loss over the slices, whose gradients are added to the model's, and what was carried."""
    if not iterable_tensors:
        raise ValueError("iterable_tensors cannot be empty")
    steps = iterable_tensors[0].size(0)
    carried, total = list(carried_tensors), None
    for index in range(steps):
        result = train_step(*(tensor[index] for tensor in iterable_tensors), *carried)
        loss, *carried = result if carried else (result,)
        loss = loss / steps
        loss.backward()
        total = loss.detach() if total is None else total + loss.detach()
    return (total, *carried) if carried else total
