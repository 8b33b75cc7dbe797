"""A model is exported from the CPU.

torch.onnx.export and torch.jit.save fail on XLA tensors, or bake the device into the file. `xla.on_cpu` gives copies on
the CPU; the model stays where it is.

```diff
 import torch
+from xla_migrate import runtime as xla

 def export(model, x, path):
     model.eval()
-    x = x.cuda()
-    torch.onnx.export(model, (x, None), path)
+    x = x.to(xla.xla_device())
+    torch.onnx.export(xla.on_cpu(model), (xla.on_cpu(x), None), path)
```

What is traced already knows its device:

```python
import torch
from xla_migrate import runtime as xla

def export(model, x, path):
    traced = torch.jit.script(model.to(xla.xla_device()))
    torch.jit.save(traced, path)  # XLA705
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
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...analysis.nodes import walk
from ...edits import Edit, Replace
from ...finding import MEDIUM, WARNING, Finding
from ...patterns import Pattern
from ...rule import Rule

if TYPE_CHECKING:
    from ...analysis.scopes import Scope
    from ...analysis.script import Script

RULE = Rule("XLA705", "export", effort=MEDIUM)

_NAMES = (
    "torch.onnx.export",
    "torch.onnx._export",
    "torch.onnx.dynamo_export",
    "torch.onnx.utils.export",
    "torch.jit.save",
    "torch.export.save",
)
_ONNX = frozenset({"torch.onnx.export", "torch.onnx.utils.export"})
_EXPORTED = frozenset({"args", "kwargs"})


@RULE.call(*_NAMES)
def export(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    if script.accelerated and not _is_on_the_cpu(script, call):
        name = script.dotted(call.func, scope)
        message = f"{name} fails with a model or inputs on XLA: move them to the CPU first"
        yield RULE.finding(script, call, message, *_copies(script, call, name))


def _copies(script: Script, call: ast.Call, name: str | None) -> Iterator[Edit]:
    """Copies of the model and its inputs are exported, where it can be seen which they are."""
    if name not in _ONNX or any(isinstance(a, ast.Starred) for a in call.args[:2]):
        return
    given = [*call.args[:2], *(k.value for k in call.keywords if k.arg in _EXPORTED)]
    if call.args and not isinstance(script.value(call.args[0]).definition, ast.FunctionDef):
        parts = [part for a in given for part in (a.elts if isinstance(a, ast.Tuple) else [a])]
        for argument in parts:
            if not isinstance(argument, ast.Constant):
                yield Replace(argument, f"{script.xla}.on_cpu({{0}})", (argument,))


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
    if not (_is_on_the_cpu(script, call) or _is_a_loss(script, call.args)):
        message = f"`{name}` fails on XLA for convolutions with gradients: call it under `torch.no_grad()`"
        yield RULE.finding(script, call, message, severity=WARNING)


_LOSS = Pattern(r"loss|criterion|metric|activation", re.IGNORECASE)


def _is_a_loss(script: Script, args: list[ast.expr]) -> bool:
    """What has no convolution: a loss, by its name or its class."""
    if not args:
        return False
    value = script.value(args[0]).definition
    made = value.name if isinstance(value, (ast.ClassDef, ast.FunctionDef)) else ""
    return any(_LOSS.search(text) for text in (ast.unparse(args[0]), made))


def _is_on_the_cpu(script: Script, call: ast.Call) -> bool:
    """True if the function around `call` moves something to the CPU before it, or in it."""
    if any(isinstance(n, ast.Attribute) and n.attr == "on_cpu" for n in walk(call)):
        return True
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
