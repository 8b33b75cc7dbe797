"""Trackers of libraries and loggers of the project, which store or show the values that they are given.

A call that logs to such an object is deferred and names the object (`to=logger`): pending calls run before any other use of it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection
from typing import TYPE_CHECKING

from ....inference.makers import elements, library_of, makers
from ....inference.values import INSTANCE
from ....nodes import walk
from ....syntax import unparsed
from ..blocked import Blocked
from ..formatted import is_container
from ..lasting import OPTIONS
from ..readers.cells import attribute_stores, attributes_read
from ..readers.modules import class_elsewhere
from ..sinks import may_read_files
from .printers import may_change

if TYPE_CHECKING:
    from ....script import Script

# Methods of loggers that only keep, write or show what they are given: it makes no difference when they are called.

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


# Of these an object does much else.
_LOG_METHODS = {
    "accelerate": frozenset({"log", "log_images"}),
    "lightning": frozenset({"log", "log_dict"}),
    "lightning_fabric": frozenset({"log", "log_dict"}),
}
_ENDING = frozenset({"close", "end", "end_run", "end_training", "finish", "stop"})


def logged_to(script: Script, call: ast.Call) -> str | None:
    """Return the text of the object that the statement `call` logs to: `logger`, `self.writer`; None if it does more."""
    func = call.func
    if not isinstance(func, ast.Attribute) or func.attr in _ENDING:
        return None
    if not isinstance(script.parent(call), ast.Expr):
        return None
    owner = _named(func.value)
    if owner is None:
        return None
    made = makers(script, owner)
    library = library_of(made)
    if library in _LOG_METHODS:
        return unparsed(owner) if func.attr in _LOG_METHODS[library] else None
    if library in TRACKERS:
        return unparsed(owner)
    loop = script.training.loop_of(call)
    if loop is None or any(map(may_read_files, walk(loop.node))):
        return None
    if owner is func.value and _is_own_recorder(script, owner, func.attr, made):
        return unparsed(owner)
    return None


def takes_tensors(script: Script, call: ast.Call) -> bool:
    """True if `call` tells a library's tracker, to which a copy of a tensor on the host is what the tensor is.

    loguru writes down where it lies.
    """
    owner = _named(call.func.value) if isinstance(call.func, ast.Attribute) else None
    library = library_of(makers(script, owner)) if owner is not None else ""
    return library in _LOG_METHODS or (library in TRACKERS and library != "loguru")


def logged_in_each_step(script: Script, owner: str, always: Collection[ast.AST]) -> list[ast.Call]:
    """Return the calls that log to `owner` in every step.

    Raises `Blocked` if the object is used for a result there: it would have to wait for the deferred calls.
    """
    found: list[ast.Call] = []
    for node in always:
        if not isinstance(node, (ast.Name, ast.Attribute)) or unparsed(node) != owner:
            continue
        if not isinstance(node.ctx, ast.Load):
            continue
        statement = script.statement(node)
        call = statement.value if isinstance(statement, ast.Expr) else None
        if isinstance(call, ast.Call) and logged_to(script, call) == owner:
            found.append(call)
        elif library_of(makers(script, node)) in _LOG_METHODS:
            continue
        elif not _is_tested(script.parent(node)):
            raise Blocked(f"the script uses `{owner}` in other ways in every step")
    return found


def _named(node: ast.expr) -> ast.expr | None:
    """Return `run` of `run["loss"]`, `self.logger`; a computed object has no name, except `Logger.current_logger()`."""
    while isinstance(node, ast.Subscript):
        node = node.value
    inner = node.func if isinstance(node, ast.Call) and not (node.args or node.keywords) else node
    while isinstance(inner, ast.Attribute):
        inner = inner.value
    return node if isinstance(inner, ast.Name) else None


def _is_tested(parent: ast.AST | None) -> bool:
    """`if writer is not None:`, `if writer:`."""
    match parent:
        case ast.Compare(ops=[ast.Is() | ast.IsNot()]) | ast.UnaryOp(op=ast.Not()) | ast.If():
            return True
    return False


def _is_own_recorder(script: Script, owner: ast.expr, method: str, made: set[str]) -> bool:
    """Return True if `owner` is of a class of the project whose `method` only stores and shows its arguments."""
    try:
        classes = _classes_of(script, owner, made, method)
        return bool(classes) and all(
            found is not None and only_records(script, *found, method) for found in classes
        )
    except Blocked:
        return False


def _classes_of(
    script: Script, owner: ast.expr, made: set[str], method: str
) -> list[tuple[Script, ast.ClassDef] | None]:
    """Return the class of `logger`, or the classes of all `callbacks` in `for callback in callbacks:`."""
    each = elements(script, owner) if isinstance(owner, ast.Name) else None
    if each is None:
        return [_class_of(script, owner, made, method)]
    return [_class_of(script, one, makers(script, one), method) for one in each]


def _class_of(
    script: Script, owner: ast.expr, made: set[str], method: str
) -> tuple[Script, ast.ClassDef] | None:
    """Return the class if no class that derives from it may have another such method."""
    value = script.value(owner)
    if isinstance(value.definition, ast.ClassDef):
        found: tuple[Script, ast.ClassDef] | None = script, value.definition
    else:
        found = class_elsewhere(script, next(iter(made))) if len(made) == 1 else None
    if found is None or isinstance(owner, ast.Call):
        return found
    home, definition = found
    if {name.rpartition(".")[2] for name in made} == {definition.name}:
        return found
    derived = any(
        other is not definition and definition in home.inference.lineage(other)
        for other, _ in home.index.of(ast.ClassDef)
    )
    return None if derived or home.is_imported_elsewhere(definition.name) else found
