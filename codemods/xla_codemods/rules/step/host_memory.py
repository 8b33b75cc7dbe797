"""An XLA tensor has no memory that other code could read.

## What it reports

DLPack, shared memory and quantization of XLA tensors, tensors that are resized in place, and
models that processes share.

## Why it matters on XLA

DLPack and shared memory fail on XLA tensors. Quantized tensors end on the CPU. Processes cannot
share a model on the device.

## What to do

Fix: none.

Move the tensor to the CPU first (`x.cpu()`). Give each process a separate model, and average
the gradients.

## Example

```diff
 import torch
 from torch.utils.dlpack import to_dlpack
+from xla_migrate import runtime as xla

 def hand_over(x):
-    return to_dlpack(x.cuda())  # XLA515
+    return to_dlpack(x.to(xla.xla_device()))  # XLA515
```

A tensor that became smaller in place cannot grow again: growing fails or gives zeros (fact 3.66).

```diff
 import torch
+from xla_migrate import runtime as xla

-held = torch.empty(1, device="cuda")
+held = torch.empty(1, device=xla.xla_device())
 for x in batches:
     held.resize_(x.size()).copy_(x)  # XLA515
```

Tensors on the CPU are not reported:

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

from ...analysis.inference.values import HOST, MODULE, TENSOR
from ...analysis.scopes import Scope
from ...analysis.script import Script
from ...finding import MEDIUM, WARNING, Finding
from ...flow.conditions import is_excluded
from ...patterns import Pattern
from ...rule import MethodCall, Rule

RULE = Rule("XLA515", "host-memory", of_what_runs=True, effort=MEDIUM)


@RULE.call(
    "torch.utils.dlpack.to_dlpack",
    "torch.to_dlpack",
    "torch._C._to_dlpack",
)
def packed(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    if script.accelerated and call.args and not _is_on_the_host(script, call.args[0]):
        name = (script.dotted(call.func, scope) or "").rpartition(".")[2]
        yield RULE.finding(
            script, call, f"{name} fails on XLA tensors: call `.cpu()` on them first"
        )


def _is_on_the_host(script: Script, node: ast.expr) -> bool:
    """True if `node` is known to be on the CPU: by its value, or as what `.cpu()` gives."""
    if script.value(node).has(HOST):
        return True
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "cpu"
    )


@RULE.call("torch.quantize_per_tensor", "torch.quantize_per_channel")
def quantized(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    if call.args and script.on_accelerator(call.args[0]):
        name = (script.dotted(call.func, scope) or "").rpartition(".")[2]
        yield RULE.finding(
            script, call, f"{name} has no XLA kernel: call `.cpu()` on the tensor first"
        )


@RULE.method("share_memory_", "share_memory")
def shared(script: Script, call: MethodCall, scope: Scope) -> Iterator[Finding]:
    value = script.value(call.func.value, scope)
    if not script.accelerated or value.has(HOST) or not value.kinds & {TENSOR, MODULE}:
        return
    function = script.function(call)
    if function is not None and function.name == call.func.attr:
        return  # an override, which is reported at its calls
    if _is_kept_from_the_device(script, call):
        return
    message = "XLA tensors cannot be shared between processes: create a model in each process"
    yield RULE.finding(script, call, message)


_ONCE_A_TURN = (
    ast.For,
    ast.AsyncFor,
    ast.While,
    ast.FunctionDef,
    ast.AsyncFunctionDef,
    ast.Lambda,
    ast.Module,
)


@RULE.method("resize_", "resize_as_")
def resized(script: Script, call: MethodCall, scope: Scope) -> Iterator[Finding]:
    if script.on_accelerator(call.func.value) and not _is_new_each_time(script, call):
        message = f"a tensor that `{call.func.attr}` made smaller cannot grow again on XLA: create a new tensor"
        yield RULE.finding(script, call, message, severity=WARNING)


def _is_new_each_time(script: Script, call: MethodCall) -> bool:
    """Return True if the tensor is made next to its resize, in the same turn of the loop: it has had one size only."""
    owner = call.func.value
    bindings = script.bindings(owner)
    around = next(a for a in script.ancestors(call) if isinstance(a, _ONCE_A_TURN))
    return bool(bindings) and all(
        b.how == "assign" and around in script.ancestors(b.node) for b in bindings
    )


_NOT_THERE = Pattern(
    r"not [\w.]+\.is_cuda\b|\.device(?:\.type)? ?== ?.(?:cpu|torch\.device\(.cpu.\))|\.is_cpu\b"
)


def _is_kept_from_the_device(script: Script, call: ast.Call) -> bool:
    """True if a test around `call` lets tensors of the CPU pass alone: `if not x.is_cuda:`, `if x.device.type == "cpu":`."""

    def known(part: ast.expr) -> bool | None:
        is_other = not isinstance(part, ast.BoolOp) and _NOT_THERE.search(ast.unparse(part))
        return False if is_other else None

    return is_excluded(script, call, known)
