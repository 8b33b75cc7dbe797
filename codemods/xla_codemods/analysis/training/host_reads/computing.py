"""Expressions that may be computed later, of parts of now, and what computing them does."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from ...nodes import walk

if TYPE_CHECKING:
    from ...script import Script

# What is built of its parts, which may come later.
BUILT = (
    ast.JoinedStr,
    ast.FormattedValue,
    ast.Tuple,
    ast.List,
    ast.Dict,
    ast.BinOp,
    ast.UnaryOp,
    ast.Starred,
    ast.Slice,
    ast.keyword,
)
BUILT_OF_READS = (ast.BoolOp, ast.Compare, ast.IfExp, ast.Subscript)
_PURE = frozenset(
    "abs dict float format int len list max min print repr round sorted str sum tuple zip".split()
)
# Methods that compute of a value on the host, whenever they are called.
METHODS_OF_VALUES = frozenset(
    "argmax astype copy cpu data detach flatten float item long mean numpy ravel reshape round squeeze sum tolist".split()
)
# What numpy and statistics compute of a list of numbers.
_MEANS = frozenset(
    {
        f"numpy.{name}"
        for name in "average exp max mean median min prod round sqrt std sum var".split()
    }
    | {f"statistics.{name}" for name in "fmean mean median pstdev stdev".split()}
)
_OF_LISTS = frozenset({"max", "min", "sum"})
_PARTS = frozenset({"items", "keys", "values"})
_TESTS = frozenset({"all", "any", "isfinite", "isinf", "isnan"})
_TESTED = frozenset({*_TESTS, "abs", "detach", "max", "mean", "min", "sum"})


def depends(node: ast.AST, child: ast.AST) -> bool:
    """True if `child` of `node` is computed only where another part of it says so."""
    match node:
        case ast.IfExp(test=test):
            return child is not test
        case ast.BoolOp(values=[first, *_]):
            return child is not first
        case ast.Compare(comparators=[first, *_], left=left):
            return child is not left and child is not first
    return False


def may_fail(node: ast.AST) -> bool:
    """Division, powers, `math` and `int` raise for some numbers; so does `%d`, for nan."""
    match node:
        case ast.BinOp(op=ast.Mod(), left=ast.Constant(value=str(text))):
            return "%d" in text
        case ast.BinOp(op=ast.Div() | ast.FloorDiv() | ast.Mod() | ast.Pow()):
            return True
        case (
            ast.Call(func=ast.Attribute(value=ast.Name(id="math")))
            | ast.Call(func=ast.Name(id="int" | "exp" | "log"))
        ):
            return True
    return False


def is_pure(node: ast.expr) -> bool:
    """True if computing `node` once more gives the same: no `timer.tick()`, `next(numbers)`, `time.time()`."""
    return all(
        getattr(n.func, "id", "") in _PURE
        or getattr(n.func, "attr", "") in METHODS_OF_VALUES | {"get_last_lr", "get_lr", "size"}
        for n in walk(node)
        if isinstance(n, ast.Call)
    )


def is_a_test(script: Script, node: ast.expr) -> bool:
    """True for `torch.isnan(loss).any()` and `x.min() < 0`: computing it for no use does nothing, and cannot fail."""
    match node:
        case ast.Compare(left=left, comparators=[right]):
            return is_a_test(script, left) and is_a_test(script, right)
        case ast.UnaryOp(op=ast.USub() | ast.Not(), operand=operand):
            return is_a_test(script, operand)
        case ast.Call(func=ast.Attribute(attr=name, value=owner), args=given, keywords=[]):
            parts = given if script.dotted(owner) == "torch" else [owner, *given]
            return name in _TESTED and all(is_a_test(script, part) for part in parts)
        case ast.Name() | ast.Constant():
            return True
    return False


def suggested_name(node: ast.expr) -> str:
    """A name for what `node` computes."""
    match node:
        case ast.Attribute(attr=name):
            return name
        case ast.Call(func=func, args=[ast.Name(id=name)]):
            return f"{suggested_name(func)}_{name}"
        case ast.Call(func=func):
            return re.sub(r"^get_", "", suggested_name(func))
        case ast.Name(id=name):
            return name
        case ast.Subscript(slice=ast.Constant(value=str(key))) if key.isidentifier():
            return key
        case ast.Subscript(value=value):
            return suggested_name(value)
    return ""


def may_compute(script: Script, call: ast.Call, *, of_it: bool) -> bool:
    """True if `call` may compute later what it is given; `of_it`: it is a method of what comes later."""
    func = call.func
    if not isinstance(func, ast.Attribute):
        return (
            isinstance(func, ast.Name)
            and func.id in _PURE
            and not script.index.scope(call).find(func.id)
        )
    name, dotted = func.attr, script.dotted(func) or ""
    if name in {"format", "join"} and isinstance(func.value, ast.Constant):
        return True
    if dotted.startswith(("math.", "json.dumps")) or dotted in _MEANS:
        return True
    if name in {"isnan", "isinf", "isfinite"} and dotted.startswith(("torch.", "numpy.")):
        return True
    return of_it and (name in METHODS_OF_VALUES or name in _PARTS or name in _TESTS)


def number_around(script: Script, held: ast.expr) -> ast.Call | None:
    """`np.mean(losses[-9:])`, `sum(losses)`: the number that is computed of the list `held`."""
    node, parent = held, script.parent(held)
    if isinstance(parent, ast.Subscript) and isinstance(parent.slice, ast.Slice):
        node, parent = parent, script.parent(parent)
    match parent:
        case ast.Call(func=ast.Name(id=name) as func, args=[given], keywords=[]) if given is node:
            if name in _OF_LISTS and not script.index.scope(func).find(name):
                return parent
        case ast.Call(func=func, args=[given], keywords=[]) if given is node:
            return parent if script.dotted(func) in _MEANS else None
    return None
