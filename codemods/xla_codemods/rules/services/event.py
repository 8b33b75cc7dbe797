"""A CUDA event fails on an XLA host when it is recorded.

## What it reports

`torch.cuda.Event`, its `record` and tests for the class.

## Why it matters on XLA

The event is created without an error, so the failure comes later.

## What to do

Fix: safe.

Use `xla.Event`, which is a CUDA event on CUDA. On XLA, an event with `enable_timing` ends the
graph and waits when it is recorded. The time between two events is then the device's. Time whole
steps with it.

## Example

```diff
 import torch
+from xla_migrate import runtime as xla

 def timed(model, x):
-    start = torch.cuda.Event(enable_timing=True)
-    end = torch.cuda.Event(enable_timing=True)
+    start = xla.Event(enable_timing=True)
+    end = xla.Event(enable_timing=True)
     start.record()
     model(x)
-    end.record(torch.cuda.current_stream())
+    end.record()
-    torch.cuda.synchronize()
+    xla.synchronize()
     return start.elapsed_time(end)
```

Other events are not reported:

```python
import threading

done = threading.Event()
```
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...analysis.scopes import Scope
from ...analysis.script import Script
from ...analysis.syntax import keyword
from ...edits import DropArgument, Edit, Replace
from ...finding import MEDIUM, Finding
from ...rule import Rule

RULE = Rule("XLA122", "event", of_what_runs=True)

_EVENTS = ("torch.cuda.Event", "torch.cuda.streams.Event")
_MESSAGE = "CUDA events fail on an XLA host: use `xla.Event`"


@RULE.call(*_EVENTS)
def event(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    yield RULE.finding(script, call, _MESSAGE, Replace(call.func, f"{script.xla}.Event"))


@RULE.call("torch.Event")
def generic_event(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    """`torch.Event(device="cuda", enable_timing=True)`: of which there are none for XLA."""
    edits: list[Edit] = [Replace(call.func, f"{script.xla}.Event")]
    device = keyword(call, "device")
    if call.args:
        edits.append(DropArgument(call, call.args[0]))
    if device is not None:
        edits += [DropArgument(call, k) for k in call.keywords if k.arg == "device"]
    yield RULE.finding(script, call, _MESSAGE, *edits)


@RULE.reference(*_EVENTS)
def event_itself(script: Script, node: ast.expr, scope: Scope) -> Iterator[Finding]:
    """The class passed on; in an annotation it is harmless."""
    parent = script.parent(node)
    match parent:
        case ast.Call(func=ast.Name(id="isinstance" | "issubclass")):
            yield RULE.finding(
                script,
                node,
                "on XLA events are of the class `xla.Event`: also test for that class",
                effort=MEDIUM,
            )
        case ast.Call() | ast.keyword() | ast.Assign() | ast.IfExp() | ast.Return():
            yield _passed(script, node)
        case ast.Tuple() | ast.List() if isinstance(script.parent(parent), _HOLDERS):
            yield _passed(script, node)
        case ast.Dict():
            yield _passed(script, node)


_HOLDERS = (ast.Assign, ast.Return)


def _passed(script: Script, node: ast.expr) -> Finding:
    return RULE.finding(script, node, _MESSAGE, Replace(node, f"{script.xla}.Event"))
