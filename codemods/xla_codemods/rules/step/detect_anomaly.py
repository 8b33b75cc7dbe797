"""Anomaly detection reads the result of each operation in the backward pass.

## What it reports

`torch.autograd.set_detect_anomaly(True)` and `torch.autograd.detect_anomaly()`.

## Why it matters on XLA

The host waits for each of these reads. A tiny backward pass has nine of them.

## What to do

Fix: unsafe.

Remove it, and switch it on only while you search for a fault. The fix is unsafe because it also
removes the error message that anomaly detection gives.

## Example

```diff
 import torch

 def train(model, x, device):
-    torch.autograd.set_detect_anomaly(True)
-    with torch.autograd.detect_anomaly():
-        model(x.to(device)).sum().backward()
+    model(x.to(device)).sum().backward()
```

Calls with a variable argument, and calls that switch it off, are not reported:

```python
import torch
from xla_migrate import runtime as xla

torch.autograd.set_detect_anomaly(args.debug)
torch.autograd.set_detect_anomaly(False)
print(xla.device_type())
```
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...analysis.scopes import Scope
from ...analysis.script import Script
from ...analysis.syntax import is_literal, keyword
from ...edits import DropItem, Edit, Unwrap, remove
from ...finding import UNSAFE, WARNING, Finding
from ...rule import Rule

RULE = Rule("XLA512", "detect-anomaly", of_what_runs=True, severity=WARNING, about="speed")

_SET = "torch.autograd.set_detect_anomaly"
_NAMES = (
    _SET,
    "torch.autograd.detect_anomaly",
    "torch.autograd.anomaly_mode.set_detect_anomaly",
    "torch.autograd.anomaly_mode.detect_anomaly",
)


@RULE.call(*_NAMES)
def detect_anomaly(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    if not (script.trains or script.accelerated) or not _is_on(script, call, scope):
        return
    message = "anomaly detection reads every gradient back to the host: switch it on only to search for a fault"
    edit = _without(script, call)
    yield RULE.finding(script, call, message, *([edit] if edit else []), safety=UNSAFE)


def _is_on(script: Script, call: ast.Call, scope: Scope) -> bool:
    """`set_detect_anomaly` takes a mode; `detect_anomaly` is one."""
    check = keyword(call, "check_nan")
    if is_literal(check, False):
        return False  # it only keeps tracebacks
    if not (script.dotted(call.func, scope) or "").endswith("set_detect_anomaly"):
        return True
    mode = call.args[0] if call.args else keyword(call, "mode")
    return isinstance(mode, ast.Constant) and bool(mode.value)


def _without(script: Script, call: ast.Call) -> Edit | None:
    parent = script.parent(call)
    if isinstance(parent, ast.Expr):
        return remove(parent)
    block = script.parent(parent) if isinstance(parent, ast.withitem) else None
    if isinstance(block, ast.With) and isinstance(parent, ast.withitem):
        return Unwrap(block) if len(block.items) == 1 else DropItem(block, parent)
    return None
