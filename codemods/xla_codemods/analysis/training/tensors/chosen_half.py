"""float16 that a test for CUDA chooses: `torch.float16 if torch.cuda.is_available() else torch.float32`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from itertools import takewhile
from typing import NamedTuple, TypeAlias

from ....edits import Replace
from ....flow.closure import reach
from ....flow.conditions import whole
from ....flow.edges import sources
from ....patterns import Pattern
from ...nodes import FUNCTIONS, walk
from ...script import Script
from ...syntax import defaults, is_literal, name_of
from .kept_half import is_half, keeps_half

# Tests of a precision: float16 is an option then, or follows a tensor.
DECIDING = Pattern(r"dtype|float16|half|fp16|precision|bf16", re.IGNORECASE)
_TEXTS = {"float16": "bfloat16", "fp16": "bf16"}
_FLAG = Pattern(r"half|fp16|float16", re.IGNORECASE)
_AUTOCAST = frozenset({"autocast", "custom_fwd"})
Choice: TypeAlias = "ast.If | ast.IfExp"
_Flag: TypeAlias = "ast.Name | ast.Attribute"


class Chosen(NamedTuple):
    """The float16 values of a branch. `is_all`: the branches only choose precisions."""

    values: list[ast.expr]
    is_all: bool


def half_chosen_by(script: Script, test: ast.expr) -> list[ast.expr]:
    """Return the float16 values for CUDA, if all that `test` does is to choose them; none otherwise.

    A dtype that only autocast receives does not count: on XLA the runtime's autocast computes in bfloat16 then.
    """
    choice, is_positive = choice_by(script, test)
    if choice is None:
        return _indexed_by(script, test) or (
            half_chosen_by_flag(script, test) if is_positive else []
        )
    chosen = chosen_in(script, choice, test, is_positive)
    return chosen.values if chosen.is_all else []


def _indexed_by(script: Script, test: ast.expr) -> list[ast.expr]:
    """Return the float16 value of `{True: torch.float16, False: torch.float32}[test]`, and of a pair."""
    item = script.parent(test)
    if not isinstance(item, ast.Subscript) or item.slice is not test:
        return []
    found: list[ast.expr] = []
    owner, around = item.value, script.class_around(item)
    tables = [*reach([owner], lambda node: sources(script, node))]
    if isinstance(owner, ast.Attribute) and around is not None:
        attributes = script.inference.class_attributes(around).get(owner.attr, ())
        tables += [b.value for b, _ in attributes if b.value is not None]
    for table in tables:
        match table:
            case ast.Dict(keys=keys, values=values):
                found += [v for k, v in zip(keys, values) if getattr(k, "value", None) is True]
            case ast.Tuple(elts=[_, second]) | ast.List(elts=[_, second]):
                found.append(second)
    return [value for value in found if is_half(script, value)]


def half_chosen_by_flag(script: Script, test: ast.expr) -> list[ast.expr]:
    """Return the float16 values that `half = device.type != "cpu"` chooses, if all uses of `half` only choose them."""
    flag = _flag_set_by(script, test)
    values: list[ast.expr] = []
    for use in _uses(script, flag) if flag is not None else ():
        choice, is_positive = choice_by(script, use)
        if choice is not None and is_positive:
            on = [choice.body] if isinstance(choice, ast.IfExp) else choice.body
            values += [half for part in on for half in _halves(script, part)]
        elif not _passes_a_flag(script, use):
            return []
    return values


def sets_half_flag(script: Script, test: ast.expr) -> bool:
    """Return True for `use_fp16 = <test>`, unless autocast receives the flag, and on XLA computes in bfloat16.

    Also for `run(half=<test>)`, and for the default of a parameter or a field.
    """
    joined = [*takewhile(lambda part: isinstance(part, ast.BoolOp), script.ancestors(test))]
    value = joined[-1] if joined else test
    uses: Iterable[ast.expr] = ()
    match script.parent(value):
        case ast.Assign(targets=[(ast.Name() | ast.Attribute()) as flag]):
            name, uses = name_of(flag), _uses(script, flag)
        case ast.AnnAssign(target=target):
            name = name_of(target)
        case ast.Return():
            name = getattr(script.function(test), "name", "")
        case ast.keyword(arg=str(name)):
            pass
        case ast.arguments() as arguments:
            named = (arg.arg for arg, default in defaults(arguments) if default is value)
            name, function = next(named, ""), script.parent(arguments)
            uses = (
                script.index.names_below(function, name) if isinstance(function, FUNCTIONS) else ()
            )
        case _:
            return False
    calls = (script.parent(script.parent(use) or use) for use in uses)
    return _FLAG.search(name) is not None and not any(map(_calls_autocast, calls))


def _uses(script: Script, flag: _Flag) -> Iterator[_Flag]:
    """Yield the reads of `flag` outside the statement that sets it; of `self.half`, those in its class."""
    statement = script.statement(flag)
    for use in _names(script, flag):
        parent = script.parent(use)
        is_called = isinstance(parent, ast.Call) and parent.func is use
        if isinstance(use.ctx, ast.Load) and not is_called and script.statement(use) != statement:
            yield use


def _names(script: Script, flag: _Flag) -> list[_Flag]:
    if isinstance(flag, ast.Attribute):
        around = script.class_around(flag)
        same = [node for node in script.index.spelled(flag) if isinstance(node, ast.Attribute)]
        return [node for node in same if script.class_around(node) is around]
    return [] if script.is_imported_elsewhere(flag.id) else [*script.index.same(flag)]


def _passes_a_flag(script: Script, use: _Flag) -> bool:
    """Return True for `run(half=half)`, and False for `autocast(enabled=half)`."""
    argument = script.parent(use)
    return isinstance(argument, ast.keyword) and _FLAG.search(argument.arg or "") is not None


def _flag_set_by(script: Script, test: ast.expr) -> _Flag | None:
    """Return `half` of `half = wanted and <test>`, `self.half = <test>` and `half &= <test>`."""
    for child, ancestor in script.upward(test):
        match ancestor:
            case ast.BoolOp(op=ast.And()):
                continue
            case (
                ast.Assign(targets=[(ast.Name() | ast.Attribute()) as flag])
                | ast.AugAssign(target=(ast.Name() | ast.Attribute()) as flag, op=ast.BitAnd())
            ):
                name = flag.id if isinstance(flag, ast.Name) else flag.attr
                is_value = child is ancestor.value
                return flag if is_value and _FLAG.search(name) is not None else None
        break
    return None


def bfloat16_instead(script: Script, values: list[ast.expr]) -> list[Replace]:
    """Return the edits that turn float16 `values` into bfloat16."""
    return [_bfloat16_for(script, value) for value in values]


def _bfloat16_for(script: Script, value: ast.expr) -> Replace:
    converted = converted_to_half(value)
    if converted is not None:
        return Replace(value, "{0}.bfloat16()", (converted,))
    return Replace(value, _bfloat16(script, value))


def choice_by(script: Script, test: ast.expr) -> tuple[Choice | None, bool]:
    """Return the `if` that `test` decides, and whether its body is for CUDA."""
    condition = whole(script, test)
    choice = script.parent(condition)
    within = takewhile(lambda around: around is not choice, script.ancestors(test))
    nots = [around for around in within if isinstance(getattr(around, "op", None), ast.Not)]
    is_positive = _denies(test) is (len(nots) % 2 == 1)
    decides = isinstance(choice, (ast.If, ast.IfExp)) and choice.test is condition
    return (choice if decides else None), is_positive  # type: ignore[return-value]


def _denies(test: ast.expr) -> bool:
    match test:
        case ast.Compare(ops=[op], comparators=[right], left=left):
            is_no = isinstance(op, (ast.NotEq, ast.NotIn, ast.IsNot))
            of_host = any(is_literal(part, "cpu") for part in (left, right))
            return is_no is not of_host
    return False


def chosen_in(script: Script, choice: Choice, test: ast.expr, is_positive: bool) -> Chosen:
    """Return the float16 values of the branch of `choice` for which `test` holds, if the other branch has none.

    A test for a precision chooses nothing, and what follows the type of a tensor is no choice.
    """
    if DECIDING.search(script.segment(test)) or _is_option(script, choice.test):
        return Chosen([], is_all=False)
    on, off = branches(script, choice)[:: 1 if is_positive else -1]
    values = [half for part in on for half in _halves(script, part)]
    if not values or has_half(script, off):
        return Chosen([], is_all=False)
    return Chosen(values, all(_is_precision(script, part) for part in (*on, *off)))


def _is_option(script: Script, test: ast.expr) -> bool:
    """Return True if `test` follows the type of a tensor, or tests a precision or another option."""
    asks_or = any(isinstance(n, ast.BoolOp) and isinstance(n.op, ast.Or) for n in walk(test))
    text = script.segment(test)
    return ".dtype" in text or (asks_or and DECIDING.search(text) is not None)


def has_half(script: Script, branch: list[ast.AST]) -> bool:
    """Return True if a branch assigns, returns or is a float16 value."""
    return any(True for part in branch for _ in _halves(script, part))


def branches(script: Script, choice: Choice) -> tuple[list[ast.AST], list[ast.AST]]:
    """Return both branches; for `if not cuda: return torch.float32` the second one is the statement below."""
    if isinstance(choice, ast.IfExp):
        return [choice.body], [choice.orelse]
    below: list[ast.AST] = [*choice.orelse]
    if not below and isinstance(choice.body[-1], ast.Return):
        block = script.block(choice)
        below = [*block[block.index(choice) + 1 :][:1]]
    return [*choice.body], below


def _halves(script: Script, part: ast.AST) -> Iterator[ast.expr]:
    """Yield the float16 values that a branch assigns, returns or is."""
    match part:
        case ast.Assign(value=value) | ast.AnnAssign(value=ast.expr() as value):
            target = part.targets[0] if isinstance(part, ast.Assign) else part.target
            values = list(_values(script, value))
            yield from values if values and not _only_autocast(script, target) else ()
        case ast.Return(value=ast.expr() as value) | ast.Expr(value=value):
            yield from _values(script, value)
        case ast.expr() if not _is_for_autocast(script, part):
            yield from _values(script, part)


def _values(script: Script, value: ast.expr) -> Iterator[ast.expr]:
    if isinstance(value, (ast.Tuple, ast.List)):
        for element in value.elts:
            yield from _values(script, element)
    elif (
        is_half(script, value)
        or (_is_half_text(value) and _says_a_dtype(script, value))
        or (converted_to_half(value) is not None and not keeps_half(script, value))
    ):
        yield value


def converted_to_half(value: ast.expr) -> ast.expr | None:
    """Return `model` of `model.half()`."""
    match value:
        case ast.Call(func=ast.Attribute(value=owner, attr="half"), args=[], keywords=[]):
            return owner
    return None


def _is_other_text(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and value.value in {
        "float32",
        "fp32",
        "bfloat16",
        "bf16",
    }


def _is_half_text(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and value.value in _TEXTS


def _says_a_dtype(script: Script, value: ast.expr) -> bool:
    """Return True in `precision = "fp16" if ...` and `torch_dtype="float16" if ...`, not in `variant="fp16" if ...`."""
    for ancestor in script.ancestors(value):
        match ancestor:
            case ast.IfExp(body=body, orelse=other) if any(map(_is_other_text, (body, other))):
                return True
            case ast.keyword(arg=str(name)):
                return DECIDING.search(name) is not None
            case ast.Assign(targets=[target, *_]):
                return DECIDING.search(ast.unparse(target)) is not None
            case ast.stmt() | ast.Call() | ast.Tuple():
                return False
    return False


def _bfloat16(script: Script, value: ast.expr) -> str:
    if isinstance(value, ast.Constant):
        return f'"{_TEXTS[str(value.value)]}"'
    return script.spell("torch.bfloat16", script.index.scope(value))


def _is_precision(script: Script, part: ast.AST) -> bool:
    """Return True if a branch is, assigns or returns one value that names a precision."""
    match part:
        case (
            ast.Assign(value=value) | ast.Return(value=ast.expr() as value) | ast.Expr(value=value)
        ):
            return _is_precision(script, value)
        case ast.Call(
            func=ast.Attribute(value=owner, attr="half" | "float" | "bfloat16"),
            args=[],
            keywords=[],
        ):
            return not isinstance(owner, ast.Call)  # `x.cuda().half()` also moves the tensor
        case ast.Constant(value=str() | None):
            return True
        case ast.Name() | ast.Attribute():
            return True
    return False


def _is_for_autocast(script: Script, value: ast.expr) -> bool:
    """Return True if the choice that `value` is a branch of is an argument of autocast, or named by what autocast receives."""
    for ancestor in script.ancestors(value):
        match ancestor:
            case ast.IfExp():
                continue
            case ast.keyword():
                return _calls_autocast(script.parent(ancestor))
            case ast.Assign(targets=[target]):
                return _only_autocast(script, target)
        return False
    return False


def _only_autocast(script: Script, target: ast.expr) -> bool:
    """Return True if `target` is only compared, and passed to autocast."""
    if not isinstance(target, ast.Name) or script.is_imported_elsewhere(target.id):
        return False
    uses = [script.parent(name) for name in script.index.reads(target)]
    return bool(uses) and all(
        isinstance(use, ast.Compare)
        or (isinstance(use, ast.keyword) and _calls_autocast(script.parent(use)))
        for use in uses
    )


def _calls_autocast(call: ast.AST | None) -> bool:
    return isinstance(call, ast.Call) and name_of(call.func) in _AUTOCAST
