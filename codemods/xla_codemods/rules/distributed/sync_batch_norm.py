"""`SyncBatchNorm` is an ordinary batch norm on XLA.

## What it reports

`torch.nn.SyncBatchNorm` and `convert_sync_batchnorm` of PyTorch, timm and apex.

## Why it matters on XLA

PyTorch's layer synchronises only CUDA devices. On XLA, each replica silently uses its own
statistics.

## What to do

Fix: safe.

Use the runtime's layer, which computes statistics over all replicas on each backend. On CUDA it
is PyTorch's layer.

## Example

```diff
 import torch
+from xla_migrate import runtime as xla

 def convert(model):
-    model = torch.nn.SyncBatchNorm.convert_sync_batchnorm(model)
+    model = xla.convert_sync_batchnorm(model)
     return model
```

timm's function keeps its layers with activations. The runtime converts its result:

```diff
 from timm.layers import convert_sync_batchnorm
+from xla_migrate import runtime as xla

 def convert(model):
-    return convert_sync_batchnorm(model.cuda())
+    return xla.convert_sync_batchnorm(convert_sync_batchnorm(model.to(xla.xla_device())))
```

Ordinary batch norms are not reported:

```python
from torch import nn

layer = nn.BatchNorm2d(8)
```
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...analysis.inference import library_types
from ...analysis.scopes import Scope
from ...analysis.script import Script
from ...analysis.type_tests import is_about_types
from ...edits import Replace
from ...finding import Finding
from ...rule import Rule

RULE = Rule("XLA609", "sync-batch-norm")

_CLASSES = (
    "torch.nn.SyncBatchNorm",
    "torch.nn.modules.batchnorm.SyncBatchNorm",
    "apex.parallel.SyncBatchNorm",
)
_TIMM = ("layers", "layers.norm_act", "models.layers", "models.layers.norm_act")
_CONVERTED = f"{library_types.RUNTIME}.convert_sync_batchnorm"
_MESSAGE = "PyTorch's `SyncBatchNorm` does not synchronise XLA devices: use the runtime's `xla.convert_sync_batchnorm`"


@RULE.call(
    "torch.nn.SyncBatchNorm.convert_sync_batchnorm",
    "torch.nn.modules.batchnorm.SyncBatchNorm.convert_sync_batchnorm",
    "apex.parallel.convert_syncbn_model",
)
def convert(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    yield RULE.finding(
        script, call, _MESSAGE, Replace(call.func, f"{script.xla}.convert_sync_batchnorm")
    )


@RULE.call(*(f"timm.{home}.convert_sync_batchnorm" for home in _TIMM))
def timms(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    around = script.parent(call)
    if isinstance(around, ast.Call) and script.dotted(around.func, scope) == _CONVERTED:
        return
    edit = Replace(call, f"{script.xla}.convert_sync_batchnorm({{0}})", (call,))
    yield RULE.finding(script, call, _MESSAGE, edit)


@RULE.call(*_CLASSES)
def made(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    yield RULE.finding(script, call, _MESSAGE, Replace(call.func, f"{script.xla}.SyncBatchNorm"))


@RULE.reference(*_CLASSES)
def named(script: Script, node: ast.expr, scope: Scope) -> Iterator[Finding]:
    if isinstance(script.parent(node), ast.Attribute):
        return
    if is_about_types(script, node, scope):  # the runtime's derives from torch's
        if (script.dotted(node, scope) or "").startswith("apex."):
            name = script.spell("torch.nn.SyncBatchNorm", scope)
            yield RULE.finding(script, node, "apex needs CUDA", Replace(node, name))
        return
    yield RULE.finding(script, node, _MESSAGE, Replace(node, f"{script.xla}.SyncBatchNorm"))
