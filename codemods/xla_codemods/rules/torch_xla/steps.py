"""Step marks and optimizer steps of torch_xla.

## What it reports

`xm.mark_step`, `torch_xla.sync`, `xm.optimizer_step`, `xm.reduce_gradients` and
`torch_xla.compile`, in runs with `--from torch_xla`.

## Why it matters on XLA

These calls run with torch_xla only.

## What to do

Fix: safe, or none.

Use `xla.mark_step()`, which is `torch_xla.sync()` on XLA and does nothing elsewhere, and
`xla.optimizer_step`, which averages and steps as `xm.optimizer_step` does.

## Example

```diff
 import torch
-import torch_xla
-import torch_xla.core.xla_model as xm
+from xla_migrate import runtime as xla

 def train(model, loader, optimizer, log):
     for x, y in loader:
         loss = model(x, y)
         loss.backward()
-        xm.optimizer_step(optimizer, barrier=True)
-        xm.add_step_closure(log, args=(loss,))
-    torch_xla.sync()
-    xm.wait_device_ops()
+        xla.optimizer_step(optimizer)
+        xla.mark_step()
+        xla.add_step_closure(log, args=(loss,))
+    xla.mark_step()
+    xla.synchronize(mark=False)
```

If code such as clipping runs between averaging and step, the step still averages nothing:

```diff
 import torch
-import torch_xla
-import torch_xla.core.xla_model as xm
+from xla_migrate import runtime as xla

 def train(model, loader):
     optimizer = torch.optim.AdamW(model.parameters())
     for x, y in loader:
-        with torch_xla.step():
+        with xla.marked_step():
             model(x, y).backward()
-            xm.reduce_gradients(optimizer)
+            xla.reduce_gradients(optimizer)
             torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
-            optimizer.step()
+            xla.optimizer_step(optimizer, average=False)
```

A function that becomes one graph runs between two step marks, with the same limits:

```diff
-import torch_xla
+from xla_migrate import runtime as xla

-@torch_xla.compile
+@xla.marked_step()
 def evaluate(model, x):
     return model(x)

-step = torch_xla.compile(evaluate, full_graph=True)
+step = xla.marked_step(full_graph=True)(evaluate)
```

Averages over some replicas, and arguments of the step, are reported without a fix. With a
closure, torch_xla averages before it computes the gradients (fact 1.23):

```python
import torch_xla.core.xla_model as xm

def step(optimizer, closure, pairs):
    xm.reduce_gradients(optimizer, groups=pairs)  # XLA013
    xm.optimizer_step(optimizer, optimizer_args={"closure": closure})  # XLA013
```
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...analysis.by_hand.written import KEPT, XM, given, is_constant, is_written_by_hand, renamed
from ...analysis.scopes import Scope
from ...analysis.script import Script
from ...edits import Edit, InsertAfter, Replace
from ...finding import WARNING, Finding
from ...rule import Rule

RULE = Rule("XLA013", "torch-xla-step", severity=WARNING, origin="torch_xla")

_MARKS = ("torch_xla.sync", f"{XM}.mark_step")
_COMPILES = (
    "torch_xla.compile",
    "torch_xla.experimental.compile",
    "torch_xla.experimental.eager.compile",
)
_STEP_ARGUMENTS = ("optimizer", "barrier", "optimizer_args", "groups", "pin_layout")


@RULE.call(*_MARKS)
def mark(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    arguments = given(call, ("wait", "reset_scope"))
    if arguments is None or not is_constant(arguments.get("reset_scope"), True):
        yield RULE.finding(script, call, f"`xla.mark_step` has no such arguments: {KEPT}")
        return
    waits, xla = arguments.get("wait"), script.xla
    if waits is None or not is_constant(waits, True, False):
        chosen = f"{xla}.synchronize() if {{0}} else {xla}.mark_step()"
        text, holes = (chosen, (waits,)) if waits is not None else (f"{xla}.mark_step()", ())
        yield _found(script, call, "mark_step", Replace(call, text, holes))
        return
    name = "mark_step" if is_constant(waits, False) else "synchronize"
    yield _found(script, call, name, Replace(call, f"{xla}.{name}()"))


@RULE.reference(*_MARKS)
def uncalled(script: Script, node: ast.expr, scope: Scope) -> Iterator[Finding]:
    """`on_step_end=xm.mark_step`."""
    if isinstance(getattr(node, "ctx", None), ast.Load):
        yield _found(script, node, "mark_step", Replace(node, f"{script.xla}.mark_step"))


@RULE.call("torch_xla.step")
def step(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    yield _found(script, call, "marked_step", renamed(script, call, "marked_step"))


@RULE.call(*_COMPILES)
def compiled(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    arguments = given(call, ("f", "full_graph", "name", "max_different_graphs"))
    if arguments is None:
        yield RULE.finding(script, call, f"`xla.marked_step` has no such arguments: {KEPT}")
        return
    function = arguments.pop("f", None)
    text = ", ".join(f"{name}={{{k}}}" for k, name in enumerate(arguments))
    text, holes = f"{script.xla}.marked_step({text})", tuple(arguments.values())
    if function is not None and not is_constant(function, None):
        text, holes = f"{text}({{{len(holes)}}})", (*holes, function)
    yield _found(script, call, "marked_step", Replace(call, text, holes))


@RULE.reference(*_COMPILES)
def decorator(script: Script, node: ast.expr, scope: Scope) -> Iterator[Finding]:
    if node in getattr(script.parent(node), "decorator_list", ()):
        yield _found(script, node, "marked_step", Replace(node, f"{script.xla}.marked_step()"))


@RULE.call(f"{XM}.optimizer_step")
def optimizer_step(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    arguments = given(call, _STEP_ARGUMENTS) or {}
    barrier = arguments.get("barrier")
    plain = {"optimizer", "barrier", "pin_layout"}
    marks = not is_constant(barrier, False)
    if (
        not plain.issuperset(arguments)
        or "optimizer" not in arguments
        or not is_constant(arguments.get("pin_layout"), True)
        or (marks and not _can_mark_behind(script, call, barrier))
    ):
        message = f"`xla.optimizer_step` averages over all processes and does not have these arguments: {KEPT}"
        yield RULE.finding(script, call, message)
        return
    optimizer = arguments["optimizer"]
    edits: list[Edit] = [Replace(call, f"{script.xla}.optimizer_step({{0}})", (optimizer,))]
    if marks:
        text = f"{script.xla}.mark_step()"
        if not is_constant(barrier, True):
            text = f"if {ast.unparse(barrier)}:\n    {text}"  # type: ignore[arg-type]
        edits.append(InsertAfter(script.statement(call), text))
    yield _found(script, call, "optimizer_step", *edits)


def _can_mark_behind(script: Script, call: ast.Call, barrier: ast.expr | None) -> bool:
    """Return True if a mark can follow the step: it is a statement, and the condition for the mark has the same value there."""
    while isinstance(barrier, ast.Attribute):
        barrier = barrier.value
    if isinstance(barrier, ast.UnaryOp) and isinstance(barrier.op, ast.Not):
        return _can_mark_behind(script, call, barrier.operand)
    return script.is_statement(call) and isinstance(barrier, (ast.Constant, ast.Name))


@RULE.call(f"{XM}._fetch_gradients")
def gradients(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    """What scripts hand to `xm.all_reduce`, to clip what comes of it."""
    found = given(call, ("optimizer",))
    if found:
        text = (
            '[p.grad for group in {0}.param_groups for p in group["params"] if p.grad is not None]'
        )
        message = "the name is private to torch_xla: use the gradients of the optimizer's groups"
        yield RULE.finding(script, call, message, Replace(call, text, (found["optimizer"],)))


@RULE.call(f"{XM}.reduce_gradients")
def reduce_gradients(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    arguments = given(call, ("optimizer", "groups", "pin_layout"))
    optimizer = (arguments or {}).get("optimizer")
    if (
        not arguments
        or optimizer is None
        or not is_constant(arguments.get("groups"), None)
        or not is_constant(arguments.get("pin_layout"), True)
    ):
        message = f"`xla.reduce_gradients` averages over all processes: {KEPT}"
        yield RULE.finding(script, call, message)
        return
    edit = Replace(call, f"{script.xla}.reduce_gradients({{0}})", (optimizer,))
    yield _found(script, call, "reduce_gradients", edit)


@RULE.call(f"{XM}.add_step_closure")
def closure(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    yield _found(script, call, "add_step_closure", renamed(script, call, "add_step_closure"))


@RULE.call(f"{XM}.wait_device_ops")
def wait(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    edit = Replace(call, f"{script.xla}.synchronize(mark=False)")
    yield _found(script, call, "synchronize(mark=False)", edit)


@RULE.file
def own_step(script: Script) -> Iterator[Finding]:
    """`optimizer.step()`: whoever has written that in a script for torch_xla wants no averages there."""
    if not is_written_by_hand(script):
        return
    for taken in script.training.steps:
        call, optimizer = taken.call, taken.optimizer
        if taken.migrated or optimizer is None or _is_torch_xlas(script, call):
            continue
        if taken.scaled:
            yield from _scaled_step(script, call, optimizer)
            continue
        names = ["" for _ in call.args] + [f"{k.arg}=" if k.arg else "**" for k in call.keywords]
        text = "".join(f", {name}{{{k}}}" for k, name in enumerate(names, 1))
        holes = (optimizer, *call.args, *(k.value for k in call.keywords))
        edit = Replace(call, f"{script.xla}.optimizer_step({{0}}{text}, average=False)", holes)
        message = (
            "the optimizer steps with the current gradients: use `xla.optimizer_step(..., average=False)`,"
            " which says so"
        )
        yield RULE.finding(script, call, message, edit)


def _scaled_step(script: Script, call: ast.Call, optimizer: ast.expr) -> Iterator[Finding]:
    """`scaler.step(optimizer)`."""
    if len(call.args) + len(call.keywords) == 1:
        edit = Replace(call, f"{script.xla}.optimizer_step({{0}}, average=False)", (optimizer,))
        message = "bfloat16 needs no loss scaling: use `xla.optimizer_step(..., average=False)`"
        yield RULE.finding(script, call, message, edit)


def _is_torch_xlas(script: Script, call: ast.Call) -> bool:
    return (script.dotted(call.func) or "").startswith("torch_xla.")


def _found(script: Script, node: ast.expr, name: str, *edits: Edit) -> Finding:
    message = f"the call runs with torch_xla only: use `xla.{name}`, which is the same there"
    return RULE.finding(script, node, message, *edits)
