"""A tensor that grows by one in every turn, so that each turn is a separate graph."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import takewhile

from ....flow.calls import calls_by_name, outer_calls
from ....flow.closure import ends, reach
from ....flow.conditions import conditions
from ....flow.edges import unpacked, uses
from ....patterns import Pattern
from ...inference.values import ACCEL, HOST
from ...nodes import LOOPS, walk
from ...once import once
from ...script import Script
from ...syntax import identifiers, name_of
from ..acting import is_part_of_a_step
from ..host_reads.fetching import reads_in_turns
from ..tensors.device_tensors import may_be_read
from ..training import FORWARD, MARK, TRAINING

_JOINING = frozenset(
    {"torch.cat", "torch.concat", "torch.concatenate", "torch.hstack", "torch.vstack"}
)
_OF_LISTS = _JOINING | {"torch.stack"}
_EMPTYING = frozenset({"clear", "pop", "popleft"})
_STORES = (ast.Attribute, ast.Name, ast.Subscript)
_PAST = Pattern(r"(?:^|_)(?:past|kv_cache|cache|incremental_state)")
_COUNTING = frozenset({"range", "trange", "count"})
_NAMES = sorted(name.rpartition(".")[2] for name in _JOINING)


def growing_tensors(script: Script) -> Iterator[ast.Call]:
    """`ids = torch.cat((ids, token), dim=1)` in loops that run a model."""
    for call in _joins(script):
        loop = script.training.loop_of(call)
        if loop is not None and _grown(script, script.parent(call)) is call:
            runs_a_model = bool(loop.effects & {*TRAINING, FORWARD})
            if runs_a_model and _is_on_device(script, call):
                if not _is_settled(script, call, loop.node):
                    yield call


def growing_lists(script: Script) -> Iterator[ast.Call]:
    """`torch.stack(tokens)` in the loop that appends to `tokens`."""
    names = (name.rpartition(".")[2] for name in sorted(_OF_LISTS))
    for name in names if script.runs_accelerated else ():
        for call, _ in script.index.calls_of(name):
            loop, several = script.training.loop_of(call), next(iter(call.args), None)
            if loop is None or not isinstance(several, ast.Name):
                continue
            if script.dotted(call.func) in _OF_LISTS and loop.effects & {*TRAINING, FORWARD}:
                if _grows_in(script, several, loop.node) and not _is_of_one_step(script, call):
                    yield call


def _grows_in(script: Script, several: ast.Name, loop: ast.AST) -> bool:
    """Return True if each turn of `loop` appends a tensor to the list `several`, and none empties or replaces it."""
    values = [binding.whole for binding in script.reaching(several)]
    lists = [value for value in values if isinstance(value, ast.List)]
    if not lists or len(lists) < len(values):
        return False
    if any(loop in script.ancestors(binding.node) for binding in script.bindings(several)):
        return False
    methods = (script.parent(use) for use in script.index.same(several))
    around = (script.parent(method) for method in methods if isinstance(method, ast.Attribute))
    calls = [call for call in around if isinstance(call, ast.Call)]
    inside = [call for call in calls if loop in script.ancestors(call)]
    if any(name_of(call.func) in _EMPTYING for call in inside):
        return False
    growing = (c for c in inside if name_of(c.func) == "append")
    if not any(_is_in_each_turn(script, node, loop) for node in growing):
        return False
    parts = [*(e for each in lists for e in each.elts), *(a for c in calls for a in c.args)]
    is_there = any(may_be_read(script, part) for part in parts)
    return is_there and _is_in_each_turn(script, several, loop)


def _is_in_each_turn(script: Script, node: ast.AST, loop: ast.AST) -> bool:
    """Return True if no condition and no inner loop decides how often `node` runs in a turn of `loop`."""
    inside = takewhile(lambda around: around is not loop, script.ancestors(node))
    return not any(isinstance(around, (ast.If, ast.IfExp, *LOOPS)) for around in inside)


def growing_caches(script: Script) -> Iterator[ast.Call]:
    """`k = torch.cat([cache["k"], k])` in a model that a loop samples from."""
    if _sampling_loops(script):
        for call in _joins(script):
            if _is_kept_between_calls(script, call) and _is_on_device(script, call):
                yield call


def _joins(script: Script) -> Iterator[ast.Call]:
    """Yield the calls that join a list or tuple of tensors."""
    for name in _NAMES if script.runs_accelerated else ():
        for call, _ in script.index.calls_of(name):
            if call.args and isinstance(call.args[0], (ast.List, ast.Tuple)):
                if script.dotted(call.func) in _JOINING:
                    yield call


def _is_settled(script: Script, call: ast.Call, loop: ast.AST) -> bool:
    """Return True if the tensor does not grow in each turn of `loop`, or the turns are one graph."""
    is_one_size = _is_made_anew(script, call, loop) or _is_once(script, call, loop)
    return is_one_size or _is_of_one_step(script, call)


def _is_kept_between_calls(script: Script, call: ast.Call) -> bool:
    """Return True if the result is joined again in the next call: as an entry, an attribute or a returned value."""
    loop, parts = script.training.loop_of(call), call.args[0]
    assert isinstance(parts, (ast.List, ast.Tuple))
    if loop is not None and _grown(script, script.parent(call)) is call:
        return False
    if script.is_in_a_module(call) and any(_is_a_past(script, part) for part in parts.elts[:1]):
        return True
    joined: set[ast.expr] = {part for part in parts.elts if isinstance(part, _STORES)}
    start: list[ast.expr] = [call]
    reached = reach(start, lambda node: _next(script, node), joined.__contains__)
    if joined.isdisjoint(reached):
        return False
    if script.is_in_a_module(call):  # `layer(x, cache)`, whose calls are not found by name
        return True
    sampling = _sampling_loops(script)
    around = reach([call], lambda node: outer_calls(script, node))
    return any(ancestor in sampling for node in around for ancestor in script.ancestors(node))


def _is_a_past(script: Script, node: ast.expr) -> bool:
    """Return True for `past_key` of `past_key, past_value = layer_past`, a parameter with the keys of earlier calls."""

    def whole(part: ast.expr) -> list[ast.expr]:
        bindings = script.reaching(part) if isinstance(part, ast.Name) else []
        taken = [part.value] if isinstance(part, (ast.Attribute, ast.Subscript)) else []
        return [*taken, *(b.value for b in bindings if b.how == "assign" and b.value is not None)]

    return any(
        isinstance(end, ast.Name)
        and _PAST.search(end.id) is not None
        and all(binding.how == "parameter" for binding in script.reaching(end))
        for end in ends([node], whole)
    )


def _next(script: Script, node: ast.expr) -> Iterator[ast.expr]:
    """Yield the expressions that have the value of `node`, also as a part of what its function returns."""
    yield from uses(script, node)
    several = script.parent(node)
    if isinstance(several, ast.Tuple) and isinstance(script.parent(several), ast.Return):
        place = (several.elts.index(node),)
        function = script.function(node)
        for call in calls_by_name(script, function) if function is not None else ():
            yield from (read for read, path in unpacked(script, call) if path == place)


@once
def _sampling_loops(script: Script) -> frozenset[ast.AST]:
    """Return the loops without gradients that count, and not over data: `for _ in range(max_new_tokens)`."""
    found = (loop.node for loop in script.training.loops if not loop.fed)
    return frozenset(
        node
        for node in found
        if isinstance(node, ast.While)
        or (isinstance(node, ast.For) and name_of(getattr(node.iter, "func", None)) in _COUNTING)
        if script.training.is_inference(node)
    )


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
    for test, needed in conditions(script, call, refusals=False):
        match test:
            case ast.Compare(left=left, ops=[ast.Eq()], comparators=[right]) if needed:
                is_counted = any(getattr(side, "id", "") in counted for side in (left, right))
                if is_counted and loop in script.ancestors(test):
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
