"""A model is exported from the CPU.

torch.onnx.export and torch.jit.save fail on XLA tensors, or bake the device into the file. Move the model and its
example inputs to the CPU before: `model.cpu()`, or export a copy of it.

```python
import torch
from xla_migrate import runtime as xla

def export(model, x, path):
    torch.onnx.export(model.to(xla.xla_device()), x, path)
```

`torch.jit.trace`, and TensorBoard's `add_graph`, which uses it, fail on convolutions on XLA that gradients are recorded of.
They work on the CPU, and under `torch.no_grad()`:

```python
import torch
from xla_migrate import runtime as xla

def trace(model, x, writer):
    with torch.no_grad():
        writer.add_graph(model.to(xla.xla_device()), x)
        return torch.jit.trace(model, x)
```

What is on the CPU already is no finding.

```python
import torch
from xla_migrate import runtime as xla

def export(model, x, path):
    print(xla.device_type())
    model.cpu()
    torch.onnx.export(model, x, path)
    torch.jit.save(torch.jit.script(model.to("cpu")), path)
```
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...findings import MEDIUM, WARNING, Finding
from ...nodes import walk
from ...rule import Rule

if TYPE_CHECKING:
    from ...names import Scope
    from ...script import Script

RULE = Rule("XLA705", "export", effort=MEDIUM)

_NAMES = (
    "torch.onnx.export",
    "torch.onnx._export",
    "torch.onnx.dynamo_export",
    "torch.onnx.utils.export",
    "torch.jit.save",
    "torch.export.save",
)


@RULE.call(*_NAMES)
def export(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    if script.accelerated and not _is_on_the_cpu(script, call):
        name = script.dotted(call.func, scope)
        message = f"{name} needs a model and inputs on the CPU: move them there before"
        yield RULE.at(script, call, message)


@RULE.call("torch.jit.trace", "torch.jit.trace_module")
def trace(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    yield from _traced(script, call, "torch.jit.trace")


@RULE.method("add_graph")
def add_graph(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    """`writer.add_graph(model, images)`."""
    if (
        call.args
        and not isinstance(call.args[0], ast.Constant)
        and "ensorboard" in script.source.text
    ):
        yield from _traced(script, call, "add_graph")


def _traced(script: Script, call: ast.Call, name: str) -> Iterator[Finding]:
    if not script.accelerated or script.training.is_inference(call):
        return
    if not _is_on_the_cpu(script, call):
        message = (
            f"`{name}` fails on convolutions on XLA with gradients: put it under `torch.no_grad()`"
        )
        yield RULE.at(script, call, message, severity=WARNING)


def _is_on_the_cpu(script: Script, call: ast.Call) -> bool:
    """Whether the function around `call` moves something to the CPU before it, or in it."""
    function = script.function(call) or script.tree
    for node in walk(function):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.lineno > (call.end_lineno or call.lineno):
                continue
            if node.func.attr == "cpu" or (
                node.func.attr == "to"
                and any(isinstance(a, ast.Constant) and a.value == "cpu" for a in node.args)
            ):
                return True
    return False
