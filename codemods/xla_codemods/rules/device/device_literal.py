"""`"cuda"` where a device is asked for names a device that an XLA host does not have.

`xla.xla_device()` is whichever accelerator there is, and the CPU where there is none: so it is also what
`"cuda" if torch.cuda.is_available() else "cpu"` means.

```diff
 import torch
+from xla_migrate import runtime as xla

-device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
+device = xla.xla_device()
-x = torch.ones(2, device="cuda").to("cuda:0")
+x = torch.ones(2, device=xla.xla_device()).to(xla.xla_device())
```

Any other condition stays, and an index is handed on: it means something on machines with several CUDA devices.

```diff
 import torch
+from xla_migrate import runtime as xla

 def place(rank, use_cuda):
-    first = torch.device("cuda" if use_cuda else "cpu")
+    first = torch.device(xla.xla_device() if use_cuda else "cpu")
-    second = torch.device(f"cuda:{rank}")
+    second = xla.xla_device(rank)
     return first, second
```

A default is evaluated when the module is imported, when the device must not be touched yet:

```diff
 import torch
+from xla_migrate import runtime as xla

-def zeros(n, device=torch.device("cuda")):
+def zeros(n, device=torch.device(xla.device_type())):
     return torch.zeros(n, device=device)
```

Other devices, and what is only called "cuda", stay.

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
from typing import TYPE_CHECKING

from ...devices import Spec, leaves
from ...edits import Edit, Replace
from ...findings import Finding
from ...place import SINK
from ...rule import Rule
from ...syntax import keyword
from ...values import DEVICE, HOST, STRING

if TYPE_CHECKING:
    from ...names import Scope
    from ...script import Script

RULE = Rule("XLA104", "device-literal")

_MESSAGE = "names a CUDA device"


@RULE.whole
def sinks(script: Script) -> Iterator[Finding]:
    """Strings that a torch call takes for a device, and choices between devices."""
    for placed in script.places.all:
        if placed.of_devices or placed.place == SINK:
            text, holes = script.devices.device(placed.spec)
            node = placed.spec.node
            yield RULE.at(script, node, _MESSAGE, Replace(node, text, holes))


@RULE.call("torch.device")
def torch_device(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    first = call.args[0] if call.args else keyword(call, "type") or keyword(call, "device")
    if first is None or script.places.is_inside(call):
        return
    spec = _with_index(script, call, first)
    if spec is not None:
        yield RULE.at(script, call, _MESSAGE, _whole(script, call, first, spec))
        return
    parts = list(leaves(first))
    specs = [spec for part in parts if (spec := script.devices.spec(part)) is not None]
    if specs and all(_is_plain(script, part) for part in parts):
        edits = [Replace(spec.node, *script.devices.device(spec)) for spec in specs]
        yield RULE.at(script, call, _MESSAGE, *edits)


def _with_index(script: Script, call: ast.Call, first: ast.expr) -> Spec | None:
    """What `torch.device("cuda", 1)` says: a string, or a choice by availability, and perhaps an index."""
    spec = script.places.spec(first)
    index = call.args[1] if len(call.args) > 1 else keyword(call, "index")
    if spec is None or index is None:
        return spec
    if isinstance(index, ast.Constant):
        return spec._replace(ordinal=index.value if isinstance(index.value, int) else None)
    return spec._replace(ordinal=index)


def _whole(script: Script, call: ast.Call, first: ast.expr, spec: Spec) -> Edit:
    """The device instead of the call; where it is too early for a device, its name instead of the string."""
    if spec.ordinal in (None, 0) and script.places.is_early(call):
        return Replace(first, *script.devices.string(spec))
    return Replace(call, *script.devices.device(spec))


def _is_plain(script: Script, part: ast.expr) -> bool:
    """Whether torch.device takes it as it will be: a string that is spelled out, or a device already."""
    if isinstance(part, ast.Constant) or script.devices.spec(part) is not None:
        return True
    value = script.value(part)
    return value.has(DEVICE) and (not value.has(STRING) or value.has(HOST))
