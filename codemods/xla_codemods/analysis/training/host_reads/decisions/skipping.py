"""Steps that a condition skips, decided by the device: `if torch.isfinite(norm): xla.optimizer_step(optimizer)`.

The step says where it is taken, `xla.optimizer_step(optimizer, where=torch.isfinite(norm))`. What stands beside it is done
whether it is taken or not, where that changes nothing (gradients that are zeroed before others come), or is asked for
alone: what is shown, what is summed up, what is done now and then.
"""

from __future__ import annotations

import ast
import tokenize
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from .....edits import AddArgument, Edit, InsertBefore, Replace, ReplaceStatement, Unwrap
from ....loops import DEFINITIONS
from ....nodes import walk
from ....optimizers import is_optimizer
from ....syntax import is_elif, keyword, unparsed
from ...tensors.device_tensors import is_device_tensor
from ..blocked import Blocked
from ..formatted import is_a_number
from ..sinks import is_shown_on_a_console
from .conditions_on_device import on_the_device, only_computes
from .summed import summed_where

if TYPE_CHECKING:
    from ....script import Script
    from ...training import Step

_CLIPPING = frozenset(
    f"torch.nn.utils.{name}" for name in ("clip_grad_norm_", "clip_grad_norm", "clip_grad_value_")
)
_LATER = "xla_migrate.runtime.later"
_MARK = "xla_migrate.runtime.mark_step"
_STEP = "xla_migrate.runtime.optimizer_step"


class Skip(NamedTuple):
    """`statement` decides whether `taken` is done, in which the optimizer steps, or `untaken`."""

    statement: ast.If
    taken: list[ast.stmt]
    untaken: list[ast.stmt]
    holds: bool  # `taken` is done where the condition holds
    is_behind: bool  # `taken` is what stands behind `statement`, which leaves the turn


class Untaken(NamedTuple):
    """What is done where no step is taken: what is shown, and what is counted."""

    shown: list[ast.stmt]
    counted: list[ast.stmt]


class Taken(NamedTuple):
    """The statements of a step, by what they do."""

    steps: list[Step]
    zeroes: list[ast.Call]
    backwards: list[ast.stmt]
    others: list[ast.stmt]


def skips_a_step(script: Script, statement: ast.AST) -> Skip | None:
    """What `statement` decides, if it is whether an optimizer steps that the migrated script steps already."""
    if not isinstance(statement, ast.If) or is_elif(statement, script.parents):
        return None
    body, orelse = statement.body, statement.orelse
    if isinstance(body[-1], ast.Continue) and not orelse:
        block = script.block(statement)
        loop = script.training.loop_of(statement)
        if loop is None or block is not getattr(loop.node, "body", None):
            return None
        behind = block[block.index(statement) + 1 :]
        found = Skip(statement, behind, body[:-1], False, True)
    elif _steps_in(script, body):
        found = Skip(statement, body, orelse, True, False)
    else:
        found = Skip(statement, orelse, body, False, False)
    steps = _steps_in(script, found.taken)
    return found if steps and all(_may_be_told(script, step.call) for step in steps) else None


def _may_be_told(script: Script, call: ast.Call) -> bool:
    return script.dotted(call.func) == _STEP and keyword(call, "where") is None


def skipped_on_the_device(script: Script, skip: Skip) -> tuple[Edit, ...]:
    """The edits by which the device decides; raises `Blocked` where what is done with the step cannot be left to it."""
    taken = _sorted(script, skip)
    _refuse_kept_gradients(script, skip, taken)
    untaken = _untaken(script, skip)
    test = skip.statement.test
    text = on_the_device(script, test, skip.holds)
    if text is None:
        raise Blocked(f"the device cannot be asked whether `{unparsed(test)}` holds")
    first = skip.taken[0] is script.statement(taken.steps[0].call)
    asks_parts = bool(untaken.shown) and isinstance(test, ast.BoolOp)
    before = []
    if len(taken.steps) > 1 or taken.others or untaken.counted or asks_parts or not first:
        name = _name(script, text)
        before.append(f"{name} = {text}")
        text = name
    edits = list(_without_condition(script, skip, untaken, text, before))
    edits += [AddArgument(step.call, f"where={text}") for step in taken.steps]
    for statement in taken.others:
        edits += _done_where(script, statement, text, skip)
    return tuple(edits)


