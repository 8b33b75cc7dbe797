"""Numbers and texts that are computed later: which functions may run later, and what they raise."""

from __future__ import annotations

import ast
import re
from functools import partial
from itertools import pairwise

from ....flow.closure import all_ends
from ....flow.edges import sources
from ....patterns import Pattern
from ...inference.values import ARRAY, TENSOR
from ...nodes import CALLABLES, LOOPS, walk
from ...script import Script
from ...syntax import caught, is_elif, name_of, text_of
from ..tensors.device_tensors import is_device_tensor
from .formatted import is_text
from .functions import is_tried

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
_TESTING = (
    *(ast.Name, ast.Constant, ast.Attribute, ast.Compare, ast.UnaryOp),
    *(ast.expr_context, ast.cmpop, ast.unaryop),
)
_EXTREMES = frozenset({"max", "min"})
_OF_MATH = frozenset("exp log log10 log1p log2 sqrt".split())
_OF_ALL = frozenset({"BaseException", "Exception"})
# Errors of arithmetic and formatting.
_RAISED = frozenset(
    "ArithmeticError FloatingPointError OverflowError TypeError ValueError ZeroDivisionError".split()
)


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


def is_test_of_tensors(node: ast.expr) -> bool:
    """Return True for `torch.isnan(loss).any()` and `x.min() < 0`, which cannot fail."""
    return all(
        isinstance(n, _TESTING) or (isinstance(n, ast.Call) and name_of(n.func) in _TESTED)
        for n in walk(node)
    )


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


def label_of(script: Script, node: ast.expr) -> str:
    """A name for `node` by what it is shown as: `sps` of `writer.add_scalar("charts/SPS", node, step)`."""
    match script.parent(node):
        case ast.keyword(arg=str(name)):
            return name
        case ast.Call(args=args):
            label = next((before for before, value in pairwise(args) if value is node), None)
        case ast.Dict(keys=keys, values=values):
            pairs = zip(keys, values, strict=True)
            label = next((key for key, value in pairs if value is node), None)
        case _:
            return ""
    text = text_of(label) or ""
    name = text.rpartition("/")[2].strip(" :=").replace(" ", "_").lower()
    return name if name.isidentifier() else ""


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


def is_function_of_numbers(script: Script, call: ast.Call) -> bool:
    """Return True for `min(best, value)`, `math.exp(value)`, `round(value, 4)`.

    False if an exception of the call is caught.
    """
    if call.keywords or any(isinstance(a, ast.Starred) for a in call.args):
        return False
    match call.func:
        case ast.Name(id=name) if script.index.scope(call).find(name) is None:
            if name in _EXTREMES:
                return len(call.args) > 1
            never_fails = name in {"abs", "float"} or (name == "round" and len(call.args) == 2)
            if never_fails:
                return len(call.args) in (1, 2)
            return name in {"int", "round"} and len(call.args) == 1 and not is_tried(script, call)
    library, _, name = (script.dotted(call.func) or "").partition(".")
    return library in {"math", "numpy"} and name in _OF_MATH and not is_tried(script, call)


def is_caught(script: Script, node: ast.AST) -> bool:
    """Return True if the function of `node` continues after an error of arithmetic in it.

    A handler of everything around the loop ends the training, whatever has failed.
    """
    kinds = _RAISED | _OF_ALL
    for child, ancestor in script.upward(node):
        if isinstance(ancestor, CALLABLES):
            return False
        if isinstance(ancestor, LOOPS):
            kinds = _RAISED
        if isinstance(ancestor, ast.Try) and child in ancestor.body:
            if any(not kinds.isdisjoint(caught(handler)) for handler in ancestor.handlers):
                return True
        if isinstance(ancestor, (ast.With, ast.AsyncWith)) and child in ancestor.body:
            if any("suppress" in ast.unparse(item.context_expr) for item in ancestor.items):
                return True
    return False


def is_of_tensors(script: Script, other: ast.expr) -> bool:
    """Return True if a number that is computed with `other` becomes a tensor or array."""
    value = script.value(other)
    if all_ends([other], partial(sources, script), _is_called_a_count):
        return False  # with a tensor, the deferred number waits: the result is the same
    return value.has(TENSOR) or value.has(ARRAY) or is_device_tensor(script, other)


def _is_called_a_count(node: ast.expr) -> bool:
    """Return True for `data.num_graphs`, `graph.num_nodes()` and `batch["n_tokens"]`."""
    match node:
        case ast.Call(func=func, args=[]):
            node = func
        case ast.Subscript(slice=ast.Constant(value=str(key))):
            return _COUNT.search(key) is not None
    return isinstance(node, ast.Attribute) and _COUNT.search(node.attr) is not None


