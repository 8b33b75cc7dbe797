"""Find the dotted name that a local name stands for.

Scopes and their bindings, read from the standard `ast`, each scope on demand.
A name is resolved only where every import that binds it agrees and nothing else rebinds it:
a shadowed, rebound or ambiguous name resolves to nothing, which makes a rule silent, not wrong.
"""

from __future__ import annotations

import ast
import re
from typing import Protocol

from ..patterns import Pattern
from .bindings import (
    ITERATED,
    Binding,
    Collector,
    Comprehension,
    FunctionNode,
    ScopeNode,
    walk_in_scope,
)
from .nodes import FUNCTIONS

# Read from the text: a line of a docstring that looks like one only makes a name less sure.
_GLOBAL = Pattern(r"^[ \t]*global[ \t]+([\w, \t]+)", re.MULTILINE)


# What a star import of the project's own brings that is no import there.
LOCAL = "."


class Elsewhere(Protocol):
    """What other modules of the project tell of names that are imported from them; see `project`."""

    def origin(self, dotted: str) -> str:
        """What it is called outside of the project, if it is from there."""

    def starred(self, home: str, name: str) -> str | None:
        """What `from home import *` provides under `name`: "" nothing, `LOCAL` an own definition, None unknown."""


class Scope:
    """A module, function, class, lambda or comprehension; `bindings` are collected on first use."""

    __slots__ = (
        "_bindings",
        "_globals",
        "_rebound",
        "_resolved",
        "elsewhere",
        "has_walrus",
        "module",
        "node",
        "parent",
        "stars",
        "text",
    )

    def __init__(self, node: ScopeNode, parent: Scope | None, text: str = "") -> None:
        self.node = node
        self.parent = parent
        self.module: Scope = parent.module if parent is not None else self
        self.text: str = parent.text if parent is not None else text  # the file's
        self.has_walrus: bool = parent.has_walrus if parent is not None else ":=" in text
        self.stars: list[str] = []
        self.elsewhere: Elsewhere | None = None  # of a module: the others of its project
        self._bindings: dict[str, list[Binding]] | None = None
        self._globals: set[str] = set()
        self._rebound: frozenset[str] | None = None
        self._resolved: dict[str, str | None] = {}

    def release(self) -> None:
        """Of a module, which names itself: let go of it. Nothing may be asked of it any more."""
        del self.module

    @property
    def bindings(self) -> dict[str, list[Binding]]:
        """Local name -> everything in this scope that binds it, in source order."""
        if self._bindings is None:
            self._bindings = {}
            collector = Collector(self._bindings, self._globals, self.stars, self.module.has_walrus)
            collector.scope(self.node)
        return self._bindings

    @property
    def rebound(self) -> frozenset[str]:
        """Names of the module that some function declares `global`, to bind them."""
        if self._rebound is None:
            self._rebound = frozenset()
            if isinstance(self.node, ast.Module) and "global " in self.text:
                found = _GLOBAL.findall(self.text)
                self._rebound = frozenset(n.strip() for names in found for n in names.split(","))
        return self._rebound

    @property
    def function(self) -> FunctionNode | None:
        """The function that this scope is, or lies in."""
        scope: Scope | None = self
        while scope is not None:
            if isinstance(scope.node, FUNCTIONS):
                return scope.node
            scope = scope.parent
        return None

    def find(self, name: str) -> tuple[Scope, list[Binding]] | None:
        """The scope that `name`, read here, belongs to, and its bindings there; None for an unknown name.

        A class's own names are not seen from its methods, as in Python.
        """
        scope: Scope | None = self
        while scope is not None:
            if scope is self or type(scope.node) is not ast.ClassDef:
                bindings = scope._bindings  # asked most often of all
                found = (scope.bindings if bindings is None else bindings).get(name)
                if name in scope._globals:
                    return scope._elsewhere(name, found or [])
                if found:
                    return scope, found
            scope = scope.parent
        return None

    def _elsewhere(self, name: str, here: list[Binding]) -> tuple[Scope, list[Binding]]:
        """A `global` or `nonlocal` name: bound outside, and here."""
        outer = self.parent.find(name) if self.parent is not None else None
        if outer is None:
            return self.module, here
        return outer[0], [*outer[1], *here]

    def dotted(self, name: str) -> str | None:
        """The dotted name that local `name` stands for, if it is surely an imported one."""
        resolved = self._resolved
        if name not in resolved:
            resolved[name] = None  # guards `cuda = cuda`
            resolved[name] = self._dotted(name)
        return resolved[name]

    def _dotted(self, name: str) -> str | None:
        found = self.find(name)
        if found is None:
            return _from_star(name, self.module)
        scope, bindings = found
        if name in scope.rebound:
            return None
        candidates = {self.outside(b.dotted) for b in bindings if b.how == "import"}
        others = [b for b in bindings if b.how not in _IMPORTED and not _is_fallback(b)]
        if others:
            return scope._alias(others) if not candidates else None
        return candidates.pop() if len(candidates) == 1 else None

    def outside(self, dotted: str) -> str:
        """`dotted`, or its name outside of the project, where a module of the project only hands it on."""
        elsewhere = self.module.elsewhere
        return (elsewhere.origin(dotted) or dotted) if elsewhere is not None else dotted

    def _alias(self, bindings: list[Binding]) -> str | None:
        """`cuda = torch.cuda`, `cuda = import_module("torch.cuda")`: a module under a second name."""
        if len(bindings) != 1 or bindings[0].how != "assign" or bindings[0].path:
            return None
        value = bindings[0].value
        dotted = resolve(value, self)
        is_module = dotted in MODULES or (isinstance(value, ast.Call) and _imports(value, self))
        return dotted if is_module else None