def _steps_in(script: Script, block: Sequence[ast.stmt]) -> list[Step]:
    inside = {node for statement in block for node in walk(statement)}
    return [step for step in script.training.steps if step.call in inside]


def _sorted(script: Script, skip: Skip) -> Taken:
    """What the statements of the step do; raises `Blocked` where one does something else."""
    found = Taken([], [], [], [])
    steps = {step.call: step for step in _steps_in(script, skip.taken)}
    for statement in skip.taken:
        call = statement.value if isinstance(statement, (ast.Expr, ast.Assign)) else None
        if isinstance(call, ast.Call) and call in steps and _is_plain(statement, call):
            found.steps.append(steps.pop(call))
        elif isinstance(call, ast.Call) and _changes_gradients(script, skip, statement, call):
            if _is_zeroing(call):
                found.zeroes.append(call)
            elif _is_backward(script, call):
                found.backwards.append(statement)
        elif not isinstance(statement, ast.Pass):
            found.others.append(statement)
    if steps:
        line = next(iter(steps)).lineno
        raise Blocked(f"the step of line {line} is taken in some turns only")
    return found


def _is_plain(statement: ast.stmt, call: ast.Call) -> bool:
    """`xla.optimizer_step(optimizer)`, whose result nobody takes."""
    return (
        isinstance(statement, ast.Expr)
        and len(call.args) == 1
        and all(k.arg == "average" for k in call.keywords)
    )


def _changes_gradients(script: Script, skip: Skip, statement: ast.stmt, call: ast.Call) -> bool:
    """`loss.backward()`, `optimizer.zero_grad()`, clipping, a mark: what may be done where no step is taken."""
    dotted = script.dotted(call.func) or ""
    if dotted in _CLIPPING:
        if keyword(call, "error_if_nonfinite") is not None:
            return False
        return isinstance(statement, ast.Expr) or _is_used_here(script, skip, statement)
    if not isinstance(statement, ast.Expr):
        return False
    averages = dotted.endswith(".reduce_gradients") and dotted.startswith("xla_migrate.")
    return dotted == _MARK or averages or _is_zeroing(call) or _is_backward(script, call)


