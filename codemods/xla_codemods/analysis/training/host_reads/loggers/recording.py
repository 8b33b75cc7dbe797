"""Methods of loggers that only keep, write or show what they are given: it makes no difference when they are called."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from ....inference.makers import library_of, makers
from ....inference.values import INSTANCE
from ....nodes import walk
from ..formatted import is_container
from ..lasting import OPTIONS
from ..readers.cells import attribute_stores, attributes_read
from .printers import may_change

if TYPE_CHECKING:
    from ....script import Script

TRACKERS = frozenset(
    "aim clearml comet_ml dvclive loguru mlflow neptune swanlab tensorboardX torch.utils.tensorboard trackio visdom wandb".split()
)
_STATEMENTS = (
    *(ast.Expr, ast.If, ast.For, ast.Assign, ast.AugAssign, ast.AnnAssign, ast.With, ast.Pass),
    *(ast.Continue, ast.Break, ast.Return),
)
_MOVING = (ast.Lambda, ast.Yield, ast.YieldFrom, ast.Await, ast.NamedExpr)
_FUNCTIONS = frozenset(
    "abs bool dict enumerate float format getattr hasattr int isinstance len list max min open print range repr round set sorted str sum tuple zip".split()
)
_LIBRARIES = ("csv.", "json.", "logging.", "math.", "numpy.", "os.path.", "statistics.", "sys.std")
_OF_OPTIMIZERS = frozenset({"defaults", "param_groups", "state"})
_BASES = frozenset({"object", "SummaryWriter"})
# Methods of lists, files, texts, loggers and other writers that may be called.
_METHODS = frozenset(
    "add add_scalar add_scalars append center copy critical debug error extend flush format get info item items join keys ljust lower"
    " popleft replace rjust setdefault split strip title update upper values warning write writelines writeheader writerow writerows".split()
)


def only_records(script: Script, other: Script, definition: ast.ClassDef, method: str) -> bool:
    """Return True if `method` of the class, which is in `other`, changes only its own object, and other code sees
    the change only through methods of the object.
    """
    lineage = list(other.inference.lineage(definition))
    for owner in lineage:
        known = [b for b in owner.bases if other.value(b).definition not in lineage]
        if not all(ast.unparse(base).rpartition(".")[2] in _BASES for base in known):
            return False
        if owner.keywords or owner.decorator_list:
            return False
    seen: set[str] = set()
    if not _records(other, definition, method, seen):
        return False
    if any(name in seen for name in ("__getattr__", "__setattr__", "__getattribute__")):
        return False
    changed = sorted(name for name in seen if other.inference.method(definition, name) is None)
    for name in changed:
        if any(map(is_container, attribute_stores(other, name, definition))) and _is_given_away(
            other, name
        ):
            return False
        for node in attributes_read(other, name):
            if not any(owner in other.ancestors(node) for owner in lineage):
                return False
        if other is not script and attributes_read(script, name):
            return False
    if any(_is_listed(each, lineage) for each in {other, script}):
        return False
    return not changed or script.project is None or _no_others_use(script, other.path, changed)


def _is_listed(script: Script, lineage: list[ast.ClassDef]) -> bool:
    """Return True if `vars(log)`, `log.__dict__` and the like may read attributes of an object of these classes."""
    listed = [node.value for node, _ in script.index.of(ast.Attribute) if node.attr == "__dict__"]
    for name in ("asdict", "astuple", "getattr", "vars"):
        listed += [call.args[0] for call, _ in script.index.calls_of(name) if call.args]
    return any(_may_be(script, node, lineage) for node in listed)


def _may_be(script: Script, node: ast.expr, lineage: list[ast.ClassDef]) -> bool:
    if isinstance(node, ast.Name) and node.id == "self":
        return any(owner in script.ancestors(node) for owner in lineage)
    value = script.value(node)
    if value.kinds:
        return value.definition in lineage
    return script.dotted(node) is None and not OPTIONS.search(ast.unparse(node))


def _is_given_away(other: Script, name: str) -> bool:
    """Return True for `self.plot = Plot(self.rows)` in a constructor: another object has the list."""
    for node in attributes_read(other, name):
        call = other.parent(node)
        call = other.parent(call) if isinstance(call, ast.keyword) else call
        if isinstance(call, ast.Call) and getattr(other.function(node), "name", "") == "__init__":
            if not (isinstance(call.func, ast.Name) and call.func.id in _FUNCTIONS):
                return True
    return False


def _no_others_use(script: Script, path: str, names: list[str]) -> bool:
    """Return True if no third module of the programs has one of these attributes of anything."""
    assert script.project is not None
    modules = script.project.modules
    loads = re.compile(rf"\.(?:{'|'.join(map(re.escape, names))})\b(?!\s*\()")
    having = frozenset().union(*map(modules.with_word, names))
    return not any(
        other not in (path, script.project.path) and loads.search(modules.text(other))
        for other in having & modules.graph.connected(script.project.path)
    )


def _records(other: Script, definition: ast.ClassDef, name: str, seen: set[str]) -> bool:
    """`seen` has the attributes that the method, and those which it calls, have to do with."""
    method = other.inference.method(definition, name)
    function = method[0] if method is not None else None
    if not isinstance(function, ast.FunctionDef) or name in seen:
        return name in seen
    if function.decorator_list:
        return False
    seen.add(name)
    given = {a.arg for a in (*function.args.args, *function.args.kwonlyargs)} - {"self"}
    for statement in function.body:
        for node in walk(statement):
            if isinstance(node, ast.stmt) and not isinstance(node, _STATEMENTS):
                return False
            if (
                isinstance(node, _MOVING)
                or _stores_elsewhere(node)
                or _looks_elsewhere(other, node)
            ):
                return False
            if isinstance(node, ast.Name) and node.id not in given and may_change(other, node):
                return False
            if isinstance(node, ast.Attribute) and getattr(node.value, "id", "") == "self":
                seen.add(node.attr)
            if isinstance(node, ast.Call) and not _is_plain(other, definition, node, seen):
                return False
    return True


def _stores_elsewhere(node: ast.AST) -> bool:
    """`state.loss = loss`, of what is not its own."""
    if not isinstance(node, (ast.Attribute, ast.Subscript)) or isinstance(node.ctx, ast.Load):
        return False
    root: ast.expr = node
    while isinstance(root, (ast.Attribute, ast.Subscript)):
        root = root.value
    return isinstance(node, ast.Attribute) and getattr(root, "id", "") != "self"


def _looks_elsewhere(other: Script, node: ast.AST) -> bool:
    """`self.optimizer.param_groups`, which others change; not `self.args.verbose`, nor methods, which are judged as calls."""
    match node:
        case ast.Attribute(value=ast.Attribute(value=ast.Name(id="self"), attr=owner), attr=name):
            parent = other.parent(node)
            if isinstance(parent, ast.Call) and parent.func is node:
                return False
            return name in _OF_OPTIMIZERS or not OPTIONS.search(owner)
    return False


def _is_plain(other: Script, definition: ast.ClassDef, call: ast.Call, seen: set[str]) -> bool:
    func = call.func
    dotted = other.dotted(func)
    if dotted is not None:
        return dotted.startswith(_LIBRARIES)
    match func:
        case ast.Name(id=name):
            return name in _FUNCTIONS
        case ast.Attribute(value=ast.Name(id="self"), attr=name) if other.inference.method(
            definition, name
        ):
            return _records(other, definition, name, seen)
        case ast.Attribute(value=ast.Name(id="self"), attr=name):
            return name.startswith("add_") and bool(definition.bases)  # of a SummaryWriter
        case ast.Attribute(value=owner) if library_of(makers(other, owner)) in TRACKERS:
            return True
        case ast.Attribute(value=owner, attr=name):
            value = other.value(owner)
            is_known = isinstance(value.definition, ast.ClassDef) or value.kinds & {INSTANCE}
            return name in _METHODS and not is_known
    return False
