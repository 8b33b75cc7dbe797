"""Calls of functions that `partial` has prepared."""

from __future__ import annotations

import ast

from ...parsed_file import ParsedFile


def as_prepared(script: ParsedFile, call: ast.Call) -> ast.Call:
    """Return `f(1, x)` for `g(x)` with `g = partial(f, 1)`; otherwise `call` itself."""
    match script.only_value(call.func) if isinstance(call.func, ast.Name) else None:
        case ast.Call(func=func, args=[function, *first], keywords=keywords) if (
            script.dotted(func) == "functools.partial"
        ):
            return ast.Call(function, [*first, *call.args], [*keywords, *call.keywords])
    return call
