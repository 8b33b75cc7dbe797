"""`istft` ends the process on XLA.

## What it reports

`torch.istft` and `Tensor.istft` of tensors on the device.

## Why it matters on XLA

The process ends with a failed check and without an exception (fact 3.63).

## What to do

Fix: none.

Compute it on the CPU, and move the result. Gradients flow through both copies.

## Example

```diff
 import torch
+from xla_migrate import runtime as xla

 def speech(model, noise, window):
-    spectrum = model(noise.cuda())
+    spectrum = model(noise.to(xla.xla_device()))
     return torch.istft(spectrum, 512, window=window)  # XLA917
```

`istft` on the CPU is not reported:

```python
import torch
from xla_migrate import runtime as xla

def speech(model, noise, window):
    spectrum = model(noise.to(xla.xla_device()))
    wave = torch.istft(spectrum.cpu(), 512, window=window.cpu())
    return wave.to(xla.xla_device())
```
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...analysis.inference.values import HOST
from ...analysis.syntax import keyword
from ...finding import Finding
from ...flow.closure import all_ends
from ...flow.edges import sources
from ...rule import MethodCall, Rule

if TYPE_CHECKING:
    from ...analysis.scopes import Scope
    from ...analysis.script import Script

RULE = Rule("XLA917", "inverse-stft")

_MESSAGE = "`istft` ends the process on XLA: compute it on the CPU, `torch.istft(x.cpu(), ..., window=window.cpu())`, and move the result"


@RULE.call("torch.istft")
def function(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    spectrum = call.args[0] if call.args else keyword(call, "input")
    if spectrum is not None:
        yield from _of(script, call, spectrum)


@RULE.method("istft")
def method(script: Script, call: MethodCall, scope: Scope) -> Iterator[Finding]:
    spectrum = call.func.value
    if not (script.defines(spectrum, "istft") or _is_no_tensor(script, spectrum, scope)):
        yield from _of(script, call, spectrum)


def _of(script: Script, call: ast.Call, spectrum: ast.expr) -> Iterator[Finding]:
    if script.runs_accelerated and not _is_on_the_host(script, spectrum):
        yield RULE.finding(script, call, _MESSAGE)


def _is_on_the_host(script: Script, spectrum: ast.expr) -> bool:
    """Return True if `spectrum` is on the host whatever branch made it: `x.cpu()`, of whatever `x` is, or a name for it."""

    def is_there(end: ast.expr) -> bool:
        match end:
            case ast.Call(func=ast.Attribute(attr="cpu")):
                return True
        return script.value(end).has(HOST)

    return all_ends([spectrum], lambda node: sources(script, node), is_there)


def _is_no_tensor(script: Script, owner: ast.expr, scope: Scope) -> bool:
    """A module such as `librosa`, or an object of a class of the program's."""
    is_own = isinstance(owner, ast.Name) and owner.id in {"self", "cls"}
    return (
        is_own
        or script.dotted(owner, scope) is not None
        or script.is_neither_tensor_nor_module(owner, scope)
    )
