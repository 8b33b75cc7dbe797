"""What clips gradients refuses `foreach=True` on XLA.

torch's functions have it for CUDA only, and torch_xla has a `clip_grad_norm_` of its own that refuses it, too
(fact 1.106). Without the argument torch itself chooses the faster way where there is one, with the same result.

```diff
 import torch
+from xla_migrate import runtime as xla

 def clip(model):
-    model.cuda()
+    model.to(xla.xla_device())
-    torch.nn.utils.clip_grad_value_(model.parameters(), 0.5, foreach=True)
+    torch.nn.utils.clip_grad_value_(model.parameters(), 0.5)
-    return torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=True)
+    return torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
```

What says no stays; so do optimizers, which take the argument on XLA.

```python
import torch

def clip(model):
    torch.optim.Adam(model.parameters(), foreach=True)
    return torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=False)
```
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...edits import DropArgument
from ...finding import Finding
from ...rule import Rule

if TYPE_CHECKING:
    from ...analysis.scopes import Scope
    from ...analysis.script import Script

RULE = Rule("XLA310", "clip-foreach")


_CLIPPING = tuple(
    f"torch.nn.utils.{home}{name}"
    for home in ("", "clip_grad.")
    for name in ("clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_", "get_total_norm")
)


@RULE.call(*_CLIPPING)
def clip_foreach(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    for argument in call.keywords:
        if argument.arg != "foreach" or not script.accelerated:
            continue
        if not (isinstance(argument.value, ast.Constant) and not argument.value.value):
            message = "clipping with `foreach=True` raises on XLA: leave the argument out"
            yield RULE.finding(script, argument, message, DropArgument(call, argument))
