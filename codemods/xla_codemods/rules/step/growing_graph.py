"""A sum of losses that are not detached holds the graph of every step.

`total += loss` keeps, for as long as `total` lives, what backward would need of each step: memory grows with the epoch,
on XLA as on CUDA (xla-facts 3.33). Where `loss.backward()` has been called in the step and nobody calls it on the sum,
nothing is lost by detaching:

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

The same goes for `losses.append(loss)`. A sum that backward is called on is the loss itself:

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
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...edits import Replace
from ...findings import WARNING, Finding
from ...rule import Rule
from .device_tensors import losses
from .running_sums import part
from .turns import turns

if TYPE_CHECKING:
    from ...script import Script

RULE = Rule("XLA505", "growing-graph", severity=WARNING)

_MESSAGE = "holds the graph of every step"


@RULE.whole
def growing_graph(script: Script) -> Iterator[Finding]:
    if not script.trains:
        return
    seen: set[ast.AST] = set()
    for turn in turns(script):
        backwarded = _backwarded_in(script, turn.node)
        if not backwarded:
            continue
        for statement in _statements(turn.body):
            loss = _kept_loss(statement)
            if loss is None or statement in seen or ast.unparse(loss) not in backwarded:
                continue
            seen.add(statement)
            if _outlives(script, statement, turn.node):
                yield RULE.at(script, statement, _MESSAGE, Replace(loss, "{0}.detach()", (loss,)))


def _statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    for statement in body:
        yield statement
        for block in ("body", "orelse"):
            if not isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
                yield from _statements(getattr(statement, block, []))


def _kept_loss(statement: ast.stmt) -> ast.expr | None:
    """The loss of `total += loss`, `total = total + loss`, `losses.append(loss)`, as it is written there."""
    match statement:
        case ast.AugAssign(op=ast.Add(), value=ast.Name() | ast.Attribute() as value):
            return value
        case ast.AugAssign(
            op=ast.Add(), value=ast.BinOp(op=ast.Mult() | ast.Div(), left=ast.Name() as left)
        ):
            return left
        case ast.Assign(
            targets=[target], value=ast.BinOp(left=left, op=ast.Add(), right=ast.Name() as right)
        ) if ast.unparse(target) == ast.unparse(left):
            return right
        case ast.Expr(
            value=ast.Call(func=ast.Attribute(attr="append"), args=[ast.Name() as value])
        ):
            return value
    return None


def _kept_in(statement: ast.stmt) -> ast.expr | None:
    match statement:
        case ast.AugAssign(target=target) | ast.Assign(targets=[target]):
            return target
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=owner))):
            return owner
    return None


def _outlives(script: Script, statement: ast.stmt, turn: ast.AST) -> bool:
    """Whether what the loss is kept in is made before the loop, and no backward is ever called on it."""
    kept = _kept_in(statement)
    if isinstance(kept, ast.Attribute):
        return _is_kept_in_an_object(script, kept)
    if not isinstance(kept, ast.Name) or not isinstance(turn, (ast.For, ast.AsyncFor, ast.While)):
        return False
    if any(kept.id in _names(loss) for loss in losses(script)):
        return False
    found = script.index.scope(kept).find(kept.id)
    if found is None:
        return False
    first = [b for b in found[1] if b.how == "assign" and b.node is not statement]
    return (
        bool(first)
        and all(_is_empty(part(b)) for b in first)
        and (
            first[0].node.lineno < turn.lineno  # type: ignore[attr-defined]
        )
    )


def _is_kept_in_an_object(script: Script, kept: ast.Attribute) -> bool:
    """Whether `kept` is an attribute that a local class makes empty, and no backward is ever called on it."""
    if any(f".{kept.attr}" in ast.unparse(loss) for loss in losses(script)):
        return False
    definition = script.value(kept.value).definition
    if not isinstance(definition, ast.ClassDef):
        return False
    found = script.inference.class_attributes(definition).get(kept.attr, [])
    return bool(found) and all(_is_empty(part(binding)) for binding, _ in found)


def _is_empty(node: ast.expr | None) -> bool:
    """0, 0.0, []."""
    match node:
        case ast.Constant(value=0):
            return True
        case ast.List(elts=[]) | ast.Call(func=ast.Name(id="list"), args=[]):
            return True
    return False


def _backwarded_in(script: Script, node: ast.AST) -> set[str]:
    """What `backward` is called on, once, in the loop `node`."""
    found: set[str] = set()
    for loss in losses(script):
        call = next(
            a
            for a in script.ancestors(loss)
            if isinstance(a, ast.Call) and (_is_backward(a) or script.is_scaling_step(a))
        )
        if any(k.arg == "retain_graph" for k in call.keywords):
            continue
        if isinstance(loss, (ast.Name, ast.Attribute)) and node in script.ancestors(loss):
            found.add(ast.unparse(loss))
    return found


def _is_backward(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and call.func.attr == "backward"


def _names(node: ast.expr) -> set[str]:
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
