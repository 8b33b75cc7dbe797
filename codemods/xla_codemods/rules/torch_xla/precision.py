"""Autocast, precision and recomputation of torch_xla.

## What it reports

`torch_xla.amp`, `set_mat_mul_precision` and torch_xla's activation checkpointing, in runs with
`--from torch_xla`.

## Why it matters on XLA

These calls run with torch_xla only.

## What to do

Fix: safe, unsafe or none.

Use `xla.autocast()`. On XLA it is `torch.autocast("xla")` with the data types of CUDA (fact
1.72): sums, norms, exponentials, logarithms and resizing in float32, batch norms and
`scaled_dot_product_attention` in bfloat16. Losses under bfloat16 change to CUDA's losses, which
are closer to float32. In 36 steps of a small network with attention, norms and a `logsumexp` in
its loss, the root mean square difference was 0.0006 instead of 0.011.

## Example

```diff
 import torch
-import torch_xla.backends
-from torch_xla.amp import autocast
-from torch_xla.utils.checkpoint import checkpoint
+from xla_migrate import runtime as xla

 def forward(model, x, device, amp):
-    torch_xla.backends.set_mat_mul_precision("high")
-    with torch.autocast("xla", dtype=torch.bfloat16, enabled=amp):
-        x = checkpoint(model, x, use_reentrant=True)
-    with autocast(device, enabled=amp):
+    xla.set_float32_matmul_precision("high")
+    with xla.autocast(dtype=torch.bfloat16, enabled=amp):
+        x = xla.checkpoint(model, x, use_reentrant=True)
+    with xla.autocast(enabled=amp):
         return model(x)
```

Optimizers that avoid the host read of a loss scaler compute what PyTorch's do, except for
rounding. bfloat16 needs no scaler, and torch_xla 2.9 has none. With `--unsafe` they become
PyTorch's:

```diff
+import torch
-import torch_xla
-from torch_xla.amp import syncfree
+from xla_migrate import runtime as xla

 def train(model, loss):
-    optimizer = syncfree.AdamW(model.parameters(), lr=1e-3)
+    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
     loss.backward()
-    optimizer.step()
-    torch_xla.sync()
+    xla.optimizer_step(optimizer, average=False)
+    xla.mark_step()
```

A precision that is not known is reported without a fix:

```python
import torch_xla.backends

def set_up(name):
    torch_xla.backends.set_mat_mul_precision(name)  # XLA018
```
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...analysis.by_hand.written import KEPT, renamed
from ...analysis.scopes import Scope
from ...analysis.script import Script
from ...analysis.syntax import is_literal
from ...edits import DropArgument, Edit, Replace
from ...finding import SAFE, UNSAFE, WARNING, Finding
from ...rule import Rule

RULE = Rule("XLA018", "torch-xla-precision", severity=WARNING, origin="torch_xla")

_TORCHS = ("torch.autocast", "torch.amp.autocast", "torch.amp.autocast_mode.autocast")
_OWN = ("torch_xla.amp.autocast", "torch_xla.amp.autocast_mode.autocast")
_CUSTOM = ("torch.amp.custom_fwd", "torch.amp.custom_bwd")
_PRECISIONS = {"highest": "highest", "high": "high", "default": "medium"}
_SYNCFREE = "torch_xla.amp.syncfree"
_OPTIMIZERS = ("Adam", "AdamW", "SGD")


@RULE.call(*_TORCHS)
def autocast(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    device: ast.expr | ast.keyword | None = call.args[0] if call.args else None
    value = device
    for argument in call.keywords:
        if argument.arg == "device_type":
            device, value = argument, argument.value
    if device is None or not is_literal(value, "xla"):
        return
    edits: list[Edit] = [renamed(script, call, "autocast")]
    if isinstance(device, ast.keyword) or len(call.args) == 1:
        edits.append(DropArgument(call, device))
    yield _found(script, call, "autocast", *edits)


@RULE.call(*_OWN)
def own_autocast(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    if len(call.args) > 1 or any(isinstance(a, ast.Starred) for a in call.args):
        yield RULE.finding(script, call, f"positional arguments differ in the runtime: {KEPT}")
        return
    edits: list[Edit] = [renamed(script, call, "autocast")]
    edits += [DropArgument(call, argument) for argument in call.args]
    edits += [DropArgument(call, k) for k in call.keywords if k.arg == "device"]
    yield _found(script, call, "autocast", *edits)


@RULE.call(*_CUSTOM)
def custom(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    for argument in call.keywords:
        value = argument.value
        if argument.arg == "device_type" and isinstance(value, ast.Constant):
            if value.value == "xla":
                edit = Replace(value, f"{script.xla}.device_type()")
                yield _found(script, call, "device_type()", edit)


@RULE.call("torch_xla.backends.set_mat_mul_precision")
def matmul(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    value = call.args[0] if len(call.args) == 1 and not call.keywords else None
    known = _PRECISIONS.get(str(getattr(value, "value", "")))
    if not isinstance(value, ast.Constant) or known is None:
        yield RULE.finding(script, call, f"the precision is not known: {KEPT}")
        return
    edits: list[Edit] = [renamed(script, call, "set_float32_matmul_precision")]
    if known != value.value:
        edits.append(Replace(value, f'"{known}"'))
    yield _found(script, call, "set_float32_matmul_precision", *edits)


@RULE.call("torch_xla.utils.checkpoint.checkpoint")
def checkpoint(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    yield _found(script, call, "checkpoint", renamed(script, call, "checkpoint"))


@RULE.call(
    *(f"{_SYNCFREE}.{name}" for name in _OPTIMIZERS),
    *(f"{_SYNCFREE}.{name.lower()}.{name}" for name in _OPTIMIZERS),
)
def syncfree(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    name = (script.dotted(call.func, scope) or "").rpartition(".")[2]
    message = f"the optimizer runs with torch_xla only and avoids the read of a scaler that no longer exists: use `torch.optim.{name}`"
    edit = Replace(call.func, script.spell(f"torch.optim.{name}", scope))
    yield RULE.finding(script, call, message, edit, safety=UNSAFE)


_CUDAS_TYPES = "which computes in the data types of CUDA's autocast: losses in bfloat16 come closer to those in float32"


def _found(script: Script, node: ast.expr, name: str, *edits: Edit) -> Finding:
    what = _CUDAS_TYPES if name == "autocast" else "which sets it for the accelerator in use"
    message = f"the call runs with torch_xla only: use `xla.{name}`, {what}"
    return RULE.finding(script, node, message, *edits, safety=SAFE)
