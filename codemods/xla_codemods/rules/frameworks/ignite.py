"""ignite uses names that torch_xla removed, and has no mixed precision on XLA.

## What it reports

Scripts that use ignite's engines, metrics or handlers without `xla.patch_ignite()`, `amp_mode=`
of its trainers, and `idist.Parallel`. Also MONAI's metrics, engines and handlers, which use ignite if
it is installed.

## Why it matters on XLA

torch_xla 2.7 removed the functions from which ignite 0.5 gets ranks, so metrics and checkpoints
raise exceptions, even in one process. Metrics reject an XLA device. With `amp_mode`, the
supervised trainer and evaluator raise exceptions.

## What to do

Fix: safe, or none.

Call `xla.patch_ignite()` first. It does nothing on CUDA. `amp_mode` is kept on CUDA, and XLA
computes in float32. For bfloat16, write the step with `xla.autocast()` around the forward pass,
and pass it to `Engine`.

## Example

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

MONAI's metrics gather their values with ignite:

```diff
 from monai.metrics import DiceMetric
+from xla_migrate import runtime as xla

 def evaluate(model, loader):
+    xla.patch_ignite()
     dice = DiceMetric(reduction="mean")
     for image, label in loader:
         dice(model(image), label)
     return dice.aggregate()
```

Mixed precision of the supervised trainer:

```diff
 import torch
 from ignite.engine import create_supervised_trainer
+from xla_migrate import runtime as xla

 def build(model, optimizer, loss_fn):
-    return create_supervised_trainer(model, optimizer, loss_fn, device="cuda", amp_mode="amp", scaler=True)
+    xla.patch_ignite()
+    return create_supervised_trainer(model, optimizer, loss_fn, device=xla.device_type(), amp_mode="amp" if xla.device_type() != "xla" else None, scaler=xla.device_type() != "xla")
```

A scaler of the script, and processes that ignite starts, are reported without a fix:

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

float32, other backends and other classes named `Engine` are not reported:

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

from ...analysis.frameworks.arguments import asks_runtime
from ...analysis.frameworks.sharding import patched_before
from ...analysis.scopes import Scope
from ...analysis.script import Script
from ...analysis.syntax import is_literal, is_off, keyword
from ...edits import Edit, Replace
from ...finding import HIGH, Finding
from ...rule import Rule

RULE = Rule("XLA818", "ignite", words=("ignite", "monai"))

_OLD = "ignite uses names that torch_xla removed, and raises an exception: call `xla.patch_ignite()` first"
_MIXED = "ignite has no mixed precision on XLA, and raises an exception: compute in float32 there, or write the step with `xla.autocast()` and pass it to `Engine`"
_BACKEND = "NCCL fails on XLA: start the processes with `xla.launch`, and call `xla.patch_ignite()` in each"
_OF_MONAI = "MONAI uses ignite if it is installed, and ignite uses names that torch_xla removed: call `xla.patch_ignite()` first"
_PARTS = ("contrib.", "engine.", "handlers.", "metrics.")
_MADE = (
    *(f"ignite.{part}" for part in _PARTS),
    "monai.engines.",
    "monai.handlers.",
    "monai.metrics.",
)


@RULE.file
def patched(script: Script) -> Iterator[Finding]:
    """Report engines, metrics and handlers that may be made before `xla.patch_ignite()` is called."""
    calls = [(c, script.dotted(c.func, scope) or "") for c, scope in script.index.of(ast.Call)]
    made = {dotted for _, dotted in calls if dotted.startswith(_MADE)}
    for call, dotted in calls:
        edit = patched_before(script, call, "patch_ignite", made) if dotted in made else None
        if edit is not None:
            message = _OF_MONAI if dotted.startswith("monai.") else _OLD
            yield RULE.finding(script, call, message, edit)


@RULE.call("ignite.engine.create_supervised_trainer", "ignite.engine.create_supervised_evaluator")
def made(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    mode, scaler = keyword(call, "amp_mode"), keyword(call, "scaler")
    if mode is None or asks_runtime(script, mode):
        return
    if is_literal(mode, None):
        return
    elsewhere = f'{script.xla}.device_type() != "xla"'
    edits: list[Edit] = [Replace(mode, f"{{0}} if {elsewhere} else None", (mode,))]
    if scaler is not None and is_literal(scaler, True):
        edits.append(Replace(scaler, elsewhere))
    elif not (scaler is None or is_off(scaler)):
        edits = []
    yield RULE.finding(script, mode, _MIXED, *edits)


@RULE.call(
    "ignite.distributed.Parallel", "ignite.distributed.initialize", "ignite.distributed.spawn"
)
def processes(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    backend = keyword(call, "backend") or next(iter(call.args), None)
    if is_literal(backend, "nccl"):
        yield RULE.finding(script, backend, _BACKEND, effort=HIGH)
