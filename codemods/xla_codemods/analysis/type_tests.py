"""Classes that are named in a type test, not to make an object.

The runtime's classes derive from torch's, so that torch's class matches both: an object that the migrated
script makes, and for one that a library, or a module that was not migrated, has made.
"""

from __future__ import annotations

import ast

from .parsed_file import ParsedFile
from .scopes import Scope
from .syntax import name_of

_ASKING = frozenset({"isinstance", "issubclass"})
_CONTAINERS = (ast.Tuple, ast.List, ast.Set, ast.BinOp)
_GENERIC = frozenset(
    "Annotated ClassVar Dict Final List Optional Sequence Set Tuple Type TypeGuard Union".split()
)
_OF_TYPES = frozenset({"cast", "TypeVar", "NewType", "register", "assert_type", "super"})
_EQUAL = (ast.Is, ast.Eq)
_UNEQUAL = (ast.IsNot, ast.NotEq)


def is_about_types(script: ParsedFile, node: ast.expr, scope: Scope) -> bool:
    """True if the class `node` stands in an annotation, in `isinstance`, `super` and the like, or in a tuple that only goes there."""
    if script.is_annotation(node):
        return True
    inner: ast.AST = node
    parent = script.parent(node)
    while isinstance(parent, _CONTAINERS):
        inner, parent = parent, script.parent(parent)
    match parent:
        case ast.Call(func=func, args=[first, *_]):
            name = name_of(func)
            return name in _OF_TYPES or (name in _ASKING and first is not inner)
        case ast.keyword(arg="bound"):
            return True
        case ast.Subscript(value=generic, slice=index) if index is inner:
            name = ast.unparse(generic).rpartition(".")[2]
            return name in _GENERIC or name in {"list", "tuple", "dict", "set", "type"}
        case ast.MatchClass():
            return True
        case ast.Assign(targets=[ast.Name(id=name)]) if inner is not node:
            return _is_only_asked(script, name, scope)
    return False


def _is_only_asked(script: ParsedFile, name: str, scope: Scope) -> bool:
    """True if the tuple of classes `name`, to which others may be added, is read only by `isinstance` and `issubclass`."""
    found = scope.find(name)
    if found is None or any(b.how not in {"assign", "augment"} for b in found[1]):
        return False
    reads = [
        n
        for n, inside in script.index.names_of(found[0], name)
        if isinstance(n.ctx, ast.Load) and inside.find(name) == found
    ]
    return bool(reads) and all(
        isinstance(call := script.parent(read), ast.Call)
        and getattr(call.func, "id", "") in _ASKING
        and call.args[0] is not read
        for read in reads
    )


def exact_type_test(node: ast.Compare) -> tuple[str, ast.expr, ast.expr] | None:
    """`type(x) is C`, `x.__class__ == C`, `type(x) in (C, D)`: as the text with `isinstance`, the object and the classes.

    The runtime's class and torch's are two, and an object's type is one of them: only `isinstance` matches both.
    """
    match node:
        case ast.Compare(
            left=ast.Call(func=ast.Name(id="type"), args=[instance], keywords=[])
            | ast.Attribute(value=instance, attr="__class__"),
            ops=[operator],
            comparators=[classes],
        ):
            if isinstance(classes, (ast.Tuple, ast.List, ast.Set)):
                if isinstance(classes, ast.Tuple) and isinstance(operator, (ast.In, ast.NotIn)):
                    return _text(isinstance(operator, ast.NotIn)), instance, classes
            elif isinstance(operator, (*_EQUAL, *_UNEQUAL)):
                return _text(isinstance(operator, _UNEQUAL)), instance, classes
    return None


def asks_for_types(script: ParsedFile, node: ast.expr) -> bool:
    """Return True if `node` is part of a type test: as `is_about_types`, or `type(x) is C`."""
    parent = script.parent(node)
    if isinstance(parent, ast.Tuple):
        parent = script.parent(parent)
    if isinstance(parent, ast.Compare):
        return exact_type_test(parent) is not None
    return is_about_types(script, node, script.index.scope(node))


def _text(is_negated: bool) -> str:
    return "not isinstance({0}, {1})" if is_negated else "isinstance({0}, {1})"
