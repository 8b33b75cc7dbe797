"""Extensions that a file does without: `try: import swish_ext`, `except ImportError: swish_ext = None`."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import TYPE_CHECKING

from ...nodes import walk

if TYPE_CHECKING:
    from ...parsed_file import ParsedFile

_KNOWN = (
    "torch",
    "torchvision",
    "torchaudio",
)  # what is theirs has rules, or a kernel for every device


def hands_to_an_extension(script: ParsedFile, asked: ast.expr, body: Iterable[ast.AST]) -> bool:
    """Return True if `body` passes the tensor, whose device `asked` tests, to such an extension."""
    names = [part for part in walk(asked) if isinstance(part, ast.Name)]
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
    while isinstance(func, ast.Attribute):
        func = func.value
    if not isinstance(func, ast.Name):
        return False
    found = script.index.scope(func).find(func.id)
    return found is not None and any(
        binding.dotted.partition(".")[0] not in _KNOWN
        and isinstance(binding.node, (ast.Import, ast.ImportFrom))
        and _is_tried(script, binding.node)
        for binding in found[1]
    )


def _is_tried(script: ParsedFile, statement: ast.stmt) -> bool:
    attempt = script.parent(statement)
    return isinstance(attempt, ast.Try) and bool(attempt.handlers) and statement in attempt.body
