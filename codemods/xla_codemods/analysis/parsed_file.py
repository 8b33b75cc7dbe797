"""One parsed file: its names and values, where nodes stand, and what is a module, a device, a tensor of the accelerator.

Every analysis takes a `ParsedFile`; `Script` adds what these analyses find, for the rules.
"""

from __future__ import annotations

import ast
import builtins
import re
import sys
from collections.abc import Callable
from functools import cached_property
from typing import TypeVar, cast

from ..source import Source
from .accelerators import speaks_of_an_accelerator, trains
from .index import Index, Tree, build
from .inference import library_types
from .inference.annotations import kinds_of
from .inference.inference import Inference
from .inference.values import (
    ACCEL,
    CLASS,
    DEVICE,
    INSTANCE,
    MODULE,
    TENSOR,
    Value,
)
from .nodes import FUNCTIONS, NAMED
from .projects.callers import Callers
from .projects.project import Modules, Project
from .scopes import FunctionNode, Scope, resolve
from .syntax import is_pure
from .wrappers import Wrapper
from .wrappers import value as wrapped_value

T = TypeVar("T")
S = TypeVar("S", bound="ParsedFile")

# Files that have these and that a training program loads may compute a part of each step.
_COMPUTES = ("import torch", "from torch", ".item()")

_TYPING = frozenset({"typing", "typing_extensions"})
# Packages without any class that is a tensor or a module, except the classes of torch that `kinds_of` knows.
_PLAIN = frozenset({*sys.stdlib_module_names, "numpy", "torch", "typing_extensions"})
RUNTIME_IMPORT = "from xla_migrate import runtime as "


