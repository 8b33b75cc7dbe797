"""float16 that a test for CUDA chooses: `torch.float16 if torch.cuda.is_available() else torch.float32`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from ....edits import Replace
from ....patterns import Pattern
from ...devices.availability import asks_availability
from ...inference.library_types import RUNTIME
from ...nodes import walk
from .half_precision import is_half

if TYPE_CHECKING:
    from ...script import Script

# Tests that ask for a precision: float16 is an option then, or follows a tensor.
DECIDING = Pattern(r"dtype|float16|half|fp16|precision|bf16", re.IGNORECASE)
_TEXTS = {"float16": "bfloat16", "fp16": "bf16"}
_AUTOCAST = frozenset({"autocast", "custom_fwd"})
_Choice: TypeAlias = "ast.If | ast.IfExp"


class Chosen(NamedTuple):
    """The float16 values of a branch. `is_all`: the branches only choose precisions."""

    values: list[ast.expr]
    is_all: bool


def half_chosen_by(script: Script, test: ast.expr) -> list[ast.expr]:
    """Return the float16 values for CUDA, if all that `test` does is to choose them; none otherwise.

    A dtype that only autocast receives does not count: on XLA the runtime's autocast computes in bfloat16 then.
    """
    choice, is_positive = _choice(script, test)
    if choice is None:
        return []
    chosen = _chosen(script, choice, is_positive)
    return chosen.values if chosen.is_all else []


def bfloat16_instead(script: Script, values: list[ast.expr]) -> list[Replace]:
    """Return the edits that turn float16 `values` into bfloat16."""
    return [Replace(value, _bfloat16(script, value)) for value in values]


def half_on_accelerators(script: Script) -> Iterator[ast.expr]:
    """Yield float16 values that a test for the device chooses on XLA, too, after the rewrite."""
    choices: list[_Choice] = [choice for choice, _ in script.index.of(ast.If)]
    choices += [choice for choice, _ in script.index.of(ast.IfExp)]
    for choice in choices:
        for test, is_positive in _questions(script, choice.test):
            chosen = _chosen(script, choice, is_positive)
            if not (chosen.is_all and _is_about_cuda(script, test)):
                yield from chosen.values
            break


def _choice(script: Script, test: ast.expr) -> tuple[_Choice | None, bool]:
    """Return the `if` that `test` decides, and whether its body is for CUDA."""
    is_positive = not _denies(test)
    child: ast.AST = test
    for ancestor in script.ancestors(test):
        match ancestor:
            case ast.UnaryOp(op=ast.Not()):
                is_positive = not is_positive
            case ast.BoolOp():
                pass
            case ast.If() | ast.IfExp() if child is ancestor.test:
                return ancestor, is_positive
            case _:
                break
        child = ancestor
    return None, is_positive


def _denies(test: ast.expr) -> bool:
    match test:
        case ast.Compare(ops=[op], comparators=[right], left=left):
            is_no = isinstance(op, (ast.NotEq, ast.NotIn, ast.IsNot))
            of_host = any(_is_text(part, "cpu") for part in (left, right))
            return is_no is not of_host
    return False


def _is_text(node: ast.expr, text: str) -> bool:
    return isinstance(node, ast.Constant) and node.value == text


def _chosen(script: Script, choice: _Choice, is_positive: bool) -> Chosen:
    if DECIDING.search(script.segment(choice.test)):
        return Chosen([], is_all=False)
    branches = _branches(script, choice)
    on, off = branches if is_positive else branches[::-1]
    values = [half for part in on for half in _halves(script, part)]
    if not values or any(True for part in off for _ in _halves(script, part)):
        return Chosen([], is_all=False)
    return Chosen(values, all(_is_precision(script, part) for part in (*on, *off)))


def _branches(script: Script, choice: _Choice) -> tuple[list[ast.AST], list[ast.AST]]:
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
            if not _only_autocast(script, target):
                yield from _values(script, value)
        case ast.Return(value=ast.expr() as value):
            yield from _values(script, value)
        case ast.expr() if not _is_for_autocast(script, part):
            yield from _values(script, part)


def _values(script: Script, value: ast.expr) -> Iterator[ast.expr]:
    if isinstance(value, (ast.Tuple, ast.List)):
        for element in value.elts:
            yield from _values(script, element)
    elif is_half(script, value) or (_is_half_text(value) and _says_a_dtype(script, value)):
        yield value


def _is_half_text(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and value.value in _TEXTS


def _says_a_dtype(script: Script, value: ast.expr) -> bool:
    """Return True in `precision = "fp16" if ...` and `torch_dtype="float16" if ...`, not in `variant="fp16" if ...`."""
    for ancestor in script.ancestors(value):
        match ancestor:
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
        case ast.Assign(value=value) | ast.Return(value=ast.expr() as value):
            return _is_precision(script, value)
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
                call = script.parent(ancestor)
                return isinstance(call, ast.Call) and _is_autocast(call)
            case ast.Assign(targets=[target]):
                return _only_autocast(script, target)
        return False
    return False


def _is_autocast(call: ast.Call) -> bool:
    func = call.func
    return getattr(func, "attr", getattr(func, "id", "")) in _AUTOCAST


def _only_autocast(script: Script, target: ast.expr) -> bool:
    """Return True if `target` is only compared, and passed to autocast."""
    if not isinstance(target, ast.Name) or script.is_imported_elsewhere(target.id):
        return False
    found = script.index.scope(target).find(target.id)
    names = script.index.names_of(found[0], target.id) if found is not None else []
    uses = [script.parent(name) for name, _ in names if isinstance(name.ctx, ast.Load)]
    return bool(uses) and all(
        isinstance(use, ast.Compare)
        or (isinstance(use, ast.keyword) and _calls_autocast(script.parent(use)))
        for use in uses
    )


def _calls_autocast(call: ast.AST | None) -> bool:
    return isinstance(call, ast.Call) and _is_autocast(call)


def _questions(script: Script, condition: ast.expr) -> Iterator[tuple[ast.expr, bool]]:
    """Yield the parts of a condition that ask for an accelerator, and whether they hold on one."""
    for part in walk(condition):
        is_asked = False
        match part:
            case ast.Compare(left=left, comparators=[right]):
                words = [w for w in (left, right) if _is_text(w, "cpu") or _is_text(w, "cuda")]
                others = [other for other in (left, right) if other not in words]
                is_asked = bool(words) and any(_is_device(script, other) for other in others)
            case ast.Call(func=func) if (script.dotted(func) or "").startswith(RUNTIME):
                is_asked = ast.unparse(func).endswith((".is_available", ".is_accelerator"))
            case ast.Call() | ast.Name() if isinstance(part, ast.expr):
                is_asked = asks_availability(script, part)
            case ast.Attribute(attr="is_cuda"):
                is_asked = True
        if is_asked and isinstance(part, ast.expr):
            yield part, _choice(script, part)[1]


def _is_device(script: Script, node: ast.expr) -> bool:
    match node:
        case ast.Attribute(value=owner, attr="type"):
            node = owner
        case ast.Call(func=ast.Name(id="str"), args=[inner]):
            node = inner
    return script.devices.is_device(node)


def _is_about_cuda(script: Script, test: ast.expr) -> bool:
    """Return True if the test is False on XLA as it is written, so that its own rule reports it."""
    match test:
        case ast.Attribute():
            return True
        case ast.Compare():
            return not any(_is_text(part, "cpu") for part in (test.left, *test.comparators))
        case ast.Call(func=func):
            return not (script.dotted(func) or "").startswith(RUNTIME)
    return False
