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
from collections.abc import Iterator, Sequence

from ...analysis.nodes import walk
from ...analysis.scopes import Scope
from ...analysis.script import Script
from ...analysis.syntax import is_literal, name_of
from ...edits import Edit, Replace
from ...finding import MEDIUM, WARNING, Finding
from ...flow.closure import reach
from ...flow.edges import sources
from ...patterns import Pattern
from ...rule import Rule

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
        for argument in given:
            parts = argument.elts if isinstance(argument, ast.Tuple) else [argument]
            copied = [part for part in parts if not isinstance(part, ast.Constant)]
            for whole in copied if len(copied) == 1 else [argument]:
                yield Replace(whole, f"{script.xla}.on_cpu({{0}})", (whole,))


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
    if call.args and _has_no_convolution(script, call.args[0]):
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


_SAME = frozenset({"to", "cuda", "train", "eval", "float"})
_HOLDERS = frozenset({"torch.nn.Sequential", "torch.nn.ModuleList", "torch.nn.DataParallel"})


def _has_no_convolution(script: Script, traced: ast.expr) -> bool:
    """Return True if `traced` is surely made of torch's layers that are none, or a function that calls no module."""
    parts = reach([traced], lambda part: _parts(script, part))
    return all(_is_plain(script, part) for part in parts)


def _parts(script: Script, node: ast.expr) -> Sequence[ast.expr]:
    """Return the expressions that `node` is made of: `nn.Linear(2, 2)` of `nn.Sequential(nn.Linear(2, 2)).to(device)`."""
    definition = script.value(node).definition
    match node:
        case ast.Name() | ast.Attribute() if not isinstance(definition, ast.FunctionDef):
            return sources(script, node)
        case ast.Call(func=ast.Attribute(value=owner, attr=name)) if name in _SAME:
            return [owner]
        case ast.Call(args=args):
            inside = walk(definition) if isinstance(definition, ast.ClassDef) else iter(args)
            calls = (part for part in inside if isinstance(part, ast.Call))
            return [call for call in calls if name_of(call.func)[:1].isupper()]
    return []


def _is_plain(script: Script, node: ast.expr) -> bool:
    """Return True if `node` itself is known, and no convolution."""
    definition = script.value(node).definition
    match node:
        case ast.Lambda():
            return _CONVOLVES.search(ast.unparse(node)) is None
        case ast.Name() | ast.Attribute():
            if isinstance(definition, ast.FunctionDef):
                return _CONVOLVES.search(ast.unparse(definition)) is None
            return bool(sources(script, node))
        case ast.Call(func=ast.Attribute(attr=name)) if name in _SAME:
            return True
        case ast.Call(func=func, args=args):
            dotted = script.dotted(func) or ""
            if dotted.startswith("torch.nn."):
                is_shown = dotted not in _HOLDERS or all(isinstance(a, ast.Call) for a in args)
                return is_shown and "conv" not in dotted.lower()
            if isinstance(definition, ast.ClassDef):
                bases = {script.dotted(base) for base in definition.bases}
                is_of_torch = bases <= {"torch.nn.Module", "torch.nn.Sequential"}
                return is_of_torch and "conv" not in ast.unparse(definition).lower()
    return False


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
                node.func.attr == "to" and any(is_literal(a, "cpu") for a in node.args)
            ):
                return True
    return False
