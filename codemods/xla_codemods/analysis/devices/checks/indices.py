"""Pairs of tests that tell a device with an index, "cuda:1", from one without, "cuda"."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...parsed_file import ParsedFile
from ...syntax import is_literal


def index_test(script: ParsedFile, node: ast.expr, subject: ast.expr) -> str:
    """Return the test of the index that `node` implies, if its function tests for both kinds of names; "" if not.

    Without it, `device == "cuda"` and `device.startswith("cuda:")` would become equal tests.
    """
    if not isinstance(subject, (ast.Name, ast.Attribute)) or "cuda:" not in script.source.text:
        return ""
    text = ast.unparse(subject)
    function = script.function(node)
    kinds = {
        test: has_index
        for test, tested, has_index in _tests(script)
        if ast.unparse(tested) == text and script.function(test) is function
    }
    if node not in kinds or len({*kinds.values()}) != 2:
        return ""
    return ' and ":" in {0}' if kinds[node] else ' and ":" not in {0}'


def _tests(script: ParsedFile) -> Iterator[tuple[ast.expr, ast.expr, bool]]:
    """Yield tests for "cuda", False, and for "cuda:", True, with the tested text."""
    for node, _ in script.index.of(ast.Compare):
        left, right = node.left, node.comparators[-1]
        match node.ops:
            case [ast.In() | ast.NotIn()] if is_literal(left, "cuda:"):
                yield node, right, True
            case [ast.Eq() | ast.NotEq()] if is_literal(right, "cuda"):
                yield node, left, False
            case [ast.Eq() | ast.NotEq()] if is_literal(left, "cuda"):
                yield node, right, False
    for call, _ in script.index.calls_of("startswith"):
        match call:
            case ast.Call(func=ast.Attribute(value=tested), args=[ast.Constant(value="cuda:")]):
                yield call, tested, True
