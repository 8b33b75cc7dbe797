"""A default of CUDA makes every new tensor fail on an XLA host.

`torch.set_default_device` takes the accelerator; a default tensor type is a default device and data type.

```diff
 import torch
+from xla_migrate import runtime as xla

-torch.set_default_device("cuda")
+torch.set_default_device(xla.xla_device())
```

```diff
 import torch
+from xla_migrate import runtime as xla

 def setup(use_cuda):
     if use_cuda:
-        torch.set_default_tensor_type("torch.cuda.FloatTensor")
+        torch.set_default_device(xla.xla_device())
     else:
         torch.set_default_tensor_type(torch.FloatTensor)
```

```diff
 import torch
+from xla_migrate import runtime as xla

-torch.set_default_tensor_type("torch.cuda.FloatTensor" if torch.cuda.is_available() else "torch.FloatTensor")
+torch.set_default_device(xla.xla_device())
```

Modules are then initialised on the device, from its own generator: the numbers are others than those drawn on the
CPU from the same seed (xla-facts 1.33), as they are with CUDA. `torch.Tensor(...)` obeys a default type but not a
default device: where a file calls it, the fix is unsafe.

```python
import torch

torch.set_default_device("cpu")
torch.set_default_dtype(torch.float64)
```
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...availability import asks_availability
from ...edits import Replace, ReplaceStatement
from ...findings import SAFE, UNSAFE, Finding
from ...rule import Rule
from ...syntax import keyword
from ...tensor_types import cuda_type
from ...values import DEVICE, GIVEN

if TYPE_CHECKING:
    from ...names import Scope
    from ...script import Script

RULE = Rule("XLA109", "default-device")

_MESSAGE = "the default is a CUDA device"


@RULE.call("torch.set_default_device")
def set_default_device(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    device = call.args[0] if call.args else keyword(call, "device")
    if device is None:
        return
    spec = script.places.spec(device)
    if spec is not None:
        text, holes = script.devices.device(spec)
        yield RULE.at(script, call, _MESSAGE, Replace(device, text, holes))
    elif script.devices.is_index(device) or _is_given(script, device):
        edit = Replace(device, f"{script.xla}.xla_device({{0}})", (device,))
        yield RULE.at(script, call, _MESSAGE, edit)


def _is_given(script: Script, device: ast.expr) -> bool:
    value = script.value(device)
    return value.has(GIVEN) and not value.has(DEVICE)


@RULE.call("torch.set_default_tensor_type", "torch.tensortype")
def set_default_tensor_type(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    if len(call.args) != 1:
        return
    given = call.args[0]
    chosen = (given.body, given.orelse) if isinstance(given, ast.IfExp) else (given,)
    types = [found for part in chosen if (found := cuda_type(script, part)) is not None]
    if not types:
        return
    if (
        not script.is_statement(call)
        or len(types) != 1
        or (len(chosen) == 2 and chosen[0] is not types[0].node)
    ):
        yield RULE.at(
            script, call, "the default tensor type is CUDA's: set a default device instead"
        )
        return
    torch = script.spell("torch", scope)
    lines = f"{torch}.set_default_device({script.xla}.xla_device())"
    holes: tuple[ast.expr, ...] = ()
    if isinstance(given, ast.IfExp) and not asks_availability(script, given.test):
        lines = f'{torch}.set_default_device({script.xla}.xla_device() if {{0}} else "cpu")'
        holes = (given.test,)
    if types[0].dtype != "float32":
        lines += f"\n{torch}.set_default_dtype({torch}.{types[0].dtype})"
    safety = UNSAFE if _makes_plain_tensors(script) else SAFE
    edit = ReplaceStatement(script.statement(call), lines, holes)
    yield RULE.at(script, call, "the default tensor type is CUDA's", edit, safety=safety)


def _makes_plain_tensors(script: Script) -> bool:
    """Whether the file calls `torch.Tensor(...)`, which a default device does not reach."""
    return any(
        script.dotted(call.func, scope) == "torch.Tensor"
        for call, scope in script.index.calls_of("Tensor")
    )
