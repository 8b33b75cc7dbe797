"""A tensor that grows by one in every turn, so that each turn is a separate graph."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...inference.values import ACCEL, HOST
from ...nodes import walk
from ...script import Script
from ...syntax import identifiers
from ..acting import is_part_of_a_step
from ..host_reads.fetching import reads_in_turns
from ..tensors.device_tensors import may_be_read
from ..training import FORWARD, MARK, TRAINING

_JOINING = frozenset(
    {"torch.cat", "torch.concat", "torch.concatenate", "torch.hstack", "torch.vstack"}
)
_NAMES = sorted(name.rpartition(".")[2] for name in _JOINING)


def growing_tensors(script: Script) -> Iterator[ast.Call]:
    """`ids = torch.cat((ids, token), dim=1)` in loops that run a model."""
    if not script.runs_accelerated:
        return
    for name in _NAMES:
        for call, _ in script.index.calls_of(name):
            if _grown(script, script.parent(call)) is call:
                loop = script.training.loop_of(call)
                if loop is not None and loop.effects & {*TRAINING, FORWARD}:
                    settled = _is_made_anew(script, call, loop.node) or _is_once(
                        script, call, loop.node
                    )
                    if (
                        _is_on_device(script, call)
                        and not settled
                        and not _is_of_one_step(script, call)
                    ):
                        yield call


def _is_of_one_step(script: Script, call: ast.Call) -> bool:
    """Return True if all turns of the loop are part of one graph, the same in each step.

    In a module's own `forward`, and in a loop of so many turns whose outcome is differentiated behind it.
    """
    function = script.function(call)
    if function is not None and function.name == "forward" and script.is_in_a_module(function):
        return True
    loop = script.training.loop_of(call)
    return (
        loop is not None
        and isinstance(loop.node, ast.For)
        and not loop.effects & {*TRAINING, MARK}
        and not script.training.is_inference(loop.node)
        and is_part_of_a_step(script, loop)
        and not any(loop.node in script.ancestors(read.node) for read in reads_in_turns(script))
    )


def _is_once(script: Script, call: ast.Call, loop: ast.AST) -> bool:
    """True if it is done in one turn: `if index == self.start:`, of what the loop counts."""
    counted = identifiers(loop.target) if isinstance(loop, ast.For) else set()
    for child, around in script.upward(call):
        if around is loop:
            return False
        if isinstance(around, ast.If) and child in around.body:
            match around.test:
                case ast.Compare(left=left, ops=[ast.Eq()], comparators=[right]):
                    if any(isinstance(n, ast.Name) and n.id in counted for n in (left, right)):
                        return True
    return False


def _is_made_anew(script: Script, call: ast.Call, loop: ast.AST) -> bool:
    """True if what grows is another tensor in each turn, or is brought to one size: padded, or cut again."""
    statement = script.parent(call)
    assert isinstance(statement, ast.Assign)
    assert isinstance(statement.targets[0], ast.Name)
    name = statement.targets[0].id
    found = script.index.scope(call).find(name)
    for binding in found[1] if found else ():
        node = binding.node
        if binding.how == "for" and node is loop:
            return True
        if not isinstance(node, ast.stmt) or loop not in script.ancestors(node):
            continue
        if binding.how != "assign" or binding.value is None or node is statement:
            continue
        if isinstance(binding.value, ast.Subscript) and identifiers(binding.value.value) == {name}:
            return node.lineno > statement.lineno  # cut again: `ids = ids[:, -length:]`
        if name not in identifiers(binding.value) and script.parent(node) is loop:
            return True
    return _is_padding(call, name)


def _is_padding(call: ast.Call, name: str) -> bool:
    """`torch.cat([x, zeros(length - x.shape[1])])`: as much as is missing."""
    return any(
        isinstance(part, ast.BinOp)
        and isinstance(part.op, ast.Sub)
        and name in identifiers(part.right)
        and name not in identifiers(part.left)
        for part in walk(call)
    )


def _grown(script: Script, statement: ast.AST | None) -> ast.Call | None:
    """The call in `x = torch.cat([x, ...])`."""
    match statement:
        case ast.Assign(
            targets=[ast.Name(id=name)],
            value=ast.Call(args=[ast.Tuple(elts=parts) | ast.List(elts=parts), *_]) as call,
        ) if len(parts) > 1 and any(isinstance(p, ast.Name) and p.id == name for p in parts):
            return call if script.dotted(call.func) in _JOINING else None
    return None


def _is_on_device(script: Script, call: ast.Call) -> bool:
    """By the value of a part; or by what a module does in its own loop, with what it is given."""
    parts = call.args[0]
    assert isinstance(parts, (ast.Tuple, ast.List))
    kinds = [script.value(part).kinds for part in parts.elts]
    if any(ACCEL in kind for kind in kinds):
        return True
    if any(HOST in kind for kind in kinds):
        return False
    return any(may_be_read(script, part) for part in parts.elts) or script.is_in_a_module(call)