class ParsedFile(Tree):
    """One parsed file with its index and values.

    Attributes:
        source: its text and lines, its new lines and encoding.
        path: as the user named it, for messages.
        tree: its `ast.Module`.
        parents: node -> the node that it is a part of.
        index: the nodes by type, each with its scope, and the calls by name.
        inference: what evaluates expressions; rules ask `value`.
        module: the scope of the module.
        project: the other modules of the program; none if it `is_alone`.
        callers: the calls of this file's functions in other modules.
        parallel: "spmd" if one process drives all devices.
        settled: CUDA-only names of which a rule says that they may stay.
        origin: the library that the file is rewritten from (`--from torch_xla`), or "".
        reads_later: False if host reads of loops are not deferred (`--ignore XLA503`, `--from torch_xla`).
        is_kept: True for a node whose host read a comment keeps (`# xla-migrate: ignore[XLA503]`).
        is_native: True if the result must not need `xla_migrate`.
        needed: modules that new text names and that the file does not import yet; a fix adds to it.
    """

    def __init__(
        self,
        source: Source,
        path: str = "<source>",
        wrappers: tuple[Wrapper, ...] = (),
        parallel: str = "",
        project: Project | None = None,
        origin: str = "",
        style: str = "",
        reads_later: bool = True,
    ) -> None:
        self.source = source
        self.reads_later = reads_later
        self.path = path
        alone = Project(Modules({}), "")
        self.project = project or alone
        self.parallel = parallel  # "spmd" if one process drives all devices
        # "torch_xla" to rewrite code written for it, "xla_migrate" to rewrite calls of the runtime or a copy of it
        its_names = (origin, library_types.VENDORED) if origin == "xla_migrate" else (origin,)
        self.origin = origin if origin and source.mentions(*its_names) else ""
        self.is_native = style == "native" or f"import {library_types.VENDORED}" in source.text
        self.tree = source.tree
        self._own_devices = [name.last for name in wrappers if name.table == "devices"]
        self._is_shared = False
        if project is None:
            self.index: Index = build(source.tree, source.text)
        else:
            self.index, self._is_shared = project.index(source.tree, source.text)
        self.inference = self.index.inference
        if wrappers:
            self.inference.own = lambda dotted: wrapped_value(wrappers, dotted, path)
        self.parents = self.index.parents
        self.module = self.index.module
        asks_others = not self.project.is_alone and self._asks_callers
        self.callers = Callers(self.project if asks_others else alone, self.index)
        if asks_others:
            self.project.inform(self.inference)
            self.inference.passed = self.callers.passed
            self.inference.is_run_elsewhere = self.callers.are_for_a_device
        self._dotted: dict[ast.AST, str | None] = {}
        self._found = {}
        self._others: dict[str, ParsedFile] = {}
        self.is_kept: Callable[[ast.AST], bool] = lambda node: False
        self.needed: set[str] = set()  # modules that new text names and the file does not import
        self.settled: set[ast.AST] = set()  # CUDA-only names that may stay, as a rule says

    def other_file(self: S, path: str) -> S:
        """Return the module at `path` of the project, as this file's analysis sees it."""
        if path not in self._others:
            modules = self.project.modules
            source = modules.source(path, modules.files[path])
            project = type(self.project)(modules, path)
            self._others[path] = type(self)(source, path, project=project)
        return cast(S, self._others[path])

    def of_module(self: S, path: str, find: Callable[[S], T]) -> T | None:
        """Return `find` of the module at `path`, found once for all files; None if it cannot be parsed."""
        modules, key = self.project.modules, (find.__qualname__, path)
        if modules.scope(path) is None:
            return None
        return modules.remembered(key, lambda: find(self.other_file(path)))

    def release(self) -> None:
        """Let go of all that is known: its parts name each other, so their memory would wait for a garbage collection,
        and that of the next file would have to be new.
        """
        module, is_shared = self.module, self._is_shared
        for part in (*self._found.values(), self.inference, self.index, self):
            if hasattr(part, "__dict__"):
                part.__dict__.clear()
        if not is_shared:
            module.release()

    # Names and values.

    @cached_property
    def xla(self) -> str:
        """The local name of the runtime: the file's own name for it, otherwise `xla`, or another one if `xla` is taken."""
        for name in self.module.bindings:
            if self.module.dotted(name) == library_types.RUNTIME:
                return name
        for node, scope in self.index.of(ast.ImportFrom):  # of a function
            for local in (alias.asname or alias.name for alias in node.names):
                if scope.dotted(local) == library_types.RUNTIME:
                    return local
        names = ("xla", "xla_rt", "xla_runtime", "xla_migrate_runtime")
        return next((n for n in names if not self.is_taken(n)), "_xla_migrate_runtime")

    def is_taken(self, name: str) -> bool:
        """True if code has a name of that spelling; comments, strings and attributes take none."""
        return name.lower() in self.source.names and name in self._names

    @cached_property
    def _names(self) -> frozenset[str | None]:
        """The names that the file binds or reads."""
        index = self.index
        found: set[str | None] = {node.id for node, _ in index.of(ast.Name)}
        found.update(node.arg for node, _ in index.of(ast.arg))
        for alias, _ in index.of(ast.alias):
            found.update((alias.name, alias.name.partition(".")[0], alias.asname))
        for kind in (*NAMED, ast.ExceptHandler, ast.MatchAs, ast.MatchStar):
            found.update(node.name for node, _ in index.of(kind))  # type: ignore[attr-defined]
        return frozenset(found)

    def spell(self, dotted: str, scope: Scope) -> str:
        """How `dotted` is written in `scope`: by the longest part of it that the file has a name for.

        Where it has none, its first part is imported with the edits that use it; `needed` says so.
        """
        best = ""
        for name in self.module.bindings:
            home = self.module.dotted(name)
            if home is None or not f"{dotted}.".startswith(f"{home}."):
                continue
            text = name + dotted[len(home) :]
            if scope.dotted(name) == home and (not best or len(text) < len(best)):
                best = text
        if best:
            return best
        self.needed.add(dotted.rpartition(".")[0] if dotted.startswith("timm.") else "torch")
        return dotted

    def dotted(self, node: ast.AST | None, scope: Scope | None = None) -> str | None:
        """The dotted name that `node` stands for; None for attributes of what another module of the project makes."""
        if node is None:
            return None
        known = self._dotted
        if node not in known:
            scope = scope or self.index.scope(node)
            found = resolve(node, scope)
            if found is not None and isinstance(node, ast.Attribute) and not self.project.is_alone:
                owner = self.dotted(node.value, scope)
                if owner is not None and self.project.holds(owner):
                    found = None  # `model.cuda`, where `model = Net()` stands in utils.py
            known[node] = found
        return known[node]

    def is_handed_on(self, node: ast.Attribute) -> bool:
        """True if `node` is of another module of the project, which may have it from a library: `ext_dist.DDP`."""
        return (
            isinstance(node.value, ast.Name)
            and node.value.id in self.project_modules
            and self.project.hands_on(node.attr)
        )

    @cached_property
    def project_modules(self) -> frozenset[str]:
        """Local names of modules of the project."""
        return frozenset(
            name
            for name, bindings in self.module.bindings.items()
            if any(b.how == "import" and self.project.has(b.dotted) for b in bindings)
        )

    def segment(self, node: ast.expr | ast.stmt) -> str:
        """The source text of `node`."""
        return self.source.segment(node)

    def function(self, node: ast.AST) -> FunctionNode | None:
        """The function that `node` stands in."""
        return self.index.function(node)

    def defines(self, owner: ast.expr, method: str) -> bool:
        """True if `owner` is of a class of this file that has a method of that name by itself."""
        definition = self.value(owner).definition
        if not isinstance(definition, ast.ClassDef):
            return False
        return self.inference.method(definition, method) is not None

    def is_method_of_a_tensor(self, owner: ast.expr, method: str) -> bool:
        """Return True if `owner.method` is a tensor's method, and not one that a class of the program defines.

        Args:
            owner: the object.
            method: a name that tensors have and modules do not have.
        """
        value = self.value(owner)
        if value.has(TENSOR):
            return True
        if value.kinds & {MODULE, INSTANCE, CLASS}:
            return False
        if isinstance(owner, ast.Name) and owner.id in {"self", "cls"}:
            return False
        return not self.may_be_users_method(owner, method)

    def may_be_users_method(self, owner: ast.expr, method: str) -> bool:
        """Return True if the program defines a function of that name, and `owner` is not known to be a tensor."""
        if self.value(owner).has(TENSOR):
            return False
        if re.search(rf"\bdef {method}\(", self.source.text):
            return True
        return self.project.has_function(method)

    def is_neither_tensor_nor_module(self, node: ast.expr) -> bool:
        """True if `node` is of a class that is known to be neither, and inherits nothing from one that is not known."""
        value = self.value(node)
        if not value.kinds & {INSTANCE, CLASS} or value.kinds & {MODULE, TENSOR}:
            return False
        return not self.inherits_unknown(value)

    def inherits_unknown(self, value: Value) -> bool:
        """Return True if `value` is of a class of the program that inherits from an unknown class."""
        definition = value.definition
        return isinstance(definition, ast.ClassDef) and _derives_from_unknown(
            self.inference, definition
        )

    def is_annotation(self, node: ast.AST) -> bool:
        """True if `node` stands in an annotation, or names a type in another one (`Union[Stream, None]`): nothing is
        done with it.
        """
        for child, ancestor in self.upward(node):
            if isinstance(ancestor, ast.Subscript) and child is ancestor.slice:
                if (self.dotted(ancestor.value) or "").partition(".")[0] in _TYPING:
                    return True
            if isinstance(ancestor, (ast.arg, ast.AnnAssign)):
                return child is ancestor.annotation
            if isinstance(ancestor, FUNCTIONS):
                return child is ancestor.returns
        return False

    def is_statement(self, node: ast.expr) -> bool:
        """True if `node` stands alone: its value is not used."""
        return isinstance(self.parents.get(node), ast.Expr)

    def is_all_of_statement(self, node: ast.expr) -> bool:
        """True if a statement does nothing but evaluate `node`, always or if something holds: `f() if cuda else None`."""
        child: ast.AST = node
        parent = self.parents.get(node)
        match parent:
            case ast.IfExp(test=test, body=body, orelse=orelse) if child is not test:
                other = orelse if child is body else body
                if not isinstance(other, ast.Constant) or not is_pure(test):
                    return False
                child, parent = parent, self.parents.get(parent)
            case ast.BoolOp(values=[*tests, last]) if child is last:
                if not all(map(is_pure, tests)):
                    return False
                child, parent = parent, self.parents.get(parent)
        return isinstance(parent, ast.Expr)

    # What things are.

    def is_module(self, node: ast.expr) -> bool:
        """True if `node` is an nn.Module."""
        return self.value(node).has(MODULE)

    def is_in_a_module(self, node: ast.AST) -> bool:
        """True if `node` stands in a class that is an nn.Module."""
        return self.is_in_class_of(MODULE, node)

    def is_in_class_of(self, kind: str, node: ast.AST) -> bool:
        """Return True if `node` stands in a class whose objects are of this kind."""
        classes = (a for a in self.ancestors(node) if isinstance(a, ast.ClassDef))
        return any(kind in self.inference.base_kind(a, self.index.scope(a)) for a in classes)

    def is_device(self, node: ast.expr) -> bool:
        """True if `node` is a device, or a string that names one."""
        return self.value(node).has(DEVICE)

    def on_accelerator(self, node: ast.expr) -> bool:
        """True if `node` is a tensor that is known to live on the accelerator."""
        value = self.value(node)
        return value.has(TENSOR) and value.has(ACCEL)

    @cached_property
    def is_part_of_training(self) -> bool:
        """Return True if the file computes with torch, and a program that trains on an accelerator loads it."""
        computes = any(word in self.source.text for word in _COMPUTES)
        return computes and self.project.runs_accelerated

    @property
    def _asks_callers(self) -> bool:
        """Return True if calls in other modules may matter: the file trains, or is a part of a program that does."""
        trains_itself = bool(self.parallel or self.origin) or trains(self.source.text)
        return trains_itself or self.is_part_of_training

    @cached_property
    def accelerated(self) -> bool:
        """True if anything in this file speaks of an accelerator, or of a device to compute on."""
        text = self.source.text
        return speaks_of_an_accelerator(text) or any(name in text for name in self._own_devices)

    @cached_property
    def runs_accelerated(self) -> bool:
        """True if this file does, or is part of a program that trains on one: where modules of the project are known."""
        return self.accelerated or self.project.runs_accelerated

    def is_imported_elsewhere(self, name: str) -> bool:
        """True if another module of the project is known to import `name` from this one."""
        return self.project.wants(name)


def _derives_from_unknown(inference: Inference, definition: ast.ClassDef) -> bool:
    """True if a base of the class is of a library that may make a tensor or a module of it, or is not known at all."""
    for owner in inference.lineage(definition):
        home = inference.scopes[owner].parent
        if home is None or any(_is_unknown(inference, owner, base, home) for base in owner.bases):
            return True
    return definition not in inference.scopes


def _is_unknown(inference: Inference, owner: ast.ClassDef, base: ast.expr, home: Scope) -> bool:
    if isinstance(base, ast.Subscript):  # `Generic[T]`
        base = base.value
    parent = inference.value(base, home).definition
    if isinstance(parent, ast.ClassDef):
        return owner in inference.lineage(parent)  # it has taken the name of what it derives from
    dotted = resolve(base, home)
    if dotted is None:
        return not (isinstance(base, ast.Name) and hasattr(builtins, base.id))
    return dotted.partition(".")[0] not in _PLAIN and not kinds_of(dotted)