# A fallback stands in the `except` of a `try` that imports the name from torch, which is there.
_IMPORTED = frozenset({"import", "fallback"})

# Modules that scripts commonly rename by assignment.
MODULES = frozenset(
    {
        "torch",
        "torch.accelerator",
        "torch.amp",
        "torch.backends.cuda",
        "torch.backends.cudnn",
        "torch.cuda",
        "torch.cuda.amp",
        "torch.cuda.nvtx",
        "torch.distributed",
        "torch.nn",
        "torch.nn.functional",
        "torch.optim",
        "torch.utils.data",
        "torch_xla.core.xla_model",
        "torch_xla.debug.metrics",
        "torch_xla.debug.profiler",
        "torch_xla.distributed.parallel_loader",
        "torch_xla.distributed.spmd",
        "torch_xla.distributed.xla_multiprocessing",
        "torch_xla.runtime",
        "apex.amp",
        "apex.optimizers",
    }
)

# What `from <module> import *` brings that matters here.
STAR_EXPORTS = {
    "torch": frozenset({"cuda", "device", "load", "save", "manual_seed", "no_grad", "optim", "nn"}),
    "torch.cuda": frozenset({"is_available", "device_count", "synchronize", "empty_cache", "amp"}),
    "torch.cuda.amp": frozenset({"GradScaler", "autocast", "custom_bwd", "custom_fwd"}),
    "torch.amp": frozenset({"GradScaler", "autocast", "custom_bwd", "custom_fwd"}),
    "torch.optim": frozenset({"Adadelta", "Adagrad", "Adam", "AdamW", "LBFGS", "RMSprop", "SGD"}),
    "torch.nn": frozenset({"DataParallel", "Module"}),
    "torch.utils.data": frozenset({"DataLoader", "Dataset", "IterableDataset"}),
    "torch_xla.core.xla_model": frozenset(
        "REDUCE_MAX REDUCE_MIN REDUCE_SUM add_step_closure all_gather all_reduce all_to_all broadcast_master_param "
        "collective_broadcast get_local_ordinal get_memory_info get_ordinal get_rng_state get_xla_supported_devices "
        "is_master_ordinal mark_step master_print mesh_reduce optimizer_step reduce_gradients reduce_scatter rendezvous save "
        "send_cpu_data_to_device set_rng_state wait_device_ops xla_device xla_device_hw xla_real_devices xrt_world_size".split()
    ),
    "torch_xla.runtime": frozenset(
        "device_type global_device_count global_ordinal global_runtime_device_count initialize_cache is_spmd local_ordinal "
        "use_spmd world_size xla_device".split()
    ),
    "torch_xla.distributed.xla_multiprocessing": frozenset(
        {"MpModelWrapper", "MpSerialExecutor", "spawn"}
    ),
    "torch_xla.distributed.parallel_loader": frozenset({"MpDeviceLoader", "ParallelLoader"}),
    "torch_xla.distributed.spmd": frozenset({"Mesh", "mark_sharding"}),
}
# Those of which that is all there is.
WHOLLY_KNOWN = frozenset({"torch.cuda.amp", "torch.amp"})


