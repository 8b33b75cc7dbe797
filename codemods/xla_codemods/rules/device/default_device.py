"""A CUDA default device or tensor type makes each new tensor fail on an XLA host.

## What it reports

`torch.set_default_device` with a CUDA device, and `torch.set_default_tensor_type` with a CUDA
type. Where a CUDA type is set, also `torch.Tensor(...)`.

## Why it matters on XLA

Each tensor that is created without `device=` would be created on a device that does not exist.

## What to do

Fix: safe.

Pass the accelerator to `torch.set_default_device`. A default tensor type is a default device and
a default data type.

## Example

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

`torch.Tensor(...)` follows a default type, but it ignores a default device. Its result is moved,
also in other modules of the program:

```diff
 import torch
+from xla_migrate import runtime as xla

-torch.set_default_tensor_type(torch.cuda.FloatTensor)
-far = torch.Tensor([1e10])
+torch.set_default_device(xla.xla_device())
+far = torch.Tensor([1e10]).to(torch.get_default_device())
```

Other defaults are not reported:

```python
import torch

torch.set_default_device("cpu")
torch.set_default_dtype(torch.float64)
```

## Limits

Modules are initialised on the device, with the device's random generator. Their values differ
from values drawn on the CPU with the same seed (fact 1.33). The same is true on CUDA.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...analysis.devices.availability import asks_availability
from ...analysis.devices.tensor_types import cuda_type, host_type
from ...analysis.inference.values import DEVICE, GIVEN
from ...analysis.nodes import walk
from ...analysis.scopes import Scope
from ...analysis.script import Script
from ...analysis.syntax import keyword
from ...edits import Replace, ReplaceStatement
from ...finding import Finding
from ...rule import Rule

RULE = Rule("XLA109", "default-device", of_what_runs=True)

_MESSAGE = "a CUDA device as the default makes every new tensor fail on an XLA host: use `xla.xla_device()`"


@RULE.call("torch.set_default_device")
def set_default_device(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    device = call.args[0] if call.args else keyword(call, "device")
    if device is None:
        return
    spec = script.device_literals.spec(device)
    if spec is not None:
        text, holes = script.devices.device(spec)
        yield RULE.finding(script, call, _MESSAGE, Replace(device, text, holes))
    elif script.devices.is_index(device) or _is_given(script, device):
        edit = Replace(device, f"{script.xla}.xla_device({{0}})", (device,))
        yield RULE.finding(script, call, _MESSAGE, edit)


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
        yield from _set_back(script, call, scope)
        return
    if (
        not script.is_statement(call)
        or len(types) != 1
        or (len(chosen) == 2 and chosen[0] is not types[0].node)
    ):
        yield RULE.finding(
            script,
            call,
            "a CUDA tensor type as the default fails on an XLA host: set a default device instead",
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
    edit = ReplaceStatement(script.statement(call), lines, holes)
    yield RULE.finding(
        script,
        call,
        "a CUDA tensor type as the default fails on an XLA host: use `torch.set_default_device`",
        edit,
    )


def _set_back(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    """The CPU's type, set where CUDA's was: the default device goes back, too. Not in the other branch of one `if`."""
    host = host_type(script, call.args[0])
    before = [c for c in _settings(script) if c.lineno < call.lineno]
    if host is None or not before or not script.is_statement(call):
        return
    around = script.parent(script.statement(call))
    if isinstance(around, ast.If) and script.statement(call) in around.orelse:
        return
    torch = script.spell("torch", scope)
    lines = f'{torch}.set_default_device("cpu")\n{torch}.set_default_dtype({torch}.{host.dtype})'
    edit = ReplaceStatement(script.statement(call), lines)
    yield RULE.finding(
        script,
        call,
        "a default device, which replaces the default tensor type, still puts new tensors here on the accelerator: reset the default device",
        edit,
    )


def _settings(script: Script) -> list[ast.Call]:
    """Return the calls that set a CUDA type."""
    found = script.index.calls_of("set_default_tensor_type")
    return [call for call, _ in found if _is_cuda(script, call)]


@RULE.call("torch.Tensor")
def legacy_constructor(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    match script.parent(call):
        case ast.Attribute(attr="to" | "cuda" | "cpu"):
            return
    if not (_settings(script) or script.project.has_cuda_default("torch.Tensor")):
        return
    device = f"{script.spell('torch', scope)}.get_default_device()"
    yield RULE.finding(
        script,
        call,
        "`torch.Tensor` follows a default type, and ignores a default device: move its result",
        Replace(call, f"{{0}}.to({device})", (call,)),
    )


def _is_cuda(script: Script, setting: ast.Call) -> bool:
    return any(
        cuda_type(script, node) is not None for node in walk(setting) if isinstance(node, ast.expr)
    )
