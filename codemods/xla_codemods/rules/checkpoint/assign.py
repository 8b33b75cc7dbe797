"""`load_state_dict(assign=True)` puts the parameters where the state is.

On a model that is on the device it leaves them on the CPU, silently until the next operation (fact 1.47): a
checkpoint is loaded to the CPU. Without `assign` it is copied to the parameters, into their data type, so the fix is
unsafe. A model that was built on the meta device needs `assign`; move it afterwards.

```diff
 import torch
+from xla_migrate import runtime as xla

 def resume(model, path, device):
     model.to(device)
-    model.load_state_dict(torch.load(path), assign=True)
+    model.load_state_dict(xla.load(path))
```

```python
import torch

def build(make, path, device):
    with torch.device("meta"):
        model = make()
    model.load_state_dict(torch.load(path, map_location="cpu"), assign=True)
    return model.to(device)
```
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...edits import DropArgument
from ...finding import UNSAFE, WARNING, Finding
from ...rule import Rule

if TYPE_CHECKING:
    from ...analysis.scopes import Scope
    from ...analysis.script import Script

RULE = Rule("XLA704", "assign", severity=WARNING)

_META = ("meta", "init_empty_weights", "to_empty")


@RULE.method("load_state_dict")
def assign(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    for argument in call.keywords:
        if argument.arg != "assign" or not isinstance(argument.value, ast.Constant):
            continue
        if argument.value.value is not True or not script.accelerated:
            continue
        if not any(word in script.source.text for word in _META):
            message = "with `assign=True` the parameters end up on the CPU, where the checkpoint is: leave it out, or load to the device"
            yield RULE.finding(script, call, message, DropArgument(call, argument), safety=UNSAFE)
