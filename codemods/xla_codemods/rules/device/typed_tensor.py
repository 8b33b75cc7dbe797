"""`torch.cuda.FloatTensor` is a type that no XLA tensor has.

## What it reports

CUDA tensor types as constructors, as arguments of `x.type(...)` and in tests.

## Why it matters on XLA

The constructors fail without CUDA, and tests for the type are False for XLA tensors.

## What to do

Fix: safe.

Use a function that takes a data type and a device. If the rule cannot tell whether the argument
is data or a size, it keeps the CPU constructor and moves the result.

## Example

```diff
 import torch
+from xla_migrate import runtime as xla

 def make(n, values):
-    a = torch.cuda.FloatTensor([1.0, 2.0])
+    a = torch.tensor([1.0, 2.0], dtype=torch.float32, device=xla.xla_device())
-    b = torch.cuda.LongTensor(4, len(values)).zero_()
+    b = torch.empty(4, len(values), dtype=torch.int64, device=xla.xla_device()).zero_()
-    c = torch.cuda.ByteTensor(values)
+    c = torch.ByteTensor(values).to(xla.xla_device())
-    return a.type(torch.cuda.LongTensor), b.type("torch.cuda.IntTensor"), c
+    return a.to(xla.xla_device(), torch.int64), b.to(xla.xla_device(), torch.int32), c
```

Tests for the type:

```diff
 import torch
+from xla_migrate import runtime as xla

 def is_ours(x):
-    return isinstance(x, torch.cuda.FloatTensor) or x.type() == "torch.cuda.LongTensor"
+    return (xla.is_accelerator(x) and x.dtype == torch.float32) or (xla.is_accelerator(x) and x.dtype == torch.int64)
```

CPU types are not reported. `x.type(torch.FloatTensor)` moves `x` to the host, on CUDA as well:

```python
import torch

def to_host(x, y):
    return x.type(torch.FloatTensor), y.type_as(x), torch.FloatTensor([1.0])
```

## See also

XLA116
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...analysis.devices.owners import has_own_method
from ...analysis.devices.tensor_types import CUDA_TYPES, TensorType, cuda_type, host_type
from ...analysis.inference.values import ARRAY, NUMBER
from ...analysis.scopes import Scope
from ...analysis.script import Script
from ...edits import Edit, Replace
from ...finding import MEDIUM, Finding
from ...rule import MethodCall, Rule

RULE = Rule("XLA108", "typed-tensor", of_what_runs=True)


@RULE.call(*CUDA_TYPES)
def constructed(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    found = cuda_type(script, call.func)
    assert found is not None
    torch = script.spell("torch", scope)
    options = f"dtype={torch}.{found.dtype}, device={script.xla}.xla_device()"
    edit: Edit
    if call.keywords:
        yield RULE.finding(script, call, _message(found), effort=MEDIUM)
        return
    if not call.args:
        edit = Replace(call, f"{torch}.empty(0, {options})")
    elif len(call.args) == 1 and _is_data(script, call.args[0]):
        edit = Replace(call, f"{torch}.tensor({{0}}, {options})", (call.args[0],))
    elif all(script.value(a, scope).has(NUMBER) for a in call.args):
        sizes = ", ".join(f"{{{k}}}" for k in range(len(call.args)))
        edit = Replace(call, f"{torch}.empty({sizes}, {options})", tuple(call.args))
    else:
        edit = _on_host_first(script, call, found, torch)
    yield RULE.finding(script, call, _message(found), edit)


def _is_data(script: Script, argument: ast.expr) -> bool:
    return isinstance(argument, (ast.List, ast.ListComp)) or script.value(argument).has(ARRAY)


def _on_host_first(script: Script, call: ast.Call, found: TensorType, torch: str) -> Edit:
    stars = ["*" if isinstance(a, ast.Starred) else "" for a in call.args]
    holes = tuple(a.value if isinstance(a, ast.Starred) else a for a in call.args)
    arguments = ", ".join(f"{star}{{{k}}}" for k, star in enumerate(stars))
    return Replace(call, f"{torch}.{found.kind}({arguments}).to({script.xla}.xla_device())", holes)


@RULE.method("type")
def converted(script: Script, call: MethodCall, scope: Scope) -> Iterator[Finding]:
    """`.type(torch.cuda.FloatTensor)`, its name, or a choice between it and the CPU's."""
    if len(call.args) != 1 or call.keywords:
        return
    given = call.args[0]
    if has_own_method(script, call.func.value, "type"):
        return
    torch = script.spell("torch", scope)
    found = cuda_type(script, given)
    if found is not None:
        text = f"{{0}}.to({script.xla}.xla_device(), {torch}.{found.dtype})"
        yield RULE.finding(script, call, _message(found), Replace(call, text, (call.func.value,)))
    elif isinstance(given, ast.IfExp):
        found, other = cuda_type(script, given.body), host_type(script, given.orelse)
        if found is not None and other is not None and found.kind == other.kind:
            device = f'{script.xla}.xla_device() if {{1}} else "cpu"'
            edit = Replace(
                call, f"{{0}}.to({device}, {torch}.{found.dtype})", (call.func.value, given.test)
            )
            yield RULE.finding(script, call, _message(found), edit)


