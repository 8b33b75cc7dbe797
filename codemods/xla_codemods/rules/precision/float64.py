"""Accelerators hardly have float64.

TPUs emulate float64, slowly, and Trainium has none (xla-facts 3.38). Sums and counters that are kept in float64 on the
device are mostly as good in float32; what must be float64 belongs on the CPU. Which it is, a person knows.

```diff
 import torch
+from xla_migrate import runtime as xla

-totals = torch.zeros(3, dtype=torch.float64, device="cuda")
+totals = torch.zeros(3, dtype=torch.float64, device=xla.xla_device())
```

On the CPU it stays.

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
from typing import TYPE_CHECKING

from ...findings import WARNING, Finding
from ...rule import Rule
from ...syntax import keyword
from ...values import ACCEL, DEVICE, HOST, TENSOR
from .half import converted_to

if TYPE_CHECKING:
    from ...names import Scope
    from ...script import Script

RULE = Rule("XLA209", "float64", severity=WARNING)

_DOUBLE = frozenset({"torch.float64", "torch.double"})
_MESSAGE = "TPUs emulate float64, and Trainium has none: use float32, or the CPU"


@RULE.method("double")
def double(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    assert isinstance(call.func, ast.Attribute)
    owner = call.func.value
    if _on_the_device(script, owner, scope) and not call.args:
        yield RULE.at(script, call, _MESSAGE)


@RULE.method("to", "type")
def converted(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    assert isinstance(call.func, ast.Attribute)
    if _on_the_device(script, call, scope) or _on_the_device(script, call.func.value, scope):
        for node in converted_to(script, call, scope, _DOUBLE):
            yield RULE.at(script, node, _MESSAGE)


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
        yield RULE.at(script, node.value, _MESSAGE)


def _on_the_device(script: Script, node: ast.expr, scope: Scope) -> bool:
    value = script.value(node, scope)
    return value.has(TENSOR) and value.has(ACCEL)
