"""NVTX ranges and the CUDA profiler have no effect on XLA.

## What it reports

`torch.cuda.nvtx`, `torch.cuda.profiler`, `emit_nvtx`, CUDA activities of `torch.profiler`, and
names of columns for CUDA.

## Why it matters on XLA

They report to NVIDIA's tools, which do not see an XLA device. A profile with only the activity
CUDA fails without CUDA (fact 1.107).

## What to do

Fix: safe.

Use ranges of `torch.profiler`, or the runtime's `xla.range_push` and `xla.range_pop`. Both appear
in traces of `torch.profiler` and of `xla.profile`, not in traces of
`torch_xla.debug.profiler`. Calls that start the CUDA profiler and single marks are removed.

## Example

```diff
 import torch
+from xla_migrate import runtime as xla

 def step(model, x):
-    torch.cuda.nvtx.range_push("forward")
+    xla.range_push("forward")
     loss = model(x)
-    torch.cuda.nvtx.range_pop()
+    xla.range_pop()
-    with torch.cuda.nvtx.range("backward"):
+    with torch.profiler.record_function("backward"):
         loss.backward()

-@torch.cuda.nvtx.range("epoch")
+@torch.profiler.record_function("epoch")
 def epoch(model, batches):
-    torch.cuda.cudart().cudaProfilerStart()
-    with torch.autograd.profiler.emit_nvtx():
-        for x in batches:
-            step(model, x)
+    for x in batches:
+        step(model, x)
+        xla.mark_step()
-    torch.cuda.profiler.stop()
```

PyTorch's profiler receives the supported activities:

```diff
 import torch
-from torch.profiler import ProfilerActivity, profile
+from torch.profiler import profile

 def profiled(model, x):
-    with profile(activities=[ProfilerActivity.CUDA], record_shapes=True) as trace:
+    with profile(activities=torch.profiler.supported_activities(), record_shapes=True) as trace:
         model(x)
     return trace.key_averages().table(sort_by="cuda_time_total")
```

Its tables have columns `device_time_total` for other devices, and no `xla_time_total`:

```diff
 def table(trace, x):
-    return trace.key_averages().table(sort_by=f"self_{x.device.type}_time_total")
+    return trace.key_averages().table(sort_by=f"self_{x.device.type}_time_total".replace("xla", "device"))
```

A profile of the CPU is not reported:

```python
import torch

def profiled(model, x):
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):
        model(x)
```
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from ...analysis.scopes import Scope
from ...analysis.script import Script
from ...edits import DropItem, Edit, Replace, Unwrap, remove
from ...finding import ERROR, INFO, MEDIUM, WARNING, Finding
from ...rule import Rule

RULE = Rule("XLA127", "profiler-ranges", severity=WARNING, words=("_time_total", "_memory_usage"))

_MESSAGE = "is for NVIDIA's profilers and has no use on XLA: remove it, or use `torch.profiler.record_function`"
_MARKS = (
    "torch.cuda.nvtx.range_start",
    "torch.cuda.nvtx.range_end",
    "torch.cuda.nvtx.mark",
    "torch.cuda.profiler.init",
    "torch.cuda.profiler.start",
    "torch.cuda.profiler.stop",
    "torch.cuda.profiler.cudart",
    "nvtx.mark",
)
_PUSHES = ("torch.cuda.nvtx.range_push", "nvtx.push_range")
_POPS = ("torch.cuda.nvtx.range_pop", "nvtx.pop_range")
_RANGES = ("torch.cuda.nvtx.range", "nvtx.annotate")
_CONTEXTS = ("torch.autograd.profiler.emit_nvtx", "torch.cuda.profiler.profile")
_COLUMNS = ("_time_total", "_memory_usage")  # of a table of torch's profiler, how they end
_CUDA = "torch.profiler.ProfilerActivity.CUDA"


@RULE.call(*_MARKS)
def mark(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    yield _gone(script, call)


@RULE.method("cudaProfilerStart", "cudaProfilerStop")
def runtime_profiler(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    """`torch.cuda.cudart().cudaProfilerStart()`."""
    match call.func:
        case ast.Attribute(value=ast.Call(func=func)) if script.dotted(func) in {
            "torch.cuda.cudart",
            "torch.cuda.profiler.cudart",
        }:
            yield _gone(script, call)


def _gone(script: Script, call: ast.Call) -> Finding:
    message = f"`{ast.unparse(call.func)}` {_MESSAGE}"
    outer = script.parent(call)
    checked = isinstance(outer, ast.Call) and script.dotted(outer.func) == "torch.cuda.check_error"
    stands_alone = script.is_statement(outer) if checked else script.is_statement(call)  # type: ignore[arg-type]
    if stands_alone:
        return RULE.finding(script, call, message, remove(script.statement(call)))
    return RULE.finding(script, call, message, Replace(call, "None"))


@RULE.call(*_RANGES)
def spanned(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    """A range as a context or decorator; of its arguments the first is its name."""
    message = f"`{ast.unparse(call.func)}` {_MESSAGE}"
    name = _name(call)
    if name is None:
        yield RULE.finding(script, call, message, effort=MEDIUM)
        return
    text = f"{script.spell('torch', scope)}.profiler.record_function({{0}})"
    yield RULE.finding(script, call, message, Replace(call, text, (name,)))


@RULE.call(*_PUSHES)
def pushed(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    """Depths are counted alike; a package's colours and categories go."""
    message = f"`{ast.unparse(call.func)}` {_MESSAGE}"
    name = _name(call)
    if name is None:
        yield RULE.finding(script, call, message, effort=MEDIUM)
    else:
        yield RULE.finding(
            script, call, message, Replace(call, f"{script.xla}.range_push({{0}})", (name,))
        )


