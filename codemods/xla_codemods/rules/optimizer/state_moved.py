"""Moving an optimizer's state to the device makes each step wait.

## What it reports

Loops that move the values of `optimizer.state` to the device.

## Why it matters on XLA

They also move the step counts to the device, which each step then reads, once for each parameter
(fact 3.28).

## What to do

Fix: safe.

Use `xla.move_state(optimizer)`. It keeps step counts on the CPU, as `load_state_dict` does.

## Example

```diff
 import torch
+from xla_migrate import runtime as xla

 def resume(optimizer, state):
     optimizer.load_state_dict(state)
-    for values in optimizer.state.values():
-        for key, value in values.items():
-            if isinstance(value, torch.Tensor):
-                values[key] = value.cuda()
+    xla.move_state(optimizer)
     optimizer.zero_grad()
```

Other loops over the state are not reported:

```python
def norms(optimizer):
    found = []
    for values in optimizer.state.values():
        found.append(values["exp_avg"].norm())
    return found
```
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...analysis.devices.specs import device_argument
from ...analysis.inference.values import DTYPE
from ...analysis.nodes import walk
from ...analysis.optimizers import is_optimizer
from ...analysis.scopes import Scope
from ...analysis.script import Script
from ...analysis.syntax import keyword
from ...edits import Edit, ReplaceStatement
from ...finding import LOW, WARNING, Finding
from ...rule import Rule

RULE = Rule("XLA308", "optimizer-state-moved", severity=WARNING, about="speed")


_MESSAGE = "the loop also moves the step counts to the device, from which every step reads them: use `xla.move_state`"


@RULE.node(ast.For)
def state_moved(script: Script, loop: ast.For, scope: Scope) -> Iterator[Finding]:
    owner = None if loop.orelse else _owner_of_state(loop.iter)
    if owner is None or not _only_moves(script, loop.body):
        return
    if is_optimizer(script, owner):
        yield RULE.finding(script, loop, _MESSAGE, *_moved(script, loop, owner))
    elif "optim" in ast.unparse(owner) and not script.value(owner).kinds and _is_of_dicts(loop):
        yield RULE.finding(script, loop, _MESSAGE, effort=LOW)


def _owner_of_state(node: ast.expr) -> ast.expr | None:
    """The `optimizer` of `optimizer.state.values()`, `optimizer.state.items()`, `optimizer.state`."""
    match node:
        case ast.Call(func=ast.Attribute(value=inner, attr="values" | "items"), args=[]):
            node = inner
    return node.value if isinstance(node, ast.Attribute) and node.attr == "state" else None


def _is_of_dicts(loop: ast.For) -> bool:
    """True if each state is a dict, as an optimizer's is: `for key, value in state.items(): state[key] = ...`."""
    states = {n.id for n in ast.walk(loop.target) if isinstance(n, ast.Name)}
    return any(
        isinstance(node, ast.For)
        and isinstance(node.iter, ast.Call)
        and isinstance(node.iter.func, ast.Attribute)
        and node.iter.func.attr == "items"
        and getattr(node.iter.func.value, "id", "") in states
        for node in ast.walk(loop)
    )


def _moved(script: Script, loop: ast.For, owner: ast.expr) -> Iterator[Edit]:
    """`xla.move_state(optimizer, device)`, where all goes to one place."""
    calls = [n.value for n in walk(loop) if isinstance(n, ast.Assign)]
    given = [device_argument(call) for call in calls if isinstance(call, ast.Call)]
    if len({ast.unparse(device) if device is not None else "" for device in given}) == 1:
        text, holes = script.devices.given(given[0])
        device = f", {text.replace('{0}', '{1}')}" if text else ""
        text = f"{script.xla}.move_state({{0}}{device})"
        yield ReplaceStatement(loop, text, (owner, *holes))


def _only_moves(script: Script, body: list[ast.stmt]) -> bool:
    """True if all that is done is `x = y.to(device)`, in any nest of loops and tests."""
    for statement in body:
        if isinstance(statement, (ast.For, ast.If)):
            if not _only_moves(script, statement.body) or not _only_moves(script, statement.orelse):
                return False
        elif isinstance(statement, ast.Assign):
            if not _is_move(script, statement.value):
                return False
        elif not isinstance(statement, ast.Pass):
            return False
    return True


def _is_move(script: Script, node: ast.expr) -> bool:
    match node:
        case ast.Call(func=ast.Attribute(attr="cuda")):
            return True
        case ast.Call(func=ast.Attribute(attr="to"), args=[device], keywords=[]):
            if script.value(device).has(DTYPE) or "type" in ast.unparse(device):
                return False
            dotted = script.dotted(device)
            return dotted is None or not dotted.startswith("torch.")
        case ast.Call(func=ast.Attribute(attr="to"), args=[]):
            return keyword(node, "device") is not None and keyword(node, "dtype") is None
    return False
