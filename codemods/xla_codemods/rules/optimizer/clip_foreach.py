"""Functions that clip gradients reject `foreach=True` on XLA.

## What it reports

`foreach=True` of `clip_grad_norm_`, `clip_grad_value_` and similar functions.

## Why it matters on XLA

PyTorch supports it only for some devices. torch_xla replaces `clip_grad_norm_` by a function that
rejects it (fact 1.106).

## What to do

Fix: safe.

Remove the argument. PyTorch then chooses the faster implementation, with the same result.

## Example

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

`foreach=False` is not reported. Optimizers accept the argument on XLA:

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

from ...analysis.scopes import Scope
from ...analysis.script import Script
from ...analysis.syntax import is_off
from ...edits import DropArgument
from ...finding import Finding
from ...rule import Rule

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
        if not is_off(argument.value):
            message = "clipping with `foreach=True` raises an exception on XLA: remove the argument"
            yield RULE.finding(script, argument, message, DropArgument(call, argument))
