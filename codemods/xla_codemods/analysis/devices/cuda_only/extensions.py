"""What chooses CUDA-only code: functions that answer a check for CUDA, pinned memory, and CUDA extensions of the project."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence

from ....flow.calls import call_of
from ....patterns import Pattern
from ...nodes import walk
from ...parsed_file import ParsedFile
from ...projects.attribute_uses import uses_of_function
from ...syntax import name_of, root_of

_KNOWN = (
    "torch",
    "torchvision",
    "torchaudio",
)  # what is theirs has rules, or a kernel for every device


def hands_to_an_extension(script: ParsedFile, test: ast.expr, body: Iterable[ast.AST]) -> bool:
    """Return True if `body` passes the tensor, whose device is tested, to such an extension."""
    names = [part for part in walk(test) if isinstance(part, ast.Name)]
    tensors = {name.id for name in names if script.dotted(name) is None}  # not `torch`
    for part in body:
        for call in walk(part):
            if isinstance(call, ast.Call) and _is_of_an_extension(script, call.func):
                given = [*call.args, *(k.value for k in call.keywords)]
                handed = {n.id for g in given for n in walk(g) if isinstance(n, ast.Name)}
                if not tensors.isdisjoint(handed):
                    return True
    return False


def _is_of_an_extension(script: ParsedFile, func: ast.expr) -> bool:
    return any(
        binding.dotted.partition(".")[0] not in _KNOWN
        and isinstance(binding.node, (ast.Import, ast.ImportFrom))
        and _is_tried(script, binding.node)
        for binding in script.bindings(root_of(func))
    )


def _is_tried(script: ParsedFile, statement: ast.stmt) -> bool:
    attempt = script.parent(statement)
    return isinstance(attempt, ast.Try) and bool(attempt.handlers) and statement in attempt.body


# How copies are made, by the names of arguments.
OF_COPIES = Pattern(r"_*(?:pin(?:_|$)|pinned|non_?blocking)")
PINS = Pattern(r"(?:^|\.)(?:pin\w*|is_pinned\(.*\))$")


def pins_memory(parts: Sequence[ast.AST]) -> bool:
    """Return True if `parts` only pin memory: `x = x.pin_memory()`."""
    return bool(parts) and all(map(_pins, parts))


def _pins(part: ast.AST) -> bool:
    match part:
        case ast.If(body=body, orelse=other):
            return pins_memory([*body, *other])
        case ast.For(body=body):
            return pins_memory(body)
        case (
            ast.Assign(value=value) | ast.Expr(value=value) | ast.Return(value=ast.expr() as value)
        ):
            return _pins(value)
        case ast.Call(func=ast.Attribute(attr="pin_memory")):
            return True
    return False


_PROPERTIES = frozenset({"property", "cached_property"})


def is_answer(script: ParsedFile, test: ast.expr) -> ast.FunctionDef | None:
    """Return the function whose result is `test`, or is decided by it; None if there is none.

    `return x.is_cuda`, `return FAST and x.is_cuda`, and `if x.is_cuda: return True`.
    """
    for child, ancestor in script.upward(test):
        if isinstance(ancestor, ast.Return):
            break
        if isinstance(ancestor, ast.If):
            if child is not ancestor.test or not _returns_a_constant(ancestor.body[-1]):
                return None
            break
        if isinstance(ancestor, ast.IfExp) and child is ancestor.test:
            if not any(map(_is_answered, (ancestor.body, ancestor.orelse))):
                return None  # `return fast(x) if x.is_cuda else slow(x)` uses the answer up
        elif not isinstance(ancestor, _JOINS):
            return None
    function = script.function(test)
    return function if isinstance(function, ast.FunctionDef) else None


_JOINS = (ast.BoolOp, ast.UnaryOp, ast.Compare, ast.Call, ast.IfExp)


def _returns_a_constant(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Return) and _is_answered(statement.value)


def _is_answered(value: ast.expr | None) -> bool:
    return isinstance(value, ast.Constant) and (value.value is None or value.value in {True, False})


def uses_of(
    script: ParsedFile, function: ast.FunctionDef | ast.ClassDef
) -> list[tuple[ParsedFile, ast.expr]]:
    """Return the calls of the function or class, and other uses of its name, in all files."""
    is_method = isinstance(script.parent(function), ast.ClassDef)
    named = script.index.attributes if is_method else script.index.names
    uses: list[tuple[ParsedFile, ast.expr]] = [
        (script, node) for node, _ in named(function.name) if isinstance(node.ctx, ast.Load)
    ]
    if isinstance(script.parent(function), ast.Module):
        found = uses_of_function(script.project, function.name)
        uses += [(script.other_file(use.home.path), use.node) for use in found if use is not None]
    if any(name_of(decorator) in _PROPERTIES for decorator in function.decorator_list):
        return uses
    return [(file, call_of(file, node) or node) for file, node in uses]
