"""The attention that a model of transformers uses, chosen by name."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

from ..devices.specs import last_name
from ..parsed_file import ParsedFile
from ..syntax import defaults

_KEY = "attn_implementation"


def chosen_attention(script: ParsedFile, wanted: Callable[[str], bool]) -> Iterator[ast.Constant]:
    """The names that are `wanted`, wherever they are given as the implementation."""
    for node, _ in script.index.of(ast.Constant):
        if isinstance(node.value, str) and wanted(node.value) and is_chosen(script, node):
            yield node


def is_chosen(script: ParsedFile, node: ast.expr) -> bool:
    """True if `node` is given as the implementation: to a parameter, key or variable of that name."""
    child: ast.AST = node
    parent = script.parent(node)
    while isinstance(parent, (ast.IfExp, ast.BoolOp)):
        if isinstance(parent, ast.IfExp) and parent.test is child:
            return False
        child, parent = parent, script.parent(parent)
    match parent:
        case ast.keyword(arg=name):
            call = script.parent(parent)
            if name != "default" or not isinstance(call, ast.Call):
                return is_key(name)
            return _is_option(call) or _is_field(script, call)
        case ast.Call(func=ast.Attribute(attr="set_attn_implementation"), args=[first, *_]):
            return first is child
        case ast.Dict():
            keys = [k for k, v in zip(parent.keys, parent.values) if v is child]
            return any(isinstance(k, ast.Constant) and is_key(k.value) for k in keys)
        case ast.Assign(targets=targets):
            return any(is_key(last_name(target)) for target in targets)
        case ast.AnnAssign(target=target):
            return is_key(last_name(target))
        case ast.arguments():
            return _is_default_of_one(parent, child)
    return False


def is_key(name: object) -> bool:
    """Return True if `name` is that of an attention: `attn_implementation`, `--attn-implementation`."""
    return isinstance(name, str) and name.lower().replace("-", "_").strip("_").endswith(_KEY)


def _is_option(call: ast.Call) -> bool:
    """`add_argument("--attn_implementation", default=...)`."""
    return any(isinstance(a, ast.Constant) and is_key(a.value) for a in call.args)


def _is_field(script: ParsedFile, call: ast.Call) -> bool:
    """`attn_implementation: str = field(default=...)`, in a class."""
    match script.parent(call):
        case ast.AnnAssign(target=target) as statement:
            return is_key(last_name(target)) and isinstance(script.parent(statement), ast.ClassDef)
    return False


def _is_default_of_one(arguments: ast.arguments, default: ast.AST) -> bool:
    return any(
        value is default and is_key(parameter.arg) for parameter, value in defaults(arguments)
    )
