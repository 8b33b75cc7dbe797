"""float64 is slow on TPUs and does not exist on Trainium.

## What it reports

float64 tensors on the accelerator.

## Why it matters on XLA

TPUs emulate float64, and Trainium does not have it.

## What to do

Fix: none.

Use float32, which is accurate enough for most sums and counters. Compute values that need float64
on the CPU. Arrays of numpy are float64 by default: convert tensors that are created from them
before you move them (`torch.from_numpy(betas).float().to(device)`).

## Example

```diff
 import torch
+from xla_migrate import runtime as xla

-totals = torch.zeros(3, dtype=torch.float64, device="cuda")  # XLA209
+totals = torch.zeros(3, dtype=torch.float64, device=xla.xla_device())  # XLA209
```

float64 on the CPU is not reported:

```python
import torch
from xla_migrate import runtime as xla

mean = torch.ones(2).double().mean()
grid = torch.linspace(0, 1, 5, dtype=torch.float64)
print(xla.device_type(), mean, grid)
```
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...analysis.devices.owners import has_own_method
from ...analysis.devices.specs import device_argument
from ...analysis.inference.values import ACCEL, DEVICE, DOUBLE, HOST, MODULE, TENSOR
from ...analysis.scopes import Scope
from ...analysis.script import Script
from ...analysis.syntax import keyword
from ...analysis.training.tensors.kept_half import converted_to
from ...finding import WARNING, Finding
from ...rule import MethodCall, Rule

RULE = Rule("XLA209", "float64", severity=WARNING)

_DOUBLE = frozenset({"torch.float64", "torch.double"})
_MESSAGE = (
    "float64 is slow on TPUs and does not exist on Trainium: use float32, or compute on the CPU"
)


@RULE.method("double")
def double(script: Script, call: MethodCall, scope: Scope) -> Iterator[Finding]:
    owner = call.func.value
    if call.args or has_own_method(script, owner, "double"):
        return
    if _on_the_device(script, owner, scope) or _is_a_moved_module(script, call, owner):
        yield RULE.finding(script, call, _MESSAGE)


@RULE.method("to", "type", "cuda")
def converted(script: Script, call: MethodCall, scope: Scope) -> Iterator[Finding]:
    owner = call.func.value
    if _on_the_device(script, call, scope) or _on_the_device(script, owner, scope):
        for node in converted_to(script, call, _DOUBLE):
            yield RULE.finding(script, node, _MESSAGE)
        if _comes_as_double(script, call, owner, scope):
            yield RULE.finding(script, call, _MESSAGE)


def _comes_as_double(script: Script, call: ast.Call, owner: ast.expr, scope: Scope) -> bool:
    """True if `call` brings to the device what is float64 on the host, as tensors made of numpy's arrays are."""
    value = script.value(owner, scope)
    return (
        value.has(DOUBLE)
        and value.has(HOST)
        and script.value(call, scope).has(DOUBLE)
        and keyword(call, "dtype") is None
    )


def _is_a_moved_module(script: Script, call: ast.Call, owner: ast.expr) -> bool:
    """True if `owner` is a module that is moved to the device: before or after `call`, or in other statements."""
    if not script.value(owner).has(MODULE) or not script.runs_accelerated:
        return False
    statement = script.statement(call)
    names = {ast.unparse(owner)}
    if isinstance(statement, ast.Assign):
        names |= {ast.unparse(target) for target in statement.targets}
    moves = (*script.index.calls_of("to"), *script.index.calls_of("cuda"))
    return any(
        _moves_to_the_device(script, move)
        and isinstance(move.func, ast.Attribute)
        and (script.statement(move) is statement or ast.unparse(move.func.value) in names)
        for move, _ in moves
    )


def _moves_to_the_device(script: Script, call: ast.Call) -> bool:
    if isinstance(call.func, ast.Attribute) and call.func.attr == "cuda":
        return True
    device = device_argument(call)
    return device is not None and script.value(device).has(ACCEL)


@RULE.call("torch.set_default_dtype", "torch.set_default_tensor_type")
def default(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    """`torch.set_default_dtype(torch.float64)`, in a program that trains on an accelerator."""
    if script.is_trained and script.runs_accelerated and call.args:
        given = call.args[0]
        name = given.value if isinstance(given, ast.Constant) else script.dotted(given, scope)
        if name in {*_DOUBLE, "torch.DoubleTensor"}:
            yield RULE.finding(script, call, _MESSAGE)


@RULE.call("torch.tensor", "torch.as_tensor", "torch.asarray")
def of_arrays(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    """`torch.tensor(array, device=device)`."""
    if call.args and keyword(call, "dtype") is None:
        value = script.value(call, scope)
        if value.has(DOUBLE) and value.has(ACCEL):
            yield RULE.finding(script, call, _MESSAGE)


@RULE.node(ast.keyword, named=("dtype",))
def created(script: Script, node: ast.keyword, scope: Scope) -> Iterator[Finding]:
    """`torch.zeros(..., dtype=torch.float64, device=device)`."""
    call = script.parent(node)
    if not isinstance(call, ast.Call):
        return
    if script.dotted(node.value, scope) not in _DOUBLE:
        return
    device = keyword(call, "device")
    where = script.value(device, scope)
    if device is not None and where.has(DEVICE) and not where.has(HOST):
        yield RULE.finding(script, node.value, _MESSAGE)


def _on_the_device(script: Script, node: ast.expr, scope: Scope) -> bool:
    value = script.value(node, scope)
    return value.has(TENSOR) and value.has(ACCEL)
