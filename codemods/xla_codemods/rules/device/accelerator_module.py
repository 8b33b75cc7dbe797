"""`torch.accelerator` knows nothing of XLA devices: on an XLA host it names CUDA, or nothing.

`current_accelerator()` is `device("cuda")` with a CUDA build of torch and None with a CPU build, and the script goes
on without an accelerator (fact 1.4).

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

accelerate's `Accelerator` is another thing, and supports XLA itself:

```python
def main(accelerator):
    print(accelerator.device)
```
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...edits import Edit, Replace
from ...finding import Finding
from ...rule import Rule

if TYPE_CHECKING:
    from ...analysis.scopes import Scope
    from ...analysis.script import Script

RULE = Rule("XLA110", "accelerator-module")

_MESSAGE = "`torch.accelerator` does not know XLA devices: use the runtime's functions"


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
