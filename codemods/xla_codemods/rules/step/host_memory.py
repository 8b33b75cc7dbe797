"""XLA tensors have no memory that others could read.

DLPack and shared memory fail on them (xla-facts section 2), and quantized tensors come out on the CPU: go there before,
with `x.cpu()`.
Processes do not share a model on the device either; each trains its own, and gradients are averaged.

```diff
 import torch
 from torch.utils.dlpack import to_dlpack
+from xla_migrate import runtime as xla

 def hand_over(x):
-    return to_dlpack(x.cuda())
+    return to_dlpack(x.to(xla.xla_device()))
```

What the CPU holds can be shared.

```python
import torch
from torch.utils.dlpack import to_dlpack
from xla_migrate import runtime as xla

def hand_over(x):
    print(xla.device_type())
    return to_dlpack(x.cpu()), torch.ones(2).share_memory_()
```
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...findings import MEDIUM, Finding
from ...rule import Rule
from ...values import HOST, MODULE, TENSOR

if TYPE_CHECKING:
    from ...names import Scope
    from ...script import Script

RULE = Rule("XLA515", "host-memory", effort=MEDIUM)


@RULE.call(
    "torch.utils.dlpack.to_dlpack",
    "torch.to_dlpack",
    "torch._C._to_dlpack",
)
def packed(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    if script.accelerated and call.args and not script.value(call.args[0], scope).has(HOST):
        name = (script.dotted(call.func, scope) or "").rpartition(".")[2]
        yield RULE.at(script, call, f"{name} fails on XLA tensors: take `.cpu()` of them first")


@RULE.call("torch.quantize_per_tensor", "torch.quantize_per_channel")
def quantized(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    if call.args and script.on_accelerator(call.args[0]):
        name = (script.dotted(call.func, scope) or "").rpartition(".")[2]
        yield RULE.at(
            script, call, f"{name} has no kernel for XLA: take `.cpu()` of the tensor first"
        )


@RULE.method("share_memory_", "share_memory")
def shared(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    assert isinstance(call.func, ast.Attribute)
    value = script.value(call.func.value, scope)
    if not script.accelerated or value.has(HOST) or not value.kinds & {TENSOR, MODULE}:
        return
    message = "what is on the device cannot be shared between processes: let each train its own"
    yield RULE.at(script, call, message)
