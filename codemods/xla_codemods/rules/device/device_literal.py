"""`"cuda"` as a device fails on an XLA host.

## What it reports

Strings such as `"cuda"` and `"cuda:0"` that are passed as a device, and `torch.device(...)` of
them.

## Why it matters on XLA

The device does not exist on an XLA host, so the first tensor on it raises an exception.

## What to do

Fix: safe.

Use `xla.xla_device()`. It returns the accelerator, or the CPU if there is no accelerator, so it
also replaces `"cuda" if torch.cuda.is_available() else "cpu"`.

## Example

```diff
 import torch
+from xla_migrate import runtime as xla

-device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
+device = xla.xla_device()
-x = torch.ones(2, device="cuda").to("cuda:0")
+x = torch.ones(2, device=xla.xla_device()).to(xla.xla_device())
```

Any other condition is kept. An index is passed to `xla.xla_device`: it selects a device on a host
with several CUDA devices.

```diff
 import torch
+from xla_migrate import runtime as xla

 def place(rank, use_cuda):
-    first = torch.device("cuda" if use_cuda else "cpu")
+    first = xla.xla_device() if use_cuda else torch.device("cpu")
-    second = torch.device(f"cuda:{rank}")
+    second = xla.xla_device(rank)
     return first, second
```

Python evaluates a default when it imports the module, possibly before `xla.launch` starts the
processes, which must find the device unused. The function therefore chooses the device when it is
called:

```diff
 import torch
+from xla_migrate import runtime as xla

-def zeros(n, device=torch.device("cuda")):
+def zeros(n, device=None):
+    if device is None:
+        device = xla.xla_device()
     return torch.zeros(n, device=device)
```

If `None` may already have a meaning, the default only names the kind of device. The same holds
for class attributes and for modules of a program that launches processes:

```diff
 import torch
+from xla_migrate import runtime as xla

-def zeros(n, device=torch.device("cuda")):
+def zeros(n, device=torch.device(xla.device_type())):
     return torch.zeros(n, device=device or "cpu")
```

Other devices, and strings that are not devices, are not reported:

```python
import torch

host = torch.device("cpu")
apple = torch.zeros(2, device="mps")
print("cuda", {"cuda": 1}["cuda"])
```
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...analysis.devices.late_defaults import late_default
from ...analysis.devices.literal_context import SINK
from ...analysis.devices.specs import Spec, leaves
from ...analysis.inference.values import DEVICE, HOST, STRING
from ...analysis.scopes import Scope
from ...analysis.script import Script
from ...analysis.syntax import keyword
from ...edits import Edit, Replace
from ...finding import Finding
from ...rule import Rule

RULE = Rule("XLA104", "device-literal", of_what_runs=True)

_MESSAGE = "a CUDA device fails on an XLA host: use `xla.xla_device()`"


@RULE.file
def sinks(script: Script) -> Iterator[Finding]:
    """Strings that a torch call takes for a device, and choices between devices."""
    for placed in script.device_literals.all:
        if placed.of_devices or placed.place == SINK:
            text, holes = script.devices.device(placed.spec)
            node = placed.spec.node
            late = () if holes else late_default(script, node, text)
            if placed.of_devices and not holes and script.device_literals.is_early(node):
                torch = script.spell("torch", script.index.scope(node))
                text = f"{torch}.device({script.devices.string(placed.spec)[0]})"
            yield RULE.finding(script, node, _MESSAGE, *(late or (Replace(node, text, holes),)))


@RULE.call("torch.device")
def torch_device(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    first = call.args[0] if call.args else keyword(call, "type") or keyword(call, "device")
    if first is None or script.device_literals.is_inside(call):
        return
    spec = _with_index(script, call, first)
    if spec is not None:
        yield RULE.finding(script, call, _MESSAGE, *_whole(script, call, first, spec))
        return
    parts = list(leaves(first))
    specs = [spec for part in parts if (spec := script.devices.spec(part)) is not None]
    if specs and all(_is_plain(script, part) for part in parts):
        choice = _choice(script, call, first)
        if choice is not None:
            yield RULE.finding(script, call, _MESSAGE, choice)
            return
        edits = [Replace(spec.node, *script.devices.device(spec)) for spec in specs]
        yield RULE.finding(script, call, _MESSAGE, *edits)


def _choice(script: Script, call: ast.Call, first: ast.expr) -> Edit | None:
    """`xla.xla_device() if flag else torch.device("cpu")` for `torch.device("cuda" if flag else "cpu")`."""
    around = script.parent(call)
    stands_alone = isinstance(around, (ast.Assign, ast.AnnAssign, ast.Return, ast.keyword)) or (
        isinstance(around, ast.Call) and around.func is not call
    )
    if not stands_alone or len(call.args) + len(call.keywords) != 1:
        return None
    branches = list(_branches(first))
    hidden = [b for b in branches if script.devices.spec(b) is None and _names_one(script, b)]
    if not isinstance(first, ast.IfExp) or hidden:
        return None
    holes: list[ast.expr] = []
    text = _chosen(script, first, script.segment(call.func), holes)
    return Replace(call, text, tuple(holes))


def _branches(node: ast.expr) -> Iterator[ast.expr]:
    """What the conditional expressions of `node` choose from."""
    if isinstance(node, ast.IfExp):
        yield from _branches(node.body)
        yield from _branches(node.orelse)
    else:
        yield node


def _names_one(script: Script, node: ast.expr) -> bool:
    return any(script.devices.spec(leaf) is not None for leaf in leaves(node))


def _chosen(script: Script, part: ast.expr, torch_device: str, holes: list[ast.expr]) -> str:
    """The device that `part` of a choice names; expressions that are kept go into `holes`."""
    spec = script.devices.spec(part)
    if spec is not None:
        text, kept = script.devices.device(spec)
        numbers = [f"{{{len(holes) + k}}}" for k in range(len(kept))]
        holes += kept
        return text.format(*numbers) if kept else text
    if isinstance(part, ast.IfExp) and _names_one(script, part):
        here = _chosen(script, part.body, torch_device, holes)
        holes.append(part.test)
        test = f"{{{len(holes) - 1}}}"
        otherwise = _chosen(script, part.orelse, torch_device, holes)
        here = f"({here})" if isinstance(part.body, ast.IfExp) else here
        return f"{here} if {test} else {otherwise}"
    holes.append(part)
    return f"{torch_device}({{{len(holes) - 1}}})"


def _with_index(script: Script, call: ast.Call, first: ast.expr) -> Spec | None:
    """What `torch.device("cuda", 1)` says: a string, or a choice by availability, and perhaps an index."""
    spec = script.device_literals.spec(first)
    index = call.args[1] if len(call.args) > 1 else keyword(call, "index")
    if spec is None or index is None:
        return spec
    if isinstance(index, ast.Constant):
        return spec._replace(ordinal=index.value if isinstance(index.value, int) else None)
    return spec._replace(ordinal=index)


def _whole(script: Script, call: ast.Call, first: ast.expr, spec: Spec) -> tuple[Edit, ...]:
    """The device instead of the call or, if it is too early for a device, its name instead of the string."""
    text, holes = script.devices.device(spec)
    late = () if holes else late_default(script, call, text)
    if late:
        return late
    if spec.ordinal in (None, 0) and script.device_literals.is_early(call):
        return (Replace(first, *script.devices.string(spec)),)
    return (Replace(call, text, holes),)


def _is_plain(script: Script, part: ast.expr) -> bool:
    """True if torch.device takes it as it will be: a string that is spelled out, or a device already."""
    if isinstance(part, ast.Constant) or script.devices.spec(part) is not None:
        return True
    value = script.value(part)
    return value.has(DEVICE) and (not value.has(STRING) or value.has(HOST))
