"""Functions of deferred numbers, and functions of this file that take such numbers."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from ....flow.edges import argument, callers
from ...inference.values import ARRAY, CLASS, INSTANCE, MODULE, NUMBER
from ...nodes import walk
from ...syntax import parameter_for

if TYPE_CHECKING:
    from ...scopes import FunctionNode
    from ...script import Script

_CHANGING = frozenset({ARRAY, INSTANCE, MODULE})
_EXTREMES = frozenset({"max", "min"})
_OF_ONE = frozenset({"abs", "float", "int", "round"})
_OF_MATH = frozenset("exp log log10 log1p log2 sqrt".split())


def is_function_of_numbers(script: Script, call: ast.Call) -> bool:
    """`min(best, value)`, `math.exp(value)`, `round(value, 4)`: not if an exception of the call is caught."""
    if call.keywords or any(isinstance(a, ast.Starred) for a in call.args):
        return False
    func = call.func
    if isinstance(func, ast.Name) and script.index.scope(call).find(func.id) is None:
        if func.id in _EXTREMES:
            return len(call.args) > 1
        known = func.id in _OF_ONE and len(call.args) in (1, 2)
        return known and (_never_fails(call) or not is_tried(script, call))
    if is_tried(script, call):
        return False
    return is_of_a_library(script, func) or _is_a_formula(script, func)


def _never_fails(call: ast.Call) -> bool:
    """`float(value)`, `abs(value)`, `round(value, 3)`, whatever the number is; `int(nan)` raises, and `round(nan)`."""
    match call.func:
        case ast.Name(id="abs" | "float"):
            return True
        case ast.Name(id="round"):
            return len(call.args) == 2
    return False


def is_of_a_library(script: Script, func: ast.expr) -> bool:
    """`math.exp`, `np.log10`: of one number."""
    library, _, name = (script.dotted(func) or "").partition(".")
    return library in {"math", "numpy"} and name in _OF_MATH


def is_of_constants(script: Script, node: ast.expr) -> bool:
    """`np.log(10.0)`, which is one number."""
    return isinstance(node, ast.Call) and _is_computed_of(script, node, set())


def _is_a_formula(script: Script, func: ast.expr) -> bool:
    """`psnr`, which is `lambda mse: -10 * np.log10(mse)`, of what it is given alone."""
    match [binding.value for binding in script.bindings(func)]:
        case [ast.Lambda(args=ast.arguments(args=given, defaults=[], vararg=None), body=body)]:
            return _is_computed_of(script, body, {argument.arg for argument in given})
    return False


def _is_computed_of(script: Script, node: ast.expr, names: set[str]) -> bool:
    match node:
        case ast.BinOp(left=left, right=right):
            return all(_is_computed_of(script, part, names) for part in (left, right))
        case ast.UnaryOp(operand=operand):
            return _is_computed_of(script, operand, names)
        case ast.Call(func=func, args=[given], keywords=[]):
            return is_of_a_library(script, func) and _is_computed_of(script, given, names)
        case ast.Name(id=name):
            return name in names
    return isinstance(node, ast.Constant)


def is_tried(script: Script, node: ast.AST) -> bool:
    """Return True if an exception at `node` may be caught in its function."""
    for ancestor in script.ancestors(node):
        if isinstance(ancestor, (ast.FunctionDef, ast.AsyncFunctionDef)):
            return False
        if isinstance(ancestor, ast.Try):
            return True
    return False


# What arithmetic and formatting raise.
_RAISED = frozenset(
    "ArithmeticError BaseException Exception FloatingPointError OverflowError TypeError ValueError ZeroDivisionError".split()
)
_OF_ALL = frozenset({"BaseException", "Exception"})
_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


def is_caught(script: Script, node: ast.AST) -> bool:
    """True if the function that `node` stands in goes on where arithmetic fails in it: `except ZeroDivisionError`.

    What catches everything, around the loop, ends the training whatever has failed.
    """
    below, kinds = node, _RAISED
    for ancestor in script.ancestors(node):
        if isinstance(ancestor, _FUNCTIONS):
            return False
        if isinstance(ancestor, _LOOPS):
            kinds = _RAISED - _OF_ALL
        if isinstance(ancestor, ast.Try) and below in ancestor.body:
            if any(_catches(handler, kinds) for handler in ancestor.handlers):
                return True
        if isinstance(ancestor, (ast.With, ast.AsyncWith)) and below in ancestor.body:
            if any("suppress" in ast.unparse(item.context_expr) for item in ancestor.items):
                return True
        below = ancestor
    return False


def _catches(handler: ast.ExceptHandler, kinds: frozenset[str]) -> bool:
    caught = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    every = "Exception" in kinds
    return any(every if kind is None else getattr(kind, "id", "") in kinds for kind in caught)


def is_property(function: FunctionNode) -> bool:
    return any(isinstance(d, ast.Name) and d.id == "property" for d in function.decorator_list)


class Extreme(NamedTuple):
    """`if value > best: best = value`, which is `best = max(best, value)`, also for values that are not numbers (nan)."""

    statement: ast.If
    function: str
    target: ast.Name
    value: ast.expr
    sign: str  # new < kept
    beside: tuple[ast.Assign, ...] = ()  # `best_step = step`


def extreme(script: Script, test: ast.Compare) -> Extreme | None:
    """The statement whose condition `test` is, if it keeps an extreme: of a name, or of `loss.item()`, asked for twice."""
    statement = script.parent(test)
    match statement:
        case ast.If(
            test=ast.Compare(
                left=left,
                ops=[ast.Gt() | ast.Lt() | ast.GtE() | ast.LtE() as op],
                comparators=[right],
            ),
            orelse=[],
        ):
            pass
        case _:
            return None
    parent = script.parent(statement)
    if isinstance(parent, ast.If) and statement in parent.orelse:
        return None  # elif
    sides = [ast.unparse(left), ast.unparse(right)]
    found = _kept_of(statement.body, sides)
    if found is None:
        return None
    target, value, beside = found
    if not all(script.value(s.value).has(NUMBER) for s in beside):
        return None
    grows = isinstance(op, (ast.Gt, ast.GtE)) == (sides[0] == ast.unparse(value))
    sign = (">" if grows else "<") + ("=" if isinstance(op, (ast.GtE, ast.LtE)) else "")
    if len(sign) == 2:  # of equal ones the last, which may be another 0
        kept = f"lambda kept, new: new if new {sign} kept else kept"
        return Extreme(statement, kept, target, value, sign, beside)
    name = "max" if grows else "min"
    if script.index.scope(statement).find(name) is not None:
        return None
    return Extreme(statement, name, target, value, sign, beside)


def _kept_of(
    body: list[ast.stmt], sides: list[str]
) -> tuple[ast.Name, ast.expr, tuple[ast.Assign, ...]] | None:
    """Return `best = value` of the two compared sides, and other assignments if it holds: `best_step = step`."""
    kept: list[tuple[ast.Name, ast.expr]] = []
    beside: list[ast.Assign] = []
    names: list[str] = []
    for statement in body:
        match statement:
            case ast.Assign(targets=[ast.Name() as target], value=value):
                names.append(target.id)
            case _:
                return None
        if sorted(sides) == sorted([target.id, ast.unparse(value)]):
            kept.append((target, value))
        elif isinstance(value, (ast.Name, ast.Constant)):
            beside.append(statement)
        else:
            return None
    if len(kept) != 1 or len(set(names)) < len(names):
        return None
    target, value = kept[0]
    read = {s.value.id for s in beside if isinstance(s.value, ast.Name)}
    if target.id == ast.unparse(value) or not _is_kept(value):
        return None
    if beside and (not isinstance(value, ast.Name) or read & set(names) or value.id in names):
        return None
    return target, value, tuple(beside)


def _is_kept(value: ast.expr) -> bool:
    """`value`, `loss.item()`: the same if evaluated twice."""
    match value:
        case ast.Call(func=ast.Attribute(attr="item", value=ast.Name()), args=[], keywords=[]):
            return True
    return isinstance(value, ast.Name)


def takes_values(script: Script, function: FunctionNode, name: str) -> bool:
    """Return True if all visible calls of `function` give its parameter `name` an immutable value."""
    if script.is_imported_elsewhere(function.name):
        return False
    given = (argument(script, name, function, call) for call in callers(script, function))
    return not any(value and script.value(value).kinds & _CHANGING for value in given)


def parameter(script: Script, call: ast.Call, node: ast.AST) -> tuple[FunctionNode, str] | None:
    """The function of this file that `call` calls, and the parameter that takes the argument `node`."""
    function = called_function(script, call)
    if function is None:
        return None
    is_method = isinstance(script.parent(function), ast.ClassDef)
    of_class = isinstance(call.func, ast.Attribute) and script.value(call.func.value).has(CLASS)
    name = parameter_for(node, function, call, skip_self=is_method and not of_class)
    return (function, name) if name is not None else None


def keywords_of(script: Script, call: ast.Call, node: ast.AST) -> tuple[FunctionNode, str] | None:
    """The function, and its `**stats`, if that takes the argument `node`: `loss=node`, or a dict, `**node`."""
    function = called_function(script, call)
    if function is None or function.args.kwarg is None or parameter(script, call, node):
        return None
    is_passed = any(given.value is node for given in call.keywords)
    return (function, function.args.kwarg.arg) if is_passed else None


def called_function(script: Script, call: ast.Call) -> FunctionNode | None:
    """The function or method of this file that `call` calls, if it only does what its body says."""
    function = script.function_of(call.func)
    if not isinstance(function, ast.FunctionDef) or function.decorator_list:
        return None
    yields = any(isinstance(n, (ast.Yield, ast.YieldFrom)) for n in walk(function))
    return None if yields or any(isinstance(a, ast.Starred) for a in call.args) else function
