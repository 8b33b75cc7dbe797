"""Operations on the device for which the target has no kernel, with the line and the module that use them."""

from __future__ import annotations

import atexit
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from ....verify.observe.process import where
from ...kernels.targets import TPU, XLA
from . import modules, phases, records

# What torch_xla serves each read of a value with, and what only torch_xla has.
_READ = "aten::_local_scalar_dense"
_OF_TORCH_XLA = ("xla::", "aten::_propagate_xla_data")
_COMPOSITES = (
    "CompositeImplicitAutograd",
    "CompositeExplicitAutogradNonFunctional",
    "CompositeExplicitAutograd",
)
_found: Counter[tuple[str, str, str, bool]] = Counter()


def watch(torch_xla: Any, target: str, listed: Sequence[str]) -> None:
    """Look at each operation of this process from now on.

    Args:
        torch_xla: the package.
        target: "tpu", "xla" or "neuron".
        listed: as in `KernelTarget.listed`.
    """
    modules.follow()
    if target == XLA:
        mode: TorchDispatchMode = _Counted(torch_xla._XLAC)
    elif target == TPU:
        mode = _Looked(_Kernels(frozenset(listed)).missing)
    else:
        mode = _Looked(lambda op, args, kwargs: _listed(op, frozenset(listed)))
    mode.__enter__()  # type: ignore[no-untyped-call]
    atexit.register(_tell)


class _Counted(TorchDispatchMode):
    """Notes the operations that torch_xla runs on the CPU: it counts each by name."""

    def __init__(self, library: Any) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._library = library

    def __torch_dispatch__(
        self, op: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        before = self._counts(op)
        result = _run(op, args, kwargs)
        for name, count in self._counts(op).items():
            if count != before.get(name) and name != _READ:
                _note(name)
        return result

    def _counts(self, op: Any) -> dict[str, int | None]:
        """Of the operation; of all if it has no kernel, since it may be made of others."""
        names = {op.name(), op._schema.name}
        if not torch._C._dispatch_has_kernel_for_dispatch_key(op.name(), "XLA"):
            names |= {n for n in self._library._xla_counter_names() if n.startswith("aten::")}
        return {name: self._library._xla_counter_value(name) for name in names}


class _Looked(TorchDispatchMode):
    """Notes the operations, or their parts, that a function finds to have no kernel."""

    def __init__(self, missing: Callable[[Any, Any, Any], frozenset[str]]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._missing = missing

    def __torch_dispatch__(
        self, op: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if _is_on_device(args, kwargs):
            for name in self._missing(op, args, kwargs):
                _note(name)
        return _run(op, args, kwargs)


def _run(op: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Run the operation as without a mode.

    A mode leaves functionalization out. torch_xla wraps new tensors of the device for it, and refuses to mix them with
    others later.
    """
    if _has_tensor_on_device(args, kwargs):
        return op(*args, **kwargs)
    excluded = torch._C._dispatch_tls_local_exclude_set()
    without = excluded.remove(torch._C.DispatchKey.Functionalize)
    with torch._C._ForceDispatchKeyGuard(torch._C._dispatch_tls_local_include_set(), without):
        return op(*args, **kwargs)


def _listed(op: Any, without: frozenset[str]) -> frozenset[str]:
    return frozenset({op.name()} if {op.name(), op._schema.name} & without else ())


class _Kernels:
    """Finds the parts of an operation without a kernel, once for each operation.

    Composite operations, and functions of structured ones, are made of others: they run on tensors without values,
    and their parts are looked up. Where that is not possible, nothing is reported.
    """

    def __init__(self, names: frozenset[str]) -> None:
        self._names = names
        self._known: dict[str, frozenset[str]] = {}

    def missing(self, op: Any, args: Any, kwargs: Any) -> frozenset[str]:
        """Return the names of the parts, or of the operation itself, that have no kernel."""
        name: str = op.name()
        if name in self._names or name.startswith(_OF_TORCH_XLA):
            return frozenset()
        if name not in self._known:
            self._known[name] = frozenset()  # an operation that is a part of itself
            self._known[name] = self._parts(op, args, kwargs)
        return self._known[name]

    def _parts(self, op: Any, args: Any, kwargs: Any) -> frozenset[str]:
        has = torch._C._dispatch_has_kernel_for_dispatch_key
        composite = next((key for key in _COMPOSITES if has(op.name(), key)), None)
        if composite is None:
            return frozenset({op.name()})
        parts = _Parts(self.missing)
        try:
            with parts:
                op._op_dk(
                    getattr(torch._C.DispatchKey, composite), *_shapes(args), **_shapes(kwargs)
                )
        except Exception:  # what needs values, or has no kernel for tensors without them
            return frozenset()
        return frozenset(parts.missing)


class _Parts(TorchDispatchMode):
    """Collects the parts of a composite operation that have no kernel."""

    def __init__(self, missing: Callable[[Any, Any, Any], frozenset[str]]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._missing = missing
        self.missing: set[str] = set()

    def __torch_dispatch__(
        self, op: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        self.missing |= self._missing(op, args, kwargs)
        return op(*args, **kwargs)


def _shapes(values: Any) -> Any:
    """The same arguments without values: tensors and devices become those of "meta"."""

    def shape(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return torch.empty_like(value, device="meta")
        return torch.device("meta") if isinstance(value, torch.device) else value

    return tree_map(shape, values)


def _is_on_device(args: Any, kwargs: dict[str, Any]) -> bool:
    device = kwargs.get("device")
    if device is not None and torch.device(device).type == "xla":
        return True
    return _has_tensor_on_device(args, kwargs)


def _has_tensor_on_device(args: Any, kwargs: Any) -> bool:
    return any(
        value.device.type == "xla"
        for value in tree_leaves((args, kwargs))
        if isinstance(value, torch.Tensor)
    )


def _note(operation: str) -> None:
    backward = phases.backward_place()
    if backward:
        _found[operation, backward, "", True] += 1
    else:
        _found[operation, where.caller(), modules.innermost(), False] += 1


def _tell() -> None:
    for (operation, place, module, is_backward), count in _found.items():
        records.write(
            "kernel",
            operation=operation,
            place=place,
            module=module,
            is_backward=is_backward,
            count=count,
        )