def resolve(node: ast.AST | None, scope: Scope) -> str | None:
    """The dotted name of a Name, an attribute chain, `getattr(torch, "cuda")` or `import_module("torch.cuda")`; None
    for anything else.
    """
    parts: list[str] = []
    while type(node) is ast.Attribute:
        parts.append(node.attr)
        node = node.value
    if type(node) is ast.Name:
        base = scope.dotted(node.id)
    else:
        base = _called(node, scope) if isinstance(node, ast.Call) else None
    if not (parts and base):
        return base or None
    return scope.outside(f"{base}.{'.'.join(reversed(parts))}")


def _called(call: ast.Call, scope: Scope) -> str | None:
    """What `getattr(torch, "cuda")`, `getattr(torch, device_type, torch.cuda)` and `importlib.import_module("torch.cuda")`
    stand for.
    """
    match call:
        case ast.Call(
            func=ast.Name(id="getattr"), args=[value, ast.Constant(value=str(attribute)), *_]
        ) if scope.find("getattr") is None:
            base = resolve(value, scope)
            return scope.outside(f"{base}.{attribute}") if base else None
        case ast.Call(func=ast.Name(id="getattr"), args=[value, _, default]) if (
            scope.find("getattr") is None and resolve(value, scope) == "torch"
        ):  # getattr(torch, device_type, torch.cuda)
            return "torch.cuda" if resolve(default, scope) == "torch.cuda" else None
        case ast.Call(args=[ast.Constant(value=str(module)), *_]) if _imports(call, scope):
            whole = isinstance(call.func, ast.Attribute) or call.func.id != "__import__"  # type: ignore[attr-defined]
            return module if whole or _has_fromlist(call) else module.partition(".")[0]
    return None


def _has_fromlist(call: ast.Call) -> bool:
    """True if `__import__("torch.cuda", fromlist=["amp"])` gives what it names, not its package."""
    given = [k.value for k in call.keywords if k.arg == "fromlist"] or call.args[3:4]
    return bool(given) and not (isinstance(given[0], (ast.List, ast.Tuple)) and not given[0].elts)


def _imports(call: ast.Call, scope: Scope) -> bool:
    """`importlib.import_module("torch.cuda")`, `__import__("torch")`."""
    match call:
        case ast.Call(func=ast.Name(id="__import__"), args=[ast.Constant(value=str()), *_]):
            return scope.find("__import__") is None
        case ast.Call(
            func=ast.Attribute(attr="import_module") | ast.Name(id="import_module"),
            args=[ast.Constant(value=str(module))],
        ):
            return module[:1] != "." and resolve(call.func, scope) == "importlib.import_module"
    return False


def _from_star(name: str, module: Scope) -> str | None:
    """Return what `name` is if only one star import can provide it.

    A star import of an unknown module may hide the others. It does not give `torch` another meaning.
    """
    module.bindings  # noqa: B018 - collects the star imports
    homes: set[str] = set()
    is_sure = True
    for star in module.stars:
        if star in STAR_EXPORTS:
            brought: str | None = f"{star}.{name}" if name in STAR_EXPORTS[star] else ""
        else:
            brought = module.elsewhere.starred(star, name) if module.elsewhere else None
        if brought is None:
            is_sure = False
        else:
            homes.add(f"{star}.{name}" if brought == LOCAL else brought)
    homes.discard("")
    if not is_sure and not homes and name == "torch":
        return name
    if len(homes) != 1:
        return None
    (found,) = homes
    return found if is_sure or found in MODULES else None


def _is_fallback(binding: Binding) -> bool:
    """`autocast = None` beside an import of it, also `xm, pl = None, None`, or its bare annotation: not another meaning."""
    if binding.how == "delete":
        return True
    if binding.how != "assign":
        return False
    value = binding.part
    is_empty = isinstance(value, ast.Constant) and value.value in (None, False)
    return binding.value is None or is_empty


__all__ = [
    "ITERATED",
    "LOCAL",
    "MODULES",
    "STAR_EXPORTS",
    "WHOLLY_KNOWN",
    "Binding",
    "Comprehension",
    "FunctionNode",
    "Scope",
    "ScopeNode",
    "resolve",
    "walk_in_scope",
]
