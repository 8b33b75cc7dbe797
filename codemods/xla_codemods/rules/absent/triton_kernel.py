"""A kernel written in triton is compiled for CUDA.

One finding stands at each kernel. Write what it computes with torch's operations, which XLA fuses; where that is too
slow, as a kernel for the device: Pallas on TPU (`torch_xla.experimental.custom_kernel`), NKI on Trainium.

```python
import triton
import triton.language as tl

@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):  # XLA903
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(out + offsets, tl.load(x + offsets, mask) + tl.load(y + offsets, mask), mask)
```

Other decorators of the same name are none of ours:

```python
import torch

@torch.jit.script
def add(x, y):
    return x + y
```
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...analysis.devices.guards import is_guarded
from ...fallback import leftovers
from ...finding import HIGH, INFO, LOW, Finding
from ...rule import Rule, Unhandled

if TYPE_CHECKING:
    from ...analysis.scopes import Scope
    from ...analysis.script import Script

RULE = Rule("XLA903", "triton-kernel", effort=HIGH)

_JIT = "triton.jit"


@RULE.reference(_JIT, "triton.runtime.jit.jit", mentions=("triton",))
def kernel(script: Script, node: ast.expr, scope: Scope) -> Iterator[Finding]:
    parent = script.parent(node)
    if isinstance(parent, ast.FunctionDef) and node in parent.decorator_list:
        yield from _kernel(script, parent)


@RULE.call(_JIT, "triton.runtime.jit.jit", mentions=("triton",))
def kernel_with_options(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    yield from kernel(script, call, scope)


def _kernel(script: Script, function: ast.FunctionDef) -> Iterator[Finding]:
    message = (
        f"the kernel `{function.name}` does not run on XLA: write it with torch's operations, "
        "or as a Pallas or NKI kernel"
    )
    if is_guarded(script, function.decorator_list[0], _JIT):
        yield RULE.finding(script, function, message, severity=INFO, effort=LOW)
    else:
        yield RULE.finding(script, function, message)


@RULE.fallback
def triton_kernel(script: Script, unhandled: Unhandled) -> Iterator[Finding]:
    """What else is used of triton, in files that define no kernel (launch grids and the like)."""
    if not any(finding.code == RULE.code for finding in unhandled.found):
        yield from leftovers(RULE, script, unhandled, HIGH)
