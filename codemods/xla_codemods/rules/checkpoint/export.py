"""Exporting a model on an XLA device fails.

## What it reports

`torch.onnx.export`, `torch.jit.save`, `torch.jit.trace` and TensorBoard's `add_graph` with models
or inputs on the device.

## Why it matters on XLA

Exports fail on XLA tensors or store the device in the file. `torch.jit.trace` fails for
convolutions that record gradients.

## What to do

Fix: safe, or none.

Use `xla.on_cpu`, which returns copies on the CPU. The model stays on the device.

## Example

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

A traced module has its device already. It is reported without a fix:

```python
import torch
from xla_migrate import runtime as xla

def export(model, x, path):
    traced = torch.jit.script(model.to(xla.xla_device()))
    torch.jit.save(traced, path)  # XLA705
```

`torch.jit.trace` and `add_graph` work under `torch.no_grad()`:

```python
import torch
from xla_migrate import runtime as xla

def trace(model, x, writer):
    with torch.no_grad():
        writer.add_graph(model.to(xla.xla_device()), x)
        return torch.jit.trace(model, x)
```

Models on the CPU are not reported:

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
from ...analysis.syntax import name_of
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
    """Export copies of the model and its inputs, if it is visible which they are."""
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
    if call.args and _has_no_convolution(script, call.args[0], 3):
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


_CONVOLVES = Pattern(r"conv|net\b|model|backbone|encoder|decoder|module\(|self\.", re.IGNORECASE)


def _has_no_convolution(script: Script, traced: ast.expr, depth: int) -> bool:
    """True if `traced` is surely made of torch's layers that are none, or a function that calls no module."""
    definition = script.value(traced).definition
    if isinstance(traced, ast.Lambda) or isinstance(definition, (ast.FunctionDef, ast.Lambda)):
        body = traced if isinstance(traced, ast.Lambda) else definition
        return body is not None and _CONVOLVES.search(ast.unparse(body)) is None
    if isinstance(definition, ast.ClassDef):
        text = ast.unparse(definition).lower()
        made = [n for n in walk(definition) if isinstance(n, ast.Call) and _makes(n)]
        of_torch = all(isinstance(b, (ast.Name, ast.Attribute)) for b in definition.bases) and {
            script.dotted(base) for base in definition.bases
        } <= {"torch.nn.Module", "torch.nn.Sequential"}
        return of_torch and "conv" not in text and all(_is_plain(script, n, depth) for n in made)
    made_of = traced if isinstance(traced, ast.Call) else _value_of(script, traced)
    return made_of is not None and _is_plain(script, made_of, depth)


def _makes(call: ast.Call) -> bool:
    func = call.func
    name = name_of(func)
    return name[:1].isupper()


def _is_plain(script: Script, made: ast.expr, depth: int) -> bool:
    """`nn.Linear(2, 2)`, `nn.Sequential(nn.Linear(2, 2), nn.ReLU()).to(device)`."""
    while (
        isinstance(made, ast.Call)
        and isinstance(made.func, ast.Attribute)
        and made.func.attr in {"to", "cuda", "train", "eval", "float"}
    ):
        made = made.func.value
    if isinstance(made, (ast.Name, ast.Attribute)) and depth >= 0:
        value = _value_of(script, made)
        return value is not None and _is_plain(script, value, depth - 1)
    if not isinstance(made, ast.Call) or depth < 0:
        return False
    dotted = script.dotted(made.func) or ""
    if dotted.startswith("torch.nn.") and "conv" not in dotted.lower():
        parts = [a for a in made.args if isinstance(a, ast.Call)]
        opaque = dotted in _HOLDERS and len(parts) < len(made.args)
        return not opaque and all(_is_plain(script, part, depth - 1) for part in parts)
    return isinstance(script.value(made).definition, ast.ClassDef) and _has_no_convolution(
        script, made, depth - 1
    )


_HOLDERS = frozenset({"torch.nn.Sequential", "torch.nn.ModuleList", "torch.nn.DataParallel"})


def _value_of(script: Script, node: ast.expr) -> ast.expr | None:
    """What the name or attribute `node` is given, if that is done once."""
    text = ast.unparse(node)
    given = [
        statement.value
        for statement in walk(script.tree)
        if isinstance(statement, ast.Assign)
        and any(ast.unparse(target) == text for target in statement.targets)
    ]
    return given[0] if len(given) == 1 else None


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
