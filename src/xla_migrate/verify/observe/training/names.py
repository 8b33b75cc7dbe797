"""Names of parameters, as their modules name them."""

from __future__ import annotations

import gc
from collections import Counter, OrderedDict
from collections.abc import Sequence
from typing import Any

import torch

_WRAPPERS = ("module.", "_orig_mod.", "_fsdp_wrapped_module.")


def _roots() -> list[torch.nn.Module]:
    modules: list[Any] = [o for o in gc.get_objects() if issubclass(type(o), torch.nn.Module)]
    held = {id(child) for module in modules for child in module.children()}
    return [module for module in modules if id(module) not in held]


def bare(name: str) -> str:
    """Return the name of a module or parameter without the prefixes of wrappers."""
    for wrapper in _WRAPPERS:
        name = name.replace(wrapper, "")
    return name


def of(parameters: Sequence[torch.Tensor]) -> list[str]:
    """Return a name for each: as in its root module's state dict; a number if no module holds it.

    Wrappers (DDP, torch.compile) leave no trace in the names, since only one of the runs has them.
    With several models, each name starts with its model's class.
    """
    wanted = {id(p) for p in parameters}
    found: dict[int, str] = {}
    roots = []
    for root in _roots():
        named = [(n, p) for n, p in root.named_parameters() if id(p) in wanted]
        if named:
            roots.append((type(root).__name__, named))
    for kind, named in roots:
        for name, p in named:
            prefix = f"{kind}." if len(roots) > 1 else ""
            found.setdefault(id(p), prefix + bare(name))
    return [found.get(id(p), f"parameter {i}") for i, p in enumerate(parameters)]


def of_models(without: set[int]) -> list[tuple[str, torch.Tensor]]:
    """(name, tensor) of all models' parameters and buffers, but those `without` (by id).

    What two models call the same (a model and its average) is left out: the order in which models are found says nothing.
    """
    found: dict[int, tuple[str, torch.Tensor]] = {}
    for root in _roots():
        for name, tensor in (*root.named_parameters(), *root.named_buffers()):
            if id(tensor) not in without:
                found.setdefault(id(tensor), (f"{type(root).__name__}.{bare(name)}", tensor))
    times = Counter(name for name, _ in found.values())
    return [(name, tensor) for name, tensor in found.values() if times[name] == 1]


Copy = dict[str, torch.Tensor] | list[torch.Tensor]


def copies(stepped: set[int]) -> list[list[Copy]]:
    """Return the dicts and lists that hold copies of a model's weights, by shape and order; together what looks alike.

    Averages (EMA) are kept so, if they are not in a module.
    """
    like = {_shapes(list(root.parameters())) for root in _roots()} - {()}
    found: dict[tuple[Any, ...], list[Copy]] = {}
    for one in gc.get_objects():
        is_list = type(one) is list
        # Others' dicts may do anything when they are looked at: transformers' import all of its models.
        if not (is_list or type(one) in (dict, OrderedDict)) or not one:
            continue
        if not issubclass(type(next(iter(one if is_list else one.values()))), torch.Tensor):
            continue  # as almost always: the others are not collected
        tensors: list[Any] = list(one if is_list else one.values())
        if not all(issubclass(type(t), torch.Tensor) and id(t) not in stepped for t in tensors):
            continue
        keys = () if is_list else tuple(one)
        if _shapes(tensors) in like and all(type(key) is str for key in keys):
            found.setdefault((_shapes(tensors), keys), []).append(one)
    return list(found.values())


def _shapes(tensors: Sequence[torch.Tensor]) -> tuple[torch.Size, ...]:
    """Return the shapes that are compared: of floating-point tensors with two dimensions or more."""
    return tuple(t.shape for t in tensors if t.dim() >= 2 and t.is_floating_point())


def within(copy: Copy) -> list[tuple[str, torch.Tensor]]:
    """(name, tensor) of a copy, as it is now."""
    if isinstance(copy, dict):
        return [(f"a dict's {name}", tensor) for name, tensor in copy.items()]
    return [(f"a list's {i}", tensor) for i, tensor in enumerate(copy)]


def all_with_gradients() -> list[torch.Tensor]:
    """The parameters of all models that have a gradient, in the order of their modules."""
    found = {id(p): p for root in _roots() for p in root.parameters() if p.grad is not None}
    return list(found.values())
