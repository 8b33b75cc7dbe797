"""`torch.cuda.set_device` fails without a CUDA driver.

## What it reports

`torch.cuda.set_device`, `torch.cuda.device`, `torch.cuda.device_of` and
`torch.accelerator.set_device_index`.

## Why it matters on XLA

A process drives one XLA device, so there is no device to choose.

## What to do

Fix: safe.

Use `xla.set_device`, or the context manager `xla.device_index`. Both select a device on a host
with several CUDA devices and do nothing on XLA.

## Example

```diff
 import torch
+from xla_migrate import runtime as xla

 def run(model, local_rank):
-    torch.cuda.set_device(local_rank)
+    xla.set_device(local_rank)
-    model.cuda()
+    model.to(xla.xla_device())
-    with torch.cuda.device(f"cuda:{local_rank}"):
+    with xla.device_index(local_rank):
         return model.half
```

```diff
 import torch
+from xla_migrate import runtime as xla

 def prepare(rank, x):
-    torch.accelerator.set_device_index(rank)
+    xla.set_device(rank)
-    with torch.cuda.device_of(x):
+    with xla.device_index(x.device):
         return x + 1
```

Methods of the same name of other objects are not reported:

```python
def route(mixer, device):
    mixer.set_device(device)
```
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...analysis.devices.specs import device_argument
from ...analysis.scopes import Scope
from ...analysis.script import Script
from ...edits import Replace
from ...finding import Finding
from ...rule import Rule

RULE = Rule("XLA103", "set-device", of_what_runs=True)

_SETTERS = (
    "torch.cuda.set_device",
    "torch.accelerator.set_device_index",
    "torch.accelerator.set_device_idx",
)
_CONTEXTS = ("torch.cuda.device", "torch.accelerator.device_index")


@RULE.call(*_SETTERS)
def set_device(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    yield from _renamed(script, call, "set_device")


@RULE.call(*_CONTEXTS)
def device_context(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    yield from _renamed(script, call, "device_index")


@RULE.call("torch.cuda.device_of")
def device_of(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    if len(call.args) == 1:
        edit = Replace(call, f"{script.xla}.device_index({{0}}.device)", (call.args[0],))
        yield RULE.finding(
            script,
            call,
            "choosing a CUDA device fails on an XLA host: use `xla.set_device` or `xla.device_index`",
            edit,
        )


@RULE.reference(*_SETTERS)
def set_device_itself(script: Script, node: ast.expr, scope: Scope) -> Iterator[Finding]:
    yield RULE.finding(
        script,
        node,
        "choosing a CUDA device fails on an XLA host: use `xla.set_device` or `xla.device_index`",
        Replace(node, f"{script.xla}.set_device"),
    )


def _renamed(script: Script, call: ast.Call, name: str) -> Iterator[Finding]:
    given = device_argument(call)
    if given is None or len(call.args) + len(call.keywords) != 1:
        return
    text, holes = script.devices.given(given)
    if isinstance(given, ast.Call) and script.devices.spec(given) is None:
        text, holes = "{0}", (given,)  # torch.cuda.current_device(), torch.device(...), a rank
    match given:
        case ast.Call(func=ast.Attribute(value=owner, attr="get_device"), args=[], keywords=[]) if (
            script.is_method_of_a_tensor(owner, "get_device")
        ):
            text, holes = "{0}.device", (owner,)  # the number is -1 for a tensor on the host
    edit = Replace(call, f"{script.xla}.{name}({text or 0})", holes)
    yield RULE.finding(
        script,
        call,
        f"`{ast.unparse(call.func)}` fails on an XLA host: use `xla.set_device` or `xla.device_index`",
        edit,
    )