def _is_zeroing(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and call.func.attr == "zero_grad"


def _is_backward(script: Script, call: ast.Call) -> bool:
    is_called_so = isinstance(call.func, ast.Attribute) and call.func.attr == "backward"
    return is_called_so and script.training.is_backward(call)


def _is_used_here(script: Script, skip: Skip, statement: ast.stmt) -> bool:
    """True if the name that `statement` binds is read among what is done with the step alone."""
    match statement:
        case ast.Assign(targets=[ast.Name(id=name) as target]):
            inside = {node for s in skip.taken for node in walk(s)}
            scope = script.index.scope(target)
            is_own = scope is not script.module or not script.is_imported_elsewhere(name)
            return is_own and all(
                node in inside
                for node, inner in script.index.names(name)
                if inner.find(name) == scope.find(name)
            )
    return False


def _refuse_kept_gradients(script: Script, skip: Skip, taken: Taken) -> None:
    """Raises `Blocked` unless gradients of a step that is not taken are zeroed before the next ones are added to them."""
    untaken = [
        s.value for s in skip.untaken if isinstance(s, ast.Expr) and isinstance(s.value, ast.Call)
    ]
    untaken = [call for call in untaken if _is_zeroing(call)]
    if not (taken.backwards or taken.zeroes or untaken):
        return
    if taken.backwards and script.source.mentions("detect_anomaly"):
        raise Blocked("its backward pass, of what is not finite, would be an anomaly")
    calls = list(_zeroing_around(script, skip))
    if taken.backwards and set(_backwards_of_turn(script, skip)) <= set(taken.backwards):
        calls += taken.zeroes
    in_both = {unparsed(_owner(call)) for call in untaken}
    calls += [call for call in taken.zeroes if unparsed(_owner(call)) in in_both]
    zeroed = {unparsed(_owner(call)) for call in calls}
    models = {unparsed(o) for o in map(_owner, calls) if not is_optimizer(script, o)}
    steppers = {unparsed(step.stepped) for step in _steps_of_turn(script, skip)}
    if not (steppers <= zeroed or len(steppers) <= len(models)):
        raise Blocked("gradients of several turns are added up")


def _owner(call: ast.Call) -> ast.expr:
    assert isinstance(call.func, ast.Attribute)
    return call.func.value


def _zeroing_around(script: Script, skip: Skip) -> Iterator[ast.Call]:
    """Calls of `zero_grad` that are made whenever `statement` is come to, but for those in it and behind it."""
    statement: ast.stmt = skip.statement
    behind = set(skip.taken) if skip.is_behind else set()
    loop = script.training.loop_of(statement)
    while True:
        for other in script.block(statement):
            match other:
                case ast.Expr(value=ast.Call() as call) if other not in behind:
                    if _is_zeroing(call):
                        yield call
        parent = script.parent(statement)
        if parent is None or parent is (loop and loop.node) or isinstance(parent, DEFINITIONS):
            return
        statement = script.statement(parent)


def _turn(script: Script, skip: Skip) -> ast.AST:
    loop = script.training.loop_of(skip.statement)
    return loop.node if loop is not None else script.function(skip.statement) or script.tree


def _backwards_of_turn(script: Script, skip: Skip) -> Iterator[ast.stmt]:
    turn = _turn(script, skip)
    for call, _ in script.index.calls_of("backward"):
        if turn in script.ancestors(call):
            yield script.statement(call)


def _steps_of_turn(script: Script, skip: Skip) -> list[Step]:
    turn = _turn(script, skip)
    return [step for step in script.training.steps if turn in script.ancestors(step.call)]


def _untaken(script: Script, skip: Skip) -> Untaken:
    """What is done where no step is taken; raises `Blocked` where it is more than that."""
    found = Untaken([], [])
    for statement in skip.untaken:
        match statement:
            case ast.Pass():
                continue
            case ast.Expr(value=ast.Call() as call) if is_shown_on_a_console(script, call):
                _refuse_whole_tensors(script, call)
                found.shown.append(statement)
            case ast.Expr(value=ast.Call() as call) if _is_zeroing(call):
                continue
            case ast.AugAssign() if summed_where(script, statement, "finite"):
                found.counted.append(statement)
            case _:
                raise Blocked(f"`{_first_line(statement)}` is done where no step is taken")
    return found


def _refuse_whole_tensors(script: Script, call: ast.Call) -> None:
    """What shows a tensor as it is cannot be made later: the step would be waited for all the same."""
    for node in walk(call):
        if isinstance(node, ast.Name) and is_device_tensor(script, node):
            around = script.parents[node]
            if not isinstance(around, ast.Attribute) and not is_a_number(script, around, [node]):
                raise Blocked(f"`{node.id}`, a tensor, is shown as it is where no step is taken")


def _first_line(statement: ast.stmt) -> str:
    return ast.unparse(statement).partition("\n")[0]


def _name(script: Script, text: str) -> str:
    """A name for the condition that nothing else has."""
    name = "finite" if any(word in text for word in ("isfinite", "isnan", "isinf")) else "steps"
    while script.is_taken(name):
        name += "_"
    return name


def _without_condition(
    script: Script, skip: Skip, untaken: Untaken, text: str, before: list[str]
) -> Iterator[Edit]:
    """The edits after which `taken` is done always, and of `untaken` what is shown and counted, where `text` does not hold;
    and what is put `before` that.
    """
    statement, asked = skip.statement, skip.statement.test
    match asked:
        case ast.BoolOp():
            test = f"not {text}"
        case ast.UnaryOp(op=ast.Not(), operand=opposite) if skip.holds:
            test = script.segment(opposite)
        case _:
            test = f"not {script.segment(asked)}" if skip.holds else script.segment(asked)
    lines = [
        *_comments(script, skip, untaken),
        *before,
        *(_counted(script, s, f"(~{text})") for s in untaken.counted),
    ]
    if untaken.shown and not skip.is_behind:
        lines += [f"if {test}:", *(f"    {script.segment(s)}" for s in untaken.shown)]
    if lines:
        yield InsertBefore(statement, "\n".join(lines))
    if not skip.is_behind:
        yield Unwrap(statement, "body" if skip.holds else "orelse")
    elif not untaken.shown:
        yield ReplaceStatement(statement)
    else:
        if isinstance(asked, ast.BoolOp):
            yield Replace(asked, test)
        yield from (ReplaceStatement(s) for s in statement.body if s not in untaken.shown)


def _comments(script: Script, skip: Skip, untaken: Untaken) -> Iterator[str]:
    """Those that would go with `untaken`, and that of the condition."""
    statement, taken = skip.statement, skip.taken
    if skip.is_behind and untaken.shown:
        return
    kept = range(0)
    if not skip.is_behind:
        above = statement.lineno if skip.holds else statement.body[-1].end_lineno
        kept = range((above or 0) + 1, (taken[-1].end_lineno or 0) + 1)
    lines = script.source.lines[statement.lineno - 1 : statement.end_lineno]
    for token in tokenize.generate_tokens(iter(lines).__next__):
        line = statement.lineno - 1 + token.start[0]
        if token.type == tokenize.COMMENT and line not in kept:
            yield token.string


def _counted(script: Script, statement: ast.stmt, condition: str) -> str:
    """`skipped += 1` as the device counts it."""
    assert isinstance(statement, ast.AugAssign)
    edit = summed_where(script, statement, condition)
    assert edit is not None
    value = edit.text.format(*map(script.segment, edit.holes))
    return f"{script.segment(statement.target)} += {value}"


def _done_where(script: Script, statement: ast.stmt, condition: str, skip: Skip) -> Iterator[Edit]:
    """`statement`, which is no part of the step, under the condition alone."""
    match statement:
        case ast.Expr(value=ast.Call(func=func, args=[ast.Lambda() as made, *_])) if (
            script.dotted(func) == _LATER
        ):
            yield _made_where(script, made, condition)
            return
        case ast.Expr(value=ast.Call() as call) if is_shown_on_a_console(script, call):
            yield ReplaceStatement(statement, f"if {condition}:\n    {script.segment(statement)}")
            return
        case ast.If(test=test, orelse=[]) if _is_occasional(test):
            yield Replace(test, f"{{0}} and {condition}", (test,))
            return
        case ast.Assign(value=value) if _is_used_here(script, skip, statement):
            if only_computes(script, value):
                return
    if edit := summed_where(script, statement, condition):
        yield edit
        return
    raise Blocked(f"`{_first_line(statement)}` is done with it")


def _made_where(script: Script, made: ast.Lambda, condition: str) -> Edit:
    """`xla.later(lambda loss=loss: print(loss.item()))`, where the condition holds."""
    given = ast.unparse(made.args)
    bound = f"{given}, {condition}={condition}" if given else f"{condition}={condition}"
    return Replace(made, f"lambda {bound}: {{0}} if {condition} else None", (made.body,))


def _is_occasional(test: ast.expr) -> bool:
    """`step % 100 == 0`, `(i + 1) % n == 0`, `i % n == 0 and rank == 0`."""
    if isinstance(test, ast.BoolOp):
        return isinstance(test.op, ast.And) and any(map(_is_occasional, test.values))
    return isinstance(test, ast.Compare) and any(
        isinstance(n, ast.BinOp) and isinstance(n.op, ast.Mod) for n in walk(test)
    )
