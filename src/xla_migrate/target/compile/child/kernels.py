"""Operations on the device for which the target has no kernel, with the line and the module that use them."""

from __future__ import annotations

import atexit
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from ....verify.observe.process import where
from ....verify.observe.process.dispatch_modes import enter_for_good
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
_looked_up: set[str] = set()
_unknown: set[str] = set()

_Names = frozenset[str]
# Called before an operation; what it returns is called after it, for the names of those without a kernel.
_Look = Callable[[Any, Any, Any], Callable[[], _Names]]


def watch(torch_xla: Any, target: str, listed: Sequence[str]) -> None:
    """Look at each operation on the device in this process from now on.

    Args:
        torch_xla: the package.
        target: "tpu", "xla" or "neuron".
        listed: as in `KernelTarget.listed`.
    """
    modules.follow()
    names = frozenset(listed)
    if target == XLA:
        look: _Look = _Fallbacks(torch_xla._XLAC).look
    else:
        look = _before(_Kernels(names).missing if target == TPU else partial(_listed, names))
    enter_for_good(_Watch(look))
    atexit.register(_tell)


class _Watch(TorchDispatchMode):
    """Notes the operations on the device that have no kernel."""

    def __init__(self, look: _Look) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._look = look

    def __torch_dispatch__(
        self, op: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        has_tensor = _has_tensor_on_device(args, kwargs)
        run = op if has_tensor else partial(_functionalized, op)
        if not has_tensor and not _is_created_on_device(kwargs):
            return run(*args, **kwargs)
        _looked_up.add(op.name())
        missing = self._look(op, args, kwargs)
        result = run(*args, **kwargs)
        for name in missing():
            _note(name)
        return result


def _functionalized(op: Any, *args: Any, **kwargs: Any) -> Any:
    """Run an operation that may put a new tensor on the device, as without a mode.

    A mode leaves functionalization out. torch_xla wraps new tensors for it, and refuses to mix them with others later.
    """
    excluded = torch._C._dispatch_tls_local_exclude_set()
    without = excluded.remove(torch._C.DispatchKey.Functionalize)
    with torch._C._ForceDispatchKeyGuard(torch._C._dispatch_tls_local_include_set(), without):
        return op(*args, **kwargs)


class _Fallbacks:
    """Finds the operations that torch_xla runs on the CPU: it counts each by name. `library` is its `_XLAC`."""

    def __init__(self, library: Any) -> None:
        self._library = library

    def look(self, op: Any, args: Any, kwargs: Any) -> Callable[[], _Names]:
        """Count before the operation, and again when the returned function is called."""
        before = self._counts(op)
        return lambda: frozenset(
            name
            for name, count in self._counts(op).items()
            if count != before.get(name) and name != _READ
        )

    def _counts(self, op: Any) -> dict[str, int | None]:
        """Return the counters of an operation, or of all operations if it has no kernel."""
        names = {op.name(), op._schema.name}
        if not torch._C._dispatch_has_kernel_for_dispatch_key(op.name(), "XLA"):
            names |= {n for n in self._library._xla_counter_names() if n.startswith("aten::")}
        return {name: self._library._xla_counter_value(name) for name in names}


def _before(missing: Callable[[Any, Any, Any], _Names]) -> _Look:
    """Ask `missing` before the operation, which may change its arguments."""

    def look(op: Any, args: Any, kwargs: Any) -> Callable[[], _Names]:
        names = missing(op, args, kwargs)
        return lambda: names

    return look


def _listed(without: _Names, op: Any, args: Any, kwargs: Any) -> _Names:
    return frozenset({op.name()} if {op.name(), op._schema.name} & without else ())


class _Kernels:
    """Finds the parts of an operation without a kernel, once for each operation.

    Composite operations, and functions of structured ones, are made of others: they run on tensors without values,
    and their parts are looked up. An operation for which that is not possible is noted as unknown.
    """

    def __init__(self, names: _Names) -> None:
        self._names = names
        self._known: dict[str, _Names] = {}

    def missing(self, op: Any, args: Any, kwargs: Any) -> _Names:
        """Return the names of the parts, or of the operation itself, that have no kernel."""
        name: str = op.name()
        if name in self._names or name.startswith(_OF_TORCH_XLA):
            return frozenset()
        if name not in self._known:
            self._known[name] = frozenset()  # an operation that is a part of itself
            self._known[name] = self._parts(op, args, kwargs)
        return self._known[name]

    def _parts(self, op: Any, args: Any, kwargs: Any) -> _Names:
        has = torch._C._dispatch_has_kernel_for_dispatch_key
        composite = next((key for key in _COMPOSITES if has(op.name(), key)), None)
        if composite is None:
            return frozenset({op.name()})
        key = getattr(torch._C.DispatchKey, composite)
        parts = _Parts(self.missing)
        try:
            with parts:
                op._op_dk(key, *_shapes(args), **_shapes(kwargs))
        except (
            Exception
        ):  # a kernel of any library that needs values, or has none for tensors without them
            _unknown.add(op.name())
        return frozenset(parts.missing)


class _Parts(TorchDispatchMode):
    """Collects the parts of a composite operation that have no kernel."""

    def __init__(self, missing: Callable[[Any, Any, Any], _Names]) -> None:
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


def _is_created_on_device(kwargs: dict[str, Any]) -> bool:
    device = kwargs.get("device")
    return device is not None and torch.device(device).type == "xla"


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
    records.write("looked up", operations=sorted(_looked_up), unknown=sorted(_unknown))
    for (operation, place, module, is_backward), count in _found.items():
        records.write(
            "kernel",
            operation=operation,
            place=place,
            module=module,
            is_backward=is_backward,
            count=count,
        )
