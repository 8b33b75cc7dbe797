"""timm's helpers for several processes and for averages of weights need CUDA devices.

## What it reports

`init_distributed_device` and `ModelEmaV3` of timm.

## Why it matters on XLA

`init_distributed_device` uses the local rank as the index of a device and connects processes with
gloo, which does nothing to XLA tensors (fact 3.9). `ModelEmaV3` creates a random generator on the
model's device, which XLA does not have (fact 1.33).

## What to do

Fix: safe.

Use `xla.init_distributed_device` and `xla.ModelEmaV3`, which do the same.

## Example

```diff
 import torch
-from timm import utils
+from xla_migrate import runtime as xla

 def build(args, model):
-    device = utils.init_distributed_device(args)
+    device = xla.init_distributed_device(args)
     model.to(device=device)
-    return utils.ModelEmaV3(model, decay=args.decay)
+    return xla.ModelEmaV3(model, decay=args.decay)
```

timm's other functions use the process group. They are not reported:

```python
from timm import utils

def log(args, model, loss):
    utils.distribute_bn(model, args.world_size, True)
    return utils.reduce_tensor(loss.data, args.world_size)
```
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...analysis.scopes import Scope
from ...analysis.script import Script
from ...edits import Replace
from ...finding import MEDIUM, Finding
from ...rule import Rule

RULE = Rule("XLA811", "timm-processes")

_INIT, _AVERAGES = "init_distributed_device", "ModelEmaV3"


@RULE.call(f"timm.utils.{_INIT}", f"timm.utils.distributed.{_INIT}")
def init(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    edit = Replace(call.func, f"{script.xla}.{_INIT}")
    yield RULE.finding(
        script,
        call,
        "timm uses the local rank as the index of a CUDA device, which fails on an XLA host: use `xla.init_distributed_device`",
        edit,
    )


@RULE.call(f"timm.utils.{_INIT}_so", f"timm.utils.distributed.{_INIT}_so")
def init_of_values(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    message = "timm uses the local rank as the index of a CUDA device, which fails on an XLA host: use `xla.init_distributed_device(args)`"
    yield RULE.finding(script, call, message, effort=MEDIUM)


@RULE.call(f"timm.utils.{_AVERAGES}", f"timm.utils.model_ema.{_AVERAGES}")
def averages(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    edit = Replace(call.func, f"{script.xla}.{_AVERAGES}")
    yield RULE.finding(
        script,
        call,
        "timm creates a random generator on the device, which fails on XLA: use the runtime's class",
        edit,
    )
