"""The report's events on a native device: operations without a native kernel, and copies to the host.

PyTorch does not count compilations of these devices, so the report has none.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from .line_report import FALLBACK, READ, note

_READS = ("aten::_local_scalar_dense", "aten::equal")
_DEVICE = "PrivateUse1"  # the dispatch key of devices that a package brings
# Kernels that are made of other operations, which are seen in turn.
_COMPOSED = ("CompositeImplicitAutograd", "CompositeExplicitAutograd")
_STRUCTURED = "CompositeExplicitAutogradNonFunctional"  # calls the operation's `.out`

# torch frees a mode that nobody else keeps when it prints a tensor, and crashes.
_entered: list[TorchDispatchMode] = []


def install() -> None:
    """Watch this thread, and the backward passes that it starts, from now on."""
    mode = _Watch()  # type: ignore[no-untyped-call]
    mode.__enter__()  # type: ignore[no-untyped-call]
    _entered.append(mode)


class _Watch(TorchDispatchMode):
    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        taken = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
        out = func(*args, **kwargs)
        kind = torch._C._get_privateuse1_backend_name()
        if any(tensor.device.type == kind for tensor in taken):
            _count(func, taken, out)
        return out


def _count(func: Any, taken: list[torch.Tensor], out: Any) -> None:
    name = func.name()
    given = [leaf for leaf in tree_leaves(out) if isinstance(leaf, torch.Tensor)]
    copied = func._overloadpacket.__name__ in ("_to_copy", "copy_", "_copy_from")
    if name in _READS or (copied and any(tensor.device.type == "cpu" for tensor in given)):
        note(READ, name)
    elif not has_kernel(name):
        note(FALLBACK, name)


@cache
def has_kernel(name: str) -> bool:
    """Return True if an operation runs on the device: by its own kernel, or made of others."""

    def registered(operation: str, key: str) -> bool:
        return torch._C._dispatch_has_kernel_for_dispatch_key(operation, key)

    if registered(name, _DEVICE) or any(registered(name, key) for key in _COMPOSED):
        return True
    return registered(name, _STRUCTURED) and any(
        registered(out, _DEVICE) for out in _out_variants(name)
    )


def _out_variants(name: str) -> list[str]:
    """Return the names of the operation's overloads that write into a tensor they are given."""
    namespace, _, base = name.partition(".")[0].partition("::")
    packet = getattr(getattr(torch.ops, namespace), base.removesuffix("_"), None)
    overloads = [getattr(packet, one) for one in packet.overloads()] if packet is not None else []
    return [one.name() for one in overloads if any(a.is_out for a in one._schema.arguments)]
