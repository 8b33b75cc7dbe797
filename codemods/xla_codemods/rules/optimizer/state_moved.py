"""Moving an optimizer's state by hand makes every step wait.

`load_state_dict` puts the state on the device of its parameters, and leaves the step counts on the CPU. Moved along by
hand they are read back from the device at every step, one for each parameter (fact 3.28).

```diff
 import torch

 def resume(optimizer, state):
     optimizer.load_state_dict(state)
-    for values in optimizer.state.values():
-        for key, value in values.items():
-            if isinstance(value, torch.Tensor):
-                values[key] = value.cuda()
     optimizer.zero_grad()
```

Loops that do anything else with the state stay.

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
from typing import TYPE_CHECKING

from ...analysis.optimizers import is_optimizer
from ...edits import remove
from ...finding import LOW, WARNING, Finding
from ...rule import Rule

if TYPE_CHECKING:
    from ...analysis.scopes import Scope
    from ...analysis.script import Script

RULE = Rule("XLA308", "optimizer-state-moved", severity=WARNING, about="speed")


_MESSAGE = "this moves the step counts to the device too, which are then read back in every step: leave them on the CPU"


@RULE.node(ast.For)
def state_moved(script: Script, loop: ast.For, scope: Scope) -> Iterator[Finding]:
    owner = None if loop.orelse else _owner_of_state(loop.iter)
    if owner is None or not _only_moves(loop.body):
        return
    if is_optimizer(script, owner):
        yield RULE.finding(script, loop, _MESSAGE, remove(loop))
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


def _only_moves(body: list[ast.stmt]) -> bool:
    """True if all that is done is `x = y.to(device)`, in any nest of loops and tests."""
    for statement in body:
        if isinstance(statement, (ast.For, ast.If)):
            if not _only_moves(statement.body) or not _only_moves(statement.orelse):
                return False
        elif isinstance(statement, ast.Assign):
            if not _is_move(statement.value):
                return False
        elif not isinstance(statement, ast.Pass):
            return False
    return True


def _is_move(node: ast.expr) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in {"to", "cuda"}
    )