@RULE.reference(*CUDA_TYPES)
def referred(script: Script, node: ast.expr, scope: Scope) -> Iterator[Finding]:
    found = cuda_type(script, node)
    parent = script.parent(node)
    if found is None or _is_dealt_with(script, node, parent):
        return
    match parent:
        case ast.Call(
            func=ast.Name(id="isinstance"), args=[(ast.Name() | ast.Attribute()) as x, kind]
        ) if kind is node:
            text, holes = _is_of_type(script, x, found, scope)
            yield RULE.finding(script, node, _message(found), Replace(parent, text, holes))
        case _:
            yield RULE.finding(script, node, _message(found), effort=MEDIUM)


def _is_dealt_with(script: Script, node: ast.expr, parent: ast.AST | None) -> bool:
    """True if another check looks at the place: `.type(...)`, a default type, a name for the type; or an annotation."""
    if isinstance(parent, ast.IfExp):
        parent = script.parent(parent)
    if isinstance(parent, ast.Call):
        func = parent.func
        return (isinstance(func, ast.Attribute) and func.attr == "type") or script.dotted(func) in {
            "torch.set_default_tensor_type",
            "torch.tensortype",
        }
    if isinstance(parent, ast.AnnAssign):
        return parent.annotation is node
    return isinstance(parent, (ast.Assign, ast.arg, ast.FunctionDef))


@RULE.node(ast.Compare)
def compared(script: Script, node: ast.Compare, scope: Scope) -> Iterator[Finding]:
    """`x.type() == "torch.cuda.FloatTensor"`."""
    match node:
        case ast.Compare(
            left=ast.Call(
                func=ast.Attribute(value=(ast.Name() | ast.Attribute()) as x, attr="type"), args=[]
            ),
            ops=[ast.Eq() | ast.NotEq() as op],
            comparators=[ast.Constant(value=str()) as name],
        ):
            found = cuda_type(script, name)
            if found is not None:
                text, holes = _is_of_type(script, x, found, scope)
                no = "not " if isinstance(op, ast.NotEq) else ""
                yield RULE.finding(script, node, _message(found), Replace(node, no + text, holes))


def _is_of_type(
    script: Script, x: ast.expr, found: TensorType, scope: Scope
) -> tuple[str, tuple[ast.expr, ...]]:
    dtype = f"{script.spell('torch', scope)}.{found.dtype}"
    return f"({script.xla}.is_accelerator({{0}}) and {{1}}.dtype == {dtype})", (x, x)


def _message(found: TensorType) -> str:
    return f"`torch.cuda.{found.kind}` fails on an XLA host, and no XLA tensor has this type: use a data type and a device"
