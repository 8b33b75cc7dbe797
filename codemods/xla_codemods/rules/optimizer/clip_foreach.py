"""torch_xla clips gradients by a function of its own, which refuses `foreach=True`.

That function is put in the place of torch's when torch_xla is imported (xla-facts 1.106). Without the argument torch
itself chooses the faster way where there is one, with the same result.

```diff
 import torch
+from xla_migrate import runtime as xla

 def clip(model):
-    model.cuda()
+    model.to(xla.xla_device())
-    return torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=True)
+    return torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
```

What says no stays, and so do other functions.

```python
import torch

def clip(model):
    torch.nn.utils.clip_grad_value_(model.parameters(), 0.5, foreach=True)
    return torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=False)
```
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...edits import DropArgument
from ...findings import Finding
from ...rule import Rule

if TYPE_CHECKING:
    from ...names import Scope
    from ...script import Script

RULE = Rule("XLA310", "clip-foreach")


@RULE.call("torch.nn.utils.clip_grad_norm_", "torch.nn.utils.clip_grad.clip_grad_norm_")
def clip_foreach(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    for argument in call.keywords:
        if argument.arg != "foreach" or not script.accelerated:
            continue
        if not (isinstance(argument.value, ast.Constant) and not argument.value.value):
            message = "torch_xla's clip_grad_norm_ refuses `foreach=True`"
            yield RULE.at(script, argument, message, DropArgument(call, argument))
