"""Meters and loggers of other modules of the project: what they do with a number is read there."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, TypeVar

from .....patterns import Pattern
from .....source import Source
from ....nodes import walk
from ....projects.attribute_uses import AttributeUse
from ....projects.project import Project
from ..blocked import Blocked

if TYPE_CHECKING:
    from ....script import Script

Definition = TypeVar("Definition", ast.ClassDef, ast.FunctionDef)
_LEVELS = frozenset("debug info warning error critical".split())
_LOGGER = Pattern(r"log(?:ger|ging)?$")
_PURE = frozenset("abs float format int len max min print range repr round sorted str".split())
_TEXTS = frozenset("format items join keys ljust rjust values".split())
# Of what a function that only shows consists.
_PLAIN = (ast.Expr, ast.If, ast.For, ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Pass)


def class_elsewhere(script: Script, dotted: str) -> tuple[Script, ast.ClassDef] | None:
    """The class of another module that `dotted` names, in that module, all of which is looked at."""
    return _elsewhere(script, dotted, ast.ClassDef)


def _elsewhere(
    script: Script, dotted: str, kind: type[Definition]
) -> tuple[Script, Definition] | None:
    project = script.project
    found = project.definition(dotted) if project is not None else None
    if found is None or not isinstance(found[0], kind):
        return None
    other = script_of(script, found[1])
    for statement in other.tree.body:
        if isinstance(statement, kind) and statement.name == found[0].name:
            return other, statement
    return None


def script_of(script: Script, path: str) -> Script:
    """The module of the project at `path`, all of which is looked at."""
    assert script.project is not None
    modules, kind = script.project.modules, type(script)

    def whole() -> Script:
        return kind(
            Source(modules.files[path]), path, parallel="spmd", project=Project(modules, path)
        )

    return modules.remembered(("script", path), whole)


def call_at(other: Script, use: AttributeUse) -> ast.Call:
    """The call of the method or function at `use`, in the tree of `other`."""
    kind = type(use.node)
    for node, _ in other.index.of(kind):
        if _place(node) == _place(use.node):
            parent = other.parent(node)
            if isinstance(parent, ast.Call) and parent.func is node:
                return parent
    raise Blocked(f"`{name_of(use)}` returns it, to callers that are not known here")


def name_of(use: AttributeUse) -> str:
    """The name of what is used."""
    return use.node.attr if isinstance(use.node, ast.Attribute) else use.node.id


def _place(node: ast.expr) -> tuple[int, int, int | None, int | None]:
    return node.lineno, node.col_offset, node.end_lineno, node.end_col_offset


def method_of(definition: ast.ClassDef, name: str) -> ast.FunctionDef | None:
    """The method that `definition` itself has."""
    for statement in definition.body:
        if isinstance(statement, ast.FunctionDef) and statement.name == name:
            return None if statement.decorator_list else statement
    return None


def no_others_use(script: Script, path: str, names: list[str]) -> None:
    """Raises `Blocked` where a third module of the programs has one of these attributes of anything."""
    assert script.project is not None
    modules = script.project.modules
    loads = re.compile(rf"\.(?:{'|'.join(map(re.escape, names))})\b(?!\s*\()")
    having = frozenset().union(*map(modules.with_word, names))
    for other in sorted(having & modules.graph.connected(script.project.path)):
        if other not in (path, script.project.path) and loads.search(modules.text(other)):
            raise Blocked(f"`{other}` may use it, too")


def is_shown_elsewhere(script: Script, call: ast.Call) -> bool:
    """True if `call` is of a function of another module that only prints or logs what it is given."""
    dotted = script.dotted(call.func)
    found = _elsewhere(script, dotted, ast.FunctionDef) if dotted is not None else None
    if found is None:
        return False
    other, shown = found
    if shown.decorator_list or not _only_shows(shown):
        return False
    loggers = {n.func.value for n in walk(shown) if isinstance(n, ast.Call) and _is_logged(n)}  # type: ignore[attr-defined]
    names = [n for n in walk(shown) if isinstance(n, ast.Name) and n not in loggers]
    return not any(may_change(other, name) for name in names)


def may_change(other: Script, node: ast.Name) -> bool:
    """True if `node` is a name of the module that is bound again and again, or of things that methods change."""
    found = other.index.scope(node).find(node.id)
    if found is None or not isinstance(found[0].node, ast.Module):
        return False
    if all(b.how in {"import", "fallback", "def", "class"} for b in found[1]):
        return False
    if node.id in found[0].rebound:
        return True
    stored = re.compile(rf"\.{re.escape(node.id)}\s*(?:[-+*/]|//|\*\*)?=(?!=)")
    if other.project is not None and other.project.has_text(stored):
        return True
    made = found[1][0].value
    if isinstance(made, ast.Call):
        made = made.func
        return len(found[1]) != 1 or not (other.dotted(made) or "").startswith("logging.")
    return len(found[1]) != 1 or not isinstance(made, ast.Constant)


def _only_shows(function: ast.FunctionDef) -> bool:
    inside = [n for s in function.body for n in walk(s)]
    shows = False
    for node in inside:
        if isinstance(node, ast.stmt) and not isinstance(node, _PLAIN):
            return False
        if isinstance(node, (ast.Attribute, ast.Subscript)) and not isinstance(node.ctx, ast.Load):
            return False
        if isinstance(node, (ast.Lambda, ast.Yield, ast.YieldFrom, ast.Await, ast.NamedExpr)):
            return False
        if isinstance(node, ast.Call):
            if not _is_plain(node):
                return False
            shows = shows or _shows(node)
    return shows


def _is_plain(call: ast.Call) -> bool:
    if _shows(call):
        return True
    match call.func:
        case ast.Name(id=name):
            return name in _PURE and name != "print"
        case ast.Attribute(attr=name):
            return name in _TEXTS
    return False


def _shows(call: ast.Call) -> bool:
    match call.func:
        case ast.Name(id="print"):
            return all(k.arg in {"sep", "end", "flush"} for k in call.keywords)
    return _is_logged(call)


def _is_logged(call: ast.Call) -> bool:
    match call.func:
        case ast.Attribute(attr=level, value=ast.Name(id=owner)):
            return level in _LEVELS and _LOGGER.search(owner.lower()) is not None
    return False
