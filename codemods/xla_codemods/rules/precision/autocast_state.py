"""Functions that query autocast mean CUDA's autocast unless they receive a device type.

## What it reports

`torch.is_autocast_enabled()`, `torch.get_autocast_gpu_dtype()` and their setters without a device
type.

## Why it matters on XLA

`torch.is_autocast_enabled()` is False inside `xla.autocast()`, and
`torch.get_autocast_gpu_dtype()` is the data type of CUDA.

## What to do

Fix: safe.

Pass `xla.device_type()` as the device type.

## Example

```diff
 import torch
+from xla_migrate import runtime as xla

 def cast(x):
-    if torch.is_autocast_enabled():
-        return x.to(torch.get_autocast_gpu_dtype())
+    if torch.is_autocast_enabled(xla.device_type()):
+        return x.to(torch.get_autocast_dtype(xla.device_type()))
     return x
```

```diff
 import torch
+from xla_migrate import runtime as xla

-torch.set_autocast_enabled(True)
-torch.set_autocast_gpu_dtype(torch.float16)
+torch.set_autocast_enabled(xla.device_type(), True)
+torch.set_autocast_dtype(xla.device_type(), torch.bfloat16)
```

Queries for the CPU, and queries with a variable device type, are not reported:

```python
import torch

def enabled(device_type):
    return torch.is_autocast_enabled(device_type) or torch.is_autocast_cpu_enabled()
```
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...analysis.scopes import Scope
from ...analysis.script import Script
from ...analysis.syntax import is_literal, keyword
from ...analysis.training.tensors.kept_half import bfloat16_for
from ...edits import AddArgument, Edit, Replace
from ...finding import Finding
from ...rule import Rule

RULE = Rule("XLA202", "autocast-state", of_step="precision")

_MESSAGE = "the call reads or sets the autocast of CUDA, not of XLA: pass `xla.device_type()` as the device type"


@RULE.call("torch.is_autocast_enabled", "torch.get_autocast_dtype", "torch.is_autocast_available")
def asked(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    device = call.args[0] if call.args else keyword(call, "device_type")
    kind = f"{script.xla}.device_type()"
    if device is None and script.dotted(call.func, scope) == "torch.is_autocast_enabled":
        yield RULE.finding(script, call, _MESSAGE, AddArgument(call, kind))
    elif is_literal(device, "cuda"):
        yield RULE.finding(script, call, _MESSAGE, Replace(device, kind))


@RULE.call("torch.get_autocast_gpu_dtype", "torch._C.get_autocast_gpu_dtype")
def gpu_dtype(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    name = script.spell("torch.get_autocast_dtype", scope)
    yield RULE.finding(script, call, _MESSAGE, Replace(call, f"{name}({script.xla}.device_type())"))


@RULE.call("torch.set_autocast_gpu_dtype")
def set_gpu_dtype(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    if len(call.args) == 1:
        yield RULE.finding(
            script, call, _MESSAGE, _set(script, call, scope, "torch.set_autocast_dtype")
        )


@RULE.call("torch.set_autocast_enabled", "torch.set_autocast_dtype")
def set_state(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    dotted = script.dotted(call.func, scope) or ""
    if len(call.args) == 1 and dotted == "torch.set_autocast_enabled":
        yield RULE.finding(script, call, _MESSAGE, _set(script, call, scope, dotted))
    elif len(call.args) == 2 and is_literal(call.args[0], "cuda"):
        edits: list[Edit] = [Replace(call.args[0], f"{script.xla}.device_type()")]
        new = bfloat16_for(script, call.args[1], scope)
        if new is not None:
            edits.append(Replace(call.args[1], new))
        yield RULE.finding(script, call, _MESSAGE, *edits)


def _set(script: Script, call: ast.Call, scope: Scope, dotted: str) -> Edit:
    """A setter of one argument, CUDA's, as one of two."""
    name = script.spell(dotted, scope)
    new = bfloat16_for(script, call.args[0], scope)
    if new is not None:
        return Replace(call, f"{name}({script.xla}.device_type(), {new})")
    return Replace(call, f"{name}({script.xla}.device_type(), {{0}})", (call.args[0],))
