"""ignite asks torch_xla for names that are gone, and has no mixed precision on XLA.

torch_xla 2.7 removed what ignite 0.5 asks for ranks, so that its metrics and checkpoints raise on XLA, also in one process. Metrics
refuse an XLA device. `xla.patch_ignite()` mends both, and does nothing on CUDA.

```diff
 from ignite.engine import Engine
 from ignite.metrics import Accuracy
+from xla_migrate import runtime as xla

 def build(update, device):
+    xla.patch_ignite()
     accuracy = Accuracy(device=device)
     trainer = Engine(update)
     accuracy.attach(trainer, "accuracy")
     return trainer
```

Its supervised trainer steps and marks XLA devices by itself. With `amp_mode` it raises there, and so does its evaluator.
Both keep the argument where there is CUDA, and compute in float32 on XLA.

```diff
 import torch
 from ignite.engine import create_supervised_trainer
+from xla_migrate import runtime as xla

 def build(model, optimizer, loss_fn):
-    return create_supervised_trainer(model, optimizer, loss_fn, device="cuda", amp_mode="amp", scaler=True)
+    xla.patch_ignite()
+    return create_supervised_trainer(model, optimizer, loss_fn, device=xla.device_type(), amp_mode="amp" if xla.device_type() != "xla" else None, scaler=xla.device_type() != "xla")
```

For bfloat16 write the step, with `xla.autocast()` around the forward pass, and give it to `Engine`.

A scaler of the script's own is left to a person, and so are processes that ignite starts:

```python
import ignite.distributed as idist
from ignite.engine import create_supervised_trainer
from xla_migrate import runtime as xla

def build(model, optimizer, loss_fn, scaler):
    xla.patch_ignite()
    return create_supervised_trainer(model, optimizer, loss_fn, amp_mode="amp", scaler=scaler)  # XLA818

def main(run):
    with idist.Parallel(backend="nccl") as parallel:  # XLA818
        parallel.run(run)
```

Float32, and other backends, stay, and what others call an engine:

```python
import ignite.distributed as idist
from mylib import Engine

def build(update):
    with idist.Parallel(backend="gloo"):
        return Engine(update)
```
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...analysis.framework_patches import patched_before
from ...analysis.frameworks.arguments import asks_runtime, is_true
from ...analysis.syntax import keyword
from ...edits import Edit, Replace
from ...finding import HIGH, Finding
from ...rule import Rule

if TYPE_CHECKING:
    from ...analysis.scopes import Scope
    from ...analysis.script import Script

RULE = Rule("XLA818", "ignite")

_OLD = "ignite asks torch_xla for names that are gone, and raises: call `xla.patch_ignite()` first"
_MIXED = (
    "ignite has no mixed precision on XLA, and raises: compute in float32 there, or write the step with `xla.autocast()` "
    "and give it to `Engine`"
)
_BACKEND = "NCCL fails on XLA: start the processes with `xla.launch`, and call `xla.patch_ignite()` in each"
_MADE = ("ignite.engine.", "ignite.metrics.", "ignite.handlers.", "ignite.contrib.")


@RULE.file
def patched(script: Script) -> Iterator[Finding]:
    """Before engines, metrics and handlers, on every way that leads to them."""
    if not script.source.mentions("ignite"):
        return
    calls = [(c, script.dotted(c.func, scope) or "") for c, scope in script.index.of(ast.Call)]
    made = {dotted for _, dotted in calls if dotted.startswith(_MADE)}
    for call, dotted in calls:
        edit = patched_before(script, call, "patch_ignite", made) if dotted in made else None
        if edit is not None:
            yield RULE.finding(script, call, _OLD, edit)


@RULE.call("ignite.engine.create_supervised_trainer", "ignite.engine.create_supervised_evaluator")
def made(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    mode, scaler = keyword(call, "amp_mode"), keyword(call, "scaler")
    if mode is None or asks_runtime(script, mode):
        return
    if isinstance(mode, ast.Constant) and mode.value is None:
        return
    elsewhere = f'{script.xla}.device_type() != "xla"'
    edits: list[Edit] = [Replace(mode, f"{{0}} if {elsewhere} else None", (mode,))]
    if scaler is not None and is_true(scaler):
        edits.append(Replace(scaler, elsewhere))
    elif not (scaler is None or (isinstance(scaler, ast.Constant) and not scaler.value)):
        edits = []
    yield RULE.finding(script, mode, _MIXED, *edits)


@RULE.call(
    "ignite.distributed.Parallel", "ignite.distributed.initialize", "ignite.distributed.spawn"
)
def processes(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    backend = keyword(call, "backend") or next(iter(call.args), None)
    if isinstance(backend, ast.Constant) and backend.value == "nccl":
        yield RULE.finding(script, backend, _BACKEND, effort=HIGH)
