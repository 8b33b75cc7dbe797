"""A model is exported from the CPU.

torch.onnx.export and torch.jit.save fail on XLA tensors, or bake the device into the file. Move the model and its
example inputs to the CPU before: `model.cpu()`, or export a copy of it.

```python
import torch
from xla_migrate import runtime as xla

def export(model, x, path):
    torch.onnx.export(model.to(xla.xla_device()), x, path)
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

from ...findings import MEDIUM, Finding
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


def _is_on_the_cpu(script: Script, call: ast.Call) -> bool:
    """Whether the function around `call` moves something to the CPU before it, or in it."""
    function = script.function(call) or script.tree
    for node in ast.walk(function):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.lineno > (call.end_lineno or call.lineno):
                continue
            if node.func.attr == "cpu" or (
                node.func.attr == "to"
                and any(isinstance(a, ast.Constant) and a.value == "cpu" for a in node.args)
            ):
                return True
    return False
