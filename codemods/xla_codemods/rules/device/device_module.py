"""A module of device functions that is chosen at run time cannot be followed.

`getattr(torch, device_type)` and `torch.get_device_module(device)` fail on XLA: there is no `torch.xla`
(xla-facts 1.3). The runtime's functions are the same for every device: call them instead.

```python
import torch

def synchronize(device):
    torch.get_device_module(device).synchronize()
    getattr(torch, device.type).empty_cache()
```

`getattr(torch, "cuda")` and a second name for the module are followed:

```diff
 import torch
+from xla_migrate import runtime as xla

 cuda = torch.cuda
-print(cuda.is_available(), getattr(torch, "cuda").device_count())
+print(xla.is_available(), xla.device_count())
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

RULE = Rule("XLA115", "device-module", effort=MEDIUM)


@RULE.call("torch.get_device_module")
def get_device_module(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    yield RULE.at(script, call, "XLA has no device module: call the runtime's functions")


@RULE.node(ast.Call, named=("getattr",))
def got_by_type(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    """`getattr(torch, device.type)`."""
    match call:
        case ast.Call(func=ast.Name(id="getattr"), args=[owner, name, *_]) if (
            not isinstance(name, ast.Constant) and script.dotted(owner, scope) == "torch"
        ):
            base = name.value if isinstance(name, ast.Attribute) and name.attr == "type" else name
            if script.devices.is_device(base):
                message = "there is no `torch.xla`: call the runtime's functions"
                yield RULE.at(script, call, message)


@RULE.reference("torch.cuda")
def module_itself(script: Script, node: ast.expr, scope: Scope) -> Iterator[Finding]:
    """The module kept, returned or chosen."""
    parent = script.parent(node)
    message = "which functions are called through it cannot be told: call the runtime's"
    match parent:
        case ast.Assign(targets=[ast.Name(id=name)]) if scope.dotted(name) == "torch.cuda":
            return
        case ast.Assign() | ast.Return() | ast.Dict():
            yield RULE.at(script, node, message)
        case ast.IfExp(test=test) if test is not node:
            yield RULE.at(script, node, message)
