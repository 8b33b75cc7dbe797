"""`.cuda()` moves to a device that an XLA host does not have.

`.to(xla.xla_device())` says the same of whichever accelerator there is. The index of `.cuda(3)` is handed on: it
means something on machines with several CUDA devices, and nothing where a process drives one XLA device.

```diff
 import torch
 from torch import nn
+from xla_migrate import runtime as xla

-model = nn.Linear(4, 2).cuda()
+model = nn.Linear(4, 2).to(xla.xla_device())
```

```diff
 from torch.utils.data import DataLoader
+from xla_migrate import runtime as xla

 def run(model, rank, dataset):
-    model.cuda(rank)
+    model.to(xla.xla_device(rank))
-    for images, labels in DataLoader(dataset):
+    for images, labels in xla.MpDeviceLoader(DataLoader(dataset)):
-        images = images.cuda(non_blocking=True)
+        images = images.to(xla.xla_device())
         model(images)
```

A class's own `cuda`, and the attribute `cuda` of anything, are left alone.

```python
import torch

class Wheel:
    def cuda(self):
        return self

print(Wheel().cuda(), torch.version.cuda)
```
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...devices import device_argument
from ...edits import Replace
from ...findings import Finding
from ...rule import Rule
from ...values import CLASS, INSTANCE, MODULE, TENSOR

if TYPE_CHECKING:
    from ...names import Scope
    from ...script import Script

RULE = Rule("XLA101", "cuda-method")


@RULE.method("cuda")
def cuda_method(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    assert isinstance(call.func, ast.Attribute)
    owner = call.func.value
    if _has_its_own(script, owner, scope) or call in script.training.moves_left_to_loops:
        return  # the latter is XLA405's: it does not belong there at all
    if not _takes_torchs_arguments(call):
        return
    text, holes = script.devices.given(device_argument(call))
    text = text.replace("{0}", "{1}")
    edit = Replace(call, f"{{0}}.to({script.xla}.xla_device({text}))", (owner, *holes))
    yield RULE.at(script, call, "`.cuda()` needs a CUDA device", edit)


def _has_its_own(script: Script, owner: ast.expr, scope: Scope) -> bool:
    """Whether `owner` is of a local class that is no tensor, no module, or defines `cuda` on its own."""
    value = script.value(owner, scope)
    if isinstance(value.definition, ast.ClassDef) and script.inference.method(
        value.definition, "cuda"
    ):
        return True
    return bool(value.kinds & {INSTANCE, CLASS}) and not value.kinds & {MODULE, TENSOR}


def _takes_torchs_arguments(call: ast.Call) -> bool:
    """Whether `call` is given what torch's `cuda` takes: a device, `non_blocking`, `memory_format`."""
    if len(call.args) > 2 or any(isinstance(a, ast.Starred) for a in call.args):
        return False
    return all(k.arg in {"device", "non_blocking", "memory_format"} for k in call.keywords)