def kept_extreme(script: Script, test: ast.Compare) -> tuple[ast.If, str, ast.expr] | None:
    """Return the statement, its replacement and the new value for `if value > best: best = value`.

    The replacement is the same for values that are not numbers (nan).
    """
    statement = script.parent(test)
    match statement:
        case ast.If(
            test=ast.Compare(left=left, ops=[ast.Gt() | ast.Lt() as op], comparators=[right]),
            body=[ast.Assign(targets=[ast.Name(id=kept)], value=value)],
            orelse=[],
        ):
            pass
        case _:
            return None
    sides = [ast.unparse(left), ast.unparse(right)]
    new = ast.unparse(value)
    name = "max" if isinstance(op, ast.Gt) == (sides[0] == new) else "min"
    if (
        is_elif(statement, script.parents)
        or sorted(sides) != sorted([kept, new])
        or kept == new
        or not _is_fixed(value)
    ):
        return None
    if script.index.scope(statement).find(name) is not None:
        return None
    return statement, f"{kept} = {script.xla}.computed({name}, {kept}, {{0}})", value


def _is_fixed(value: ast.expr) -> bool:
    """Return True for `value` and `loss.item()`, which give the same if evaluated twice."""
    match value:
        case ast.Call(func=ast.Attribute(attr="item", value=ast.Name()), args=[], keywords=[]):
            return True
    return isinstance(value, ast.Name)


_COUNT = Pattern(r"^(?:n|num)_|_(?:count|len|size)$")
_TO_TEXT = frozenset({"ascii", "format", "repr", "str"})
_OF_NUMBERS = frozenset({"abs", "float", "int", "max", "min", "round"})
_OF_TEXTS = frozenset({"center", "ljust", "rjust"})
_PARTS_OF_TEXT = frozenset({"items", "values"})
_LISTED = (ast.Tuple, ast.List, ast.ListComp, ast.GeneratorExp, ast.comprehension)


def text_around(script: Script, node: ast.AST) -> ast.expr | None:
    """Return the largest text in the statement that contains `node`; None if the result is not a text."""
    found: ast.expr | None = None
    child, is_one = node, False  # whether `child` is a text
    while (parent := script.parent(child)) is not None:
        made = _makes_text(script, parent, child, is_one)
        if made is None:
            break
        child, is_one = parent, made
        if is_one and isinstance(parent, (ast.expr, ast.JoinedStr)):
            found = parent
    return found


def _makes_text(script: Script, parent: ast.AST, child: ast.AST, is_one: bool) -> bool | None:
    """True if `parent` makes a text of `child`, which is one or not; False for a part of one; None if it does more."""
    match parent:
        case ast.JoinedStr():
            return True
        case ast.FormattedValue() | ast.keyword():
            return False
        case ast.BinOp(op=ast.Mod(), left=left) if child is not left and is_text(left):
            return True
        case ast.BinOp(op=ast.Add()) if is_one:
            return True
        case ast.BinOp() | ast.UnaryOp(op=ast.USub() | ast.UAdd()) if not is_one:
            return False
        case ast.IfExp(test=test, body=body, orelse=other):
            return is_one if child is not test else is_text(body) and is_text(other)
        case ast.Compare() | ast.BoolOp() | ast.UnaryOp(op=ast.Not()):
            return False  # asked by such a test
        case ast.Attribute(attr=name):
            grandparent = script.parent(parent)
            is_called = isinstance(grandparent, ast.Call) and grandparent.func is parent
            known = name in _OF_TEXTS if is_one else name in _PARTS_OF_TEXT | METHODS_OF_VALUES
            return is_one if is_called and known else None
        case ast.Call(func=func) if child is func:
            return is_one
        case ast.Call(func=ast.Attribute(attr="format" | "join", value=ast.Constant(value=str()))):
            return True
        case ast.Call(func=ast.Name(id=name) as func) if not script.index.scope(func).find(name):
            return True if name in _TO_TEXT else (False if name in _OF_NUMBERS else None)
        case ast.Call(func=ast.Attribute() as func):
            return False if (script.dotted(func) or "").startswith("math.") else None
    return False if isinstance(parent, _LISTED) else None


def is_printed(script: Script, node: ast.AST) -> bool:
    """`print(message)`, `f"{message}"`, which take a deferred text like any object."""
    match script.parent(node):
        case ast.FormattedValue():
            return True
        case ast.Call(func=ast.Name(id="print") as func, args=args):
            return node in args and script.index.scope(func).find("print") is None
    return False