@RULE.call(*_POPS)
def popped(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    message = f"`{ast.unparse(call.func)}` {_MESSAGE}"
    yield RULE.finding(script, call, message, Replace(call, f"{script.xla}.range_pop()"))


def _name(call: ast.Call) -> ast.expr | None:
    """The first argument is a range's name."""
    if call.args:
        return None if isinstance(call.args[0], ast.Starred) else call.args[0]
    return next((k.value for k in call.keywords if k.arg in {"msg", "message"}), None)


@RULE.call(*_CONTEXTS)
def context(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    message = f"`{ast.unparse(call.func)}` {_MESSAGE}"
    item = script.parent(call)
    owner = script.parent(item) if isinstance(item, ast.withitem) else None
    if not isinstance(owner, (ast.With, ast.AsyncWith)) or not isinstance(item, ast.withitem):
        yield RULE.finding(script, call, message, effort=MEDIUM)
        return
    if item.optional_vars is not None:
        yield RULE.finding(script, call, message, effort=MEDIUM)
        return
    edit: Edit = Unwrap(owner) if len(owner.items) == 1 else DropItem(owner, item)
    yield RULE.finding(script, call, message, edit)


@RULE.reference(_CUDA)
def activity(script: Script, node: ast.expr, scope: Scope) -> Iterator[Finding]:
    """CUDA among the activities of torch's profiler: alone it fails (fact 1.107), beside the CPU it is left out."""
    display = script.parent(node)
    argument = script.parent(display) if display is not None else None
    message = "PyTorch's profiler records nothing of XLA devices: use `supported_activities()`, or torch_xla.debug.profiler"
    if (
        isinstance(display, (ast.List, ast.Tuple, ast.Set))
        and isinstance(argument, ast.keyword)
        and argument.arg == "activities"
        and all(_is_activity(script, e) for e in display.elts)
    ):
        text = f"{script.spell('torch', scope)}.profiler.supported_activities()"
        yield RULE.finding(script, node, message, Replace(display, text))
    else:
        yield RULE.finding(script, node, message, severity=INFO)


def _is_activity(script: Script, node: ast.expr) -> bool:
    return script.dotted(node) in {_CUDA, "torch.profiler.ProfilerActivity.CPU"}


@RULE.node(ast.JoinedStr, ast.BinOp)
def column(script: Script, node: ast.JoinedStr | ast.BinOp, scope: Scope) -> Iterator[Finding]:
    """`f"self_{device.type}_time_total"`, `device + "_time_total"`, `"%s_time_total" % device`."""
    match node:
        case ast.JoinedStr(values=[*_, ast.Constant(value=str(end))]):
            parts = [part.value for part in node.values if isinstance(part, ast.FormattedValue)]
        case ast.BinOp(left=left, op=ast.Add(), right=ast.Constant(value=str(end))):
            parts = [left.right if isinstance(left, ast.BinOp) else left]
        case ast.BinOp(left=ast.Constant(value=str(end)), op=ast.Mod(), right=right):
            parts = [right]
        case _:
            return
    yield from _column(script, node, end, parts)


@RULE.method("format")
def formatted_column(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    match call.func:
        case ast.Attribute(value=ast.Constant(value=str(end))):
            yield from _column(script, call, end, call.args)


def _column(
    script: Script, node: ast.expr, end: str, parts: Sequence[ast.expr]
) -> Iterator[Finding]:
    if not end.endswith(_COLUMNS) or _says_device(script, node):
        return
    if any(script.is_device(part) or _is_type_of_device(part) for part in parts):
        text = '({0}).replace("xla", "device")'
        if not isinstance(node, ast.BinOp):
            text = '{0}.replace("xla", "device")'
        message = "PyTorch's profiler has no columns for XLA: use `device`, as for other devices"
        yield RULE.finding(script, node, message, Replace(node, text, (node,)), severity=ERROR)


def _says_device(script: Script, node: ast.expr) -> bool:
    """True if a column is given the name that torch's profiler knows already."""
    parent = script.parent(node)
    return isinstance(parent, ast.Attribute) and parent.attr == "replace"


def _is_type_of_device(node: ast.expr) -> bool:
    """`x.device.type`, whatever `x` is."""
    match node:
        case ast.Attribute(value=ast.Attribute(attr="device"), attr="type"):
            return True
    return False
