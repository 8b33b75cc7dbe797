"""A sum of losses that are not detached keeps the autograd graph of each step.

## What it reports

`total += loss` and `losses.append(loss)` in a training loop, if the loss has a graph and the sum
lives longer than the step.

## Why it matters on XLA

Memory grows through the epoch, on XLA as on CUDA, because the sum keeps everything that a
backward pass would need.

## What to do

Fix: safe.

Detach the loss. The fix is made if `loss.backward()` was called in the step and no backward pass
uses the sum.

## Example

```diff
 import torch
 from torch.utils.data import DataLoader
+from xla_migrate import runtime as xla

 def train(model, dataset, optimizer, device):
     total = 0
-    for x in DataLoader(dataset):
+    for x in xla.MpDeviceLoader(DataLoader(dataset)):
         x = x.to(device)
         loss = model(x).mean()
         optimizer.zero_grad()
         loss.backward()
-        optimizer.step()
+        xla.optimizer_step(optimizer)
-        total += loss
+        total += loss.detach()
     return total / len(dataset)
```

A sum on which `backward` is called is the loss itself. It is not reported:

```python
import torch
from xla_migrate import runtime as xla

def accumulate(model, windows, optimizer):
    loss = torch.zeros((), device=xla.xla_device())
    for window in windows:
        loss += model(window).mean()
    loss.backward()
    xla.optimizer_step(optimizer)
    xla.mark_step()
```

A number that has the name of the loss holds no graph:

```python
from xla_migrate import runtime as xla

def train(model, loader, optimizer):
    total = 0.0
    for x in xla.MpDeviceLoader(loader):
        loss = model(x).mean()
        loss.backward()
        xla.optimizer_step(optimizer)
        xla.mark_step()
        loss = xla.item(loss)
        total += loss
    return xla.arrived(total)
```

A sum that is reset after each optimizer step is not reported, because it holds only the batches
of that step:

```python
from xla_migrate import runtime as xla

def train(model, loader, optimizer):
    total = 0
    for i, x in enumerate(xla.MpDeviceLoader(loader)):
        loss = model(x).mean()
        total += loss
        loss.backward()
        if i % 4 == 3:
            if model.training:
                xla.optimizer_step(optimizer)
                xla.mark_step()
            optimizer.zero_grad()
            print(total.item())  # XLA503
            total = 0
```
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...analysis.nodes import LOOPS
from ...analysis.optimizers import is_scaling_step
from ...analysis.script import Script
from ...analysis.syntax import identifiers, unparsed
from ...analysis.training.tensors.beside_losses import is_computed_beside
from ...analysis.training.tensors.losses import losses
from ...analysis.training.turns import turns
from ...edits import Replace
from ...finding import WARNING, Finding
from ...rule import Rule
from ...symptoms import LIKELY

RULE = Rule(
    "XLA505",
    "growing-graph",
    of_what_runs=True,
    severity=WARNING,
    behind={"bounded graph": LIKELY},
)

_MESSAGE = "the sum keeps the autograd graph of every step in memory: add `loss.detach()`"


@RULE.file
def growing_graph(script: Script) -> Iterator[Finding]:
    if not script.trains:
        return
    seen: set[ast.AST] = set()
    for turn in turns(script):
        backwarded = script.cached(_backwarded).get(turn.node)
        if not backwarded:
            continue
        for statement in _statements(turn.body):
            kept = [
                part
                for part in _kept_losses(statement)
                if unparsed(part) in backwarded or is_computed_beside(script, part)
                if not _is_rebound_to_a_number(script, part)
            ]
            if not kept or statement in seen:
                continue
            seen.add(statement)
            if any(_may_be_differentiated_later(script, loss, turn.node) for loss in kept):
                continue
            if _outlives(script, statement, turn.node) and not _starts_anew_with_the_step(
                script, statement
            ):
                edits = [Replace(loss, "{0}.detach()", (loss,)) for loss in kept]
                yield RULE.finding(script, statement, _MESSAGE, *edits)


def _statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    for statement in body:
        yield statement
        for block in ("body", "orelse"):
            if not isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
                yield from _statements(getattr(statement, block, []))


def _kept_losses(statement: ast.stmt) -> list[ast.expr]:
    """What may be the losses of `total += loss`, `mean = 0.9 * mean + 0.1 * loss`, `losses.append(loss)`."""
    match statement:
        case ast.AugAssign(op=ast.Add(), value=ast.List(elts=values)):
            return values
        case ast.AugAssign(op=ast.Add(), value=value):
            return _scaled(value)
        case ast.Assign(targets=[target], value=ast.IfExp(body=body, orelse=orelse)):
            parts = [_added_to(target, part) for part in (body, orelse)]
            if any(parts):
                return [n for part in (body, orelse) for n in _added_to(target, part) or [part]]
        case ast.Assign(targets=[target], value=value):
            return _added_to(target, value)
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr="append"), args=[ast.Tuple() as row])):
            return row.elts
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr="append"), args=[value])):
            return _scaled(value)
    return []


def _added_to(target: ast.expr, value: ast.expr) -> list[ast.expr]:
    """The `loss` of `total + loss`, and of `0.9 * total + 0.1 * loss`, where `target` is `total`."""
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Add):
        text = unparsed(target)
        for kept, added in ((value.left, value.right), (value.right, value.left)):
            if text in [unparsed(part) for part in _scaled(kept)]:
                return _scaled(added)
    return []


def _scaled(node: ast.expr) -> list[ast.expr]:
    """`loss`, also times or by something."""
    match node:
        case ast.Name() | ast.Attribute() | ast.Subscript():
            return [node]
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            return [*_scaled(left), *_scaled(right)]
        case ast.BinOp(left=left, op=ast.Div()):
            return _scaled(left)
    return []


def _kept_in(statement: ast.stmt) -> ast.expr | None:
    match statement:
        case ast.AugAssign(target=target) | ast.Assign(targets=[target]):
            return target
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Subscript(value=owner)))):
            return owner  # losses["train"].append(loss)
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=owner))):
            return owner
    return None


def _outlives(script: Script, statement: ast.stmt, turn: ast.AST) -> bool:
    """True if what the loss is kept in is made before the loop, and no backward is ever called on it."""
    kept = _kept_in(statement)
    if isinstance(kept, ast.Attribute):
        return _is_kept_in_an_object(script, kept, statement)
    if not isinstance(kept, ast.Name) or not isinstance(turn, LOOPS):
        return False
    if any(kept.id in identifiers(loss) for loss in losses(script)):
        return False
    found = script.index.scope(kept).find(kept.id)
    if found is None:
        return False
    first = [b for b in found[1] if b.how == "assign" and b.node is not statement]
    return (
        bool(first)
        and any(_is_empty(b.part) for b in first)
        and all(_is_empty(b.part) or _is_read(b.part) for b in first)
        and (
            first[0].node.lineno < turn.lineno  # type: ignore[attr-defined]
        )
    )


def _may_be_differentiated_later(script: Script, kept: ast.expr, turn: ast.AST) -> bool:
    """True if the loss `kept` is on some ways not differentiated in `turn`, which takes no step: who gets it may do so.

    `if now: loss.backward()`, and then `losses.append(loss)`.
    """
    text = unparsed(kept)
    backwards = [loss for loss in losses(script) if turn in script.ancestors(loss)]
    own = [loss for loss in backwards if unparsed(loss) == text]
    around = set(script.ancestors(kept))
    tests = [{a for a in script.ancestors(loss) if isinstance(a, ast.If)} - around for loss in own]
    steps = any(turn in script.ancestors(step.call) for step in script.training.steps)
    within = [{a for a in found if turn in script.ancestors(a)} for found in tests]
    return bool(own) and all(within) and not steps


def _starts_anew_with_the_step(script: Script, statement: ast.stmt) -> bool:
    """True if it is emptied behind each optimizer step: then it holds the losses of the batches of one step."""
    kept = _kept_in(statement)
    text = unparsed(kept) if kept is not None else ""
    return any(
        isinstance(other, ast.Assign)
        and any(unparsed(t) == text for t in other.targets)
        and _is_empty(other.value)
        for step in script.training.steps
        for other in _around(script, step.call)
    )


def _around(script: Script, step: ast.Call) -> Iterator[ast.stmt]:
    """The statements of the blocks that hold `step`, up to its loop."""
    statement = script.statement(step)
    while not isinstance(statement, (ast.For, ast.AsyncFor, ast.While, ast.FunctionDef)):
        yield from script.block(statement)
        parent = script.parent(statement)
        if not isinstance(parent, ast.stmt):
            return
        statement = parent


def _is_kept_in_an_object(script: Script, kept: ast.Attribute, statement: ast.stmt) -> bool:
    """True if `kept` is an attribute that a local class makes empty, and no backward is ever called on it."""
    if any(f".{kept.attr}" in unparsed(loss) for loss in losses(script)):
        return False
    definition = script.value(kept.value).definition
    if not isinstance(definition, ast.ClassDef):
        return False
    found = script.inference.class_attributes(definition).get(kept.attr, [])
    made = [binding for binding, _ in found if binding.node is not statement]
    return bool(made) and all(_is_empty(binding.part) for binding in made)


def _is_rebound_to_a_number(script: Script, part: ast.expr) -> bool:
    """True if `loss = loss.item()` is what `part` sees of the name on which `backward` was called."""
    return isinstance(part, ast.Name) and all(
        _is_read(binding.part) for binding in script.reaching(part)
    )


def _is_read(node: ast.expr | None) -> bool:
    """`float(total) / n`, `total.item()`, `loss.detach()`: what holds no graph."""
    match node:
        case ast.BinOp(left=inner) | ast.Subscript(value=inner):
            return _is_read(inner)
        case ast.Call(func=ast.Name(id="float" | "int" | "round"), args=[_, *_]):
            return True
        case ast.Call(func=ast.Attribute(attr="item" | "detach" | "numpy" | "tolist")):
            return True
    return False


def _is_empty(node: ast.expr | None) -> bool:
    """0, 0.0, None, [], and dicts of empty lists."""
    match node:
        case ast.Constant(value=0 | None):
            return True
        case ast.List(elts=[]) | ast.Call(func=ast.Name(id="list"), args=[]):
            return True
        case ast.Dict(values=values):
            return bool(values) and all(_is_empty(value) for value in values)
        case ast.Call(
            func=ast.Name(id="defaultdict" | "deque") | ast.Attribute(attr="defaultdict" | "deque")
        ):
            return True
    return False


def _backwarded(script: Script) -> dict[ast.AST, set[str]]:
    """Return, for each node around a call of `backward`, the losses without `retain_graph`."""
    found: dict[ast.AST, set[str]] = {}
    for loss in losses(script):
        call = next(
            a
            for a in script.ancestors(loss)
            if isinstance(a, ast.Call) and (_is_backward(a) or is_scaling_step(script, a))
        )
        if any(k.arg == "retain_graph" for k in call.keywords):
            continue
        if isinstance(loss, (ast.Name, ast.Attribute)):
            for node in script.ancestors(loss):
                found.setdefault(node, set()).add(unparsed(loss))
    return found


def _is_backward(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and call.func.attr == "backward"
