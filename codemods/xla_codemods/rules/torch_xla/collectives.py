"""Collectives of torch_xla.

## What it reports

`xm.all_reduce`, `xm.all_gather` and other collectives, in runs with `--from torch_xla`.

## Why it matters on XLA

These calls run with torch_xla only. The runtime's are the same on XLA, and PyTorch's on other
backends.

## What to do

Fix: safe, or none.

Use the runtime's collectives.

## Example

```diff
 import numpy as np
-import torch_xla.core.xla_model as xm
+from xla_migrate import runtime as xla

 def evaluate(model, correct, total):
-    xm.broadcast_master_param(model)
-    xm.rendezvous("before")
-    counts = xm.all_reduce(xm.REDUCE_SUM, correct, scale=0.5)
-    largest = xm.all_reduce("max", total)
-    rows = xm.all_gather(total, dim=0)
-    return xm.mesh_reduce("accuracy", 100.0 * correct / total, np.mean)
+    xla.broadcast_master_param(model)
+    xla.mark_step()
+    xla.rendezvous("before")
+    counts = xla.all_reduced(correct, "sum", scale=0.5)
+    largest = xla.all_reduced(total, "max")
+    rows = xla.all_gathered(total, dim=0)
+    return xla.mesh_reduce("accuracy", 100.0 * correct / total, np.mean)
```

Several tensors at once are reduced in place:

```diff
-import torch_xla.core.xla_model as xm
-import torch_xla.runtime as xr
+from xla_migrate import runtime as xla

 def average(optimizer):
-    gradients = xm._fetch_gradients(optimizer)
-    xm.all_reduce("sum", gradients, scale=1.0 / xr.world_size(), groups=[])
+    gradients = [p.grad for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
+    xla.all_reduced(gradients, "sum", scale=1.0 / xla.world_size())
```

Collectives among some replicas, a gather of several tensors at once, and functions without an
equivalent are reported without a fix:

```python
import torch_xla.core.xla_model as xm

def exchange(grads, x, pairs):
    xm.all_reduce(xm.REDUCE_SUM, grads, groups=pairs)  # XLA016
    y = xm.all_gather(x, groups=pairs)  # XLA016
    return xm.collective_permute(y, pairs)  # XLA019
```
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...analysis.by_hand.written import KEPT, XM, given, is_constant, renamed
from ...analysis.scopes import Scope
from ...analysis.script import Script
from ...edits import Edit, InsertBefore, Replace
from ...finding import WARNING, Finding
from ...rule import Rule

RULE = Rule("XLA016", "torch-xla-collective", severity=WARNING, origin="torch_xla")

_OPS = {f"{XM}.REDUCE_{name.upper()}": name for name in ("sum", "mul", "min", "max", "and", "or")}


@RULE.call(f"{XM}.mesh_reduce", f"{XM}.broadcast_master_param")
def same(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    name = (script.dotted(call.func, scope) or "").rpartition(".")[2]
    yield _found(script, call, name, renamed(script, call, name))


@RULE.call(f"{XM}.rendezvous")
def rendezvous(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    """torch_xla's rendezvous launches recorded operations, even with one replica."""
    if not script.is_statement(call) or set(given(call, ("tag", "payload", "replicas")) or ()) != {
        "tag"
    }:
        yield _left(
            script, call, "`xla.rendezvous` accepts neither payloads nor a selection of replicas"
        )
        return
    edits: list[Edit] = [renamed(script, call, "rendezvous")]
    edits.append(InsertBefore(script.statement(call), f"{script.xla}.mark_step()"))
    yield _found(script, call, "rendezvous", *edits)


@RULE.call(f"{XM}.all_reduce")
def all_reduce(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    arguments = given(call, ("reduce_type", "inputs", "scale", "groups", "pin_layout"))
    tensor = (arguments or {}).get("inputs")
    op = _op(script, (arguments or {}).get("reduce_type"), scope)
    if not arguments or tensor is None or not op or not _is_of_all(arguments):
        yield _left(script, call, "`xla.all_reduced` reduces over all processes")
        return
    text = f'{script.xla}.all_reduced({{0}}, "{op}"'
    holes = (tensor,)
    if "scale" in arguments:
        text, holes = f"{text}, scale={{1}}", (tensor, arguments["scale"])  # type: ignore[assignment]
    yield _found(script, call, "all_reduced", Replace(call, f"{text})", holes))


@RULE.call(f"{XM}.all_gather")
def all_gather(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    arguments = given(call, ("value", "dim", "groups", "output", "pin_layout"))
    tensor = (arguments or {}).get("value")
    if not arguments or tensor is None or "output" in arguments or not _is_of_all(arguments):
        yield _left(script, call, "`xla.all_gathered` gathers from all processes into a new tensor")
        return
    if isinstance(tensor, (ast.List, ast.Tuple, ast.ListComp)):
        yield _left(script, call, "the call gathers several tensors at once")
        return
    if "dim" in arguments:
        edit = Replace(
            call, f"{script.xla}.all_gathered({{0}}, dim={{1}})", (tensor, arguments["dim"])
        )
    else:
        edit = Replace(call, f"{script.xla}.all_gathered({{0}})", (tensor,))
    yield _found(script, call, "all_gathered", edit)


def _op(script: Script, node: ast.expr | None, scope: Scope) -> str:
    if isinstance(node, ast.Constant) and node.value in _OPS.values():
        return str(node.value)
    return _OPS.get(script.dotted(node, scope) or "", "")


def _is_of_all(arguments: dict[str, ast.expr]) -> bool:
    groups = arguments.get("groups")
    of_all = is_constant(groups, None) or (
        isinstance(groups, (ast.List, ast.Tuple)) and not groups.elts
    )
    return of_all and is_constant(arguments.get("pin_layout"), True)


def _found(script: Script, node: ast.expr, name: str, *edits: Edit) -> Finding:
    message = f"the call runs with torch_xla only: use `xla.{name}`, which is the same there"
    return RULE.finding(script, node, message, *edits)


def _left(script: Script, node: ast.expr, reason: str) -> Finding:
    return RULE.finding(script, node, f"{reason}: {KEPT}")
