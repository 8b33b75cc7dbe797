"""Modules that ``fully_shard`` returns on XLA: torch's ``FSDPModule``, by name and by its methods.

Torch changes a module's class in place. So does this: scripts ask ``isinstance(module, FSDPModule)``, set
what is fetched ahead, and build models on "meta", whose parameters can be split only when they are there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from torch import nn
from torch.distributed import fsdp

from . import spmd

_BASE: Any = getattr(fsdp, "FSDPModule", object)  # from torch 2.6 on
WRAPPED = "_fsdp_wrapped_module"  # where FullyShardedDataParallel has what it wraps
_classes: dict[type, type] = {}


class Handle:
    """The result of ``unshard(async_op=True)``."""

    def wait(self) -> None:
        """Nothing: parameters are whole."""


class ShardedModule(_BASE):  # type: ignore[misc]
    """Put before a module's own class. When and how shards meet is the compiler's business."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        return object.__new__(cls)

    def _apply(self, *args: Any, **kwargs: Any) -> Any:
        """Parameters that are new on the device, from "meta" or the CPU, are split there."""
        found = super(_last, self)._apply(
            *args, **kwargs
        )  # skips the method of torch, which needs its own state
        split_parameters(self)
        return found

    def unshard(self, async_op: bool = False) -> Handle | None:
        """Nothing: parameters are whole."""
        return Handle() if async_op else None


_last: Any = ShardedModule if _BASE is object else _BASE  # before a module's own class


def _nothing(self: Any, *args: Any, **kwargs: Any) -> None:
    """Nothing: it says when something is sent, never what is computed."""


def _refused(name: str) -> Callable[..., None]:
    def refused(self: Any, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError(
            f"{name} on XLA: the compiler averages gradients over the batch, without hooks; change "
            "gradients between backward and step"
        )

    return refused


for _name in (
    "reshard set_is_last_backward set_requires_gradient_sync set_requires_all_reduce "
    "set_reshard_after_forward set_reshard_after_backward set_modules_to_forward_prefetch "
    "set_modules_to_backward_prefetch set_unshard_in_backward set_post_optim_event "
    "set_force_sum_reduction_for_comms set_allocate_memory_from_process_group_for_comm"
).split():
    setattr(ShardedModule, _name, _nothing)
for _name in (
    "set_custom_all_gather set_custom_reduce_scatter set_all_reduce_hook "
    "set_reduce_scatter_divide_factor set_gradient_divide_factor"
).split():
    setattr(ShardedModule, _name, _refused(_name))


def shard_module(module: nn.Module) -> None:
    """Give it torch's class, in place, and split its parameters as soon as they are on the device."""
    own = type(module)
    if not issubclass(own, ShardedModule):
        if own not in _classes:
            _classes[own] = type(f"FSDP{own.__name__}", (ShardedModule, own), {})
        module.__class__ = _classes[own]
    keep_split(module)


def keep_split(module: nn.Module) -> None:
    """Now, and when a state dict has been loaded."""
    module.register_load_state_dict_post_hook(lambda loaded, keys: split_parameters(loaded))  # type: ignore[no-untyped-call]
    split_parameters(module)


def split_parameters(module: nn.Module) -> None:
    """Those that are on the device."""
    for parameter in module.parameters():
        if parameter.device.type == "xla":
            spmd.shard(parameter)


def managed_modules(module: nn.Module) -> Iterator[nn.Module]:
    """A module and those in it whose parameters it is to split: not those in modules that are split by themselves."""
    yield module
    for child in module.children():
        if not isinstance(child, ShardedModule) and WRAPPED not in child._modules:
            yield from managed_modules(child)
