"""`torch.accelerator` does not know XLA devices.

## What it reports

Calls of `torch.accelerator`, such as `torch.accelerator.current_accelerator()`.

## Why it matters on XLA

`current_accelerator()` returns `device("cuda")` with a CUDA build of PyTorch and None with a CPU
build (fact 1.4). Nothing fails: the script runs without an accelerator.

## What to do

Fix: safe.

Use the runtime's functions, such as `xla.is_available()` and `xla.xla_device()`.

## Example

```diff
 import torch
+from xla_migrate import runtime as xla

-if torch.accelerator.is_available():
+if xla.is_available():
-    device = torch.accelerator.current_accelerator()
+    device = xla.xla_device()
 else:
     device = torch.device("cpu")
-kind = torch.accelerator.current_accelerator().type
+kind = xla.device_type()
```

```diff
 import torch
+from xla_migrate import runtime as xla

 def place(rank):
-    acc = torch.accelerator.current_accelerator()
+    acc = xla.xla_device()
-    return torch.device(f"{acc}:{rank}")
+    return xla.xla_device(rank)
```

accelerate's `Accelerator` is a different class, which supports XLA. It is not reported:

```python
def main(accelerator):
    print(accelerator.device)
```
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...analysis.scopes import Scope
from ...analysis.script import Script
from ...edits import Edit, Replace
from ...finding import Finding
from ...rule import Rule

RULE = Rule("XLA110", "accelerator-module")

_MESSAGE = "`torch.accelerator` does not know XLA devices: use the runtime, for example `xla.is_available()` and `xla.xla_device()`"


@RULE.call("torch.accelerator.current_accelerator")
def current_accelerator(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    if script.device_literals.is_inside(call):
        return
    parent = script.parent(call)
    edit: Edit
    if isinstance(parent, ast.Attribute) and parent.attr == "type":
        edit = Replace(parent, f"{script.xla}.device_type()")
    else:
        edit = Replace(call, f"{script.xla}.xla_device()")
    yield RULE.finding(script, call, _MESSAGE, edit)


@RULE.reference("torch.accelerator.current_accelerator")
def current_accelerator_itself(script: Script, node: ast.expr, scope: Scope) -> Iterator[Finding]:
    yield RULE.finding(script, node, _MESSAGE, Replace(node, f"{script.xla}.xla_device"))
