"""`torch.inference_mode` fails on XLA.

## What it reports

`torch.inference_mode` as a context manager or a decorator around code that runs on the device.

## Why it matters on XLA

Tensors in inference mode have no version counter. Views and matrix products of XLA tensors need
one.

## What to do

Fix: safe.

Use `xla.inference_mode`. It is `torch.no_grad` on XLA and `torch.inference_mode` elsewhere.

## Example

```diff
 import torch
+from xla_migrate import runtime as xla

-@torch.inference_mode()
+@xla.inference_mode()
 def predict(model, x, device):
     return model(x.to(device))

 def evaluate(model, x, device):
-    with torch.inference_mode(mode=True):
+    with xla.inference_mode(mode=True):
         return model(x.to(device))
```

Code without a device and without a model is not reported:

```python
import torch

@torch.inference_mode()
def mean(values):
    return torch.tensor(values).mean()
```

## Limits

Functions of libraries that use `torch.inference_mode` are not rewritten. The runtime corrects it
for them.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...analysis.scopes import Scope
from ...analysis.script import Script
from ...analysis.syntax import is_handed_on, is_literal, keyword
from ...edits import Replace
from ...finding import Finding
from ...rule import Rule

RULE = Rule("XLA507", "inference-mode", of_what_runs=True)

_NAMES = (
    "torch.inference_mode",
    "torch.autograd.inference_mode",
    "torch.autograd.grad_mode.inference_mode",
)


@RULE.call(*_NAMES)
def called(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    mode = call.args[0] if call.args else keyword(call, "mode")
    if not is_literal(mode, False):
        yield from _finding(script, call.func)


@RULE.reference(*_NAMES)
def referred_to(script: Script, node: ast.expr, scope: Scope) -> Iterator[Finding]:
    """`@torch.inference_mode` without a call, `context = torch.inference_mode if ... else torch.no_grad`."""
    if is_handed_on(node, script.parents):
        yield from _finding(script, node)


def _finding(script: Script, node: ast.expr) -> Iterator[Finding]:
    if script.trains or script.accelerated or script.is_in_a_module(node):
        message = "tensors made in inference mode fail on XLA: use `torch.no_grad`"
        yield RULE.finding(script, node, message, Replace(node, f"{script.xla}.inference_mode"))
