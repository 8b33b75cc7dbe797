"""`torch.cuda.amp.custom_fwd` has no effect on XLA tensors.

## What it reports

The decorators `custom_fwd` and `custom_bwd` of `torch.cuda.amp`, and of `torch.amp` with
the device type "cuda".

## Why it matters on XLA

The decorator switches CUDA's autocast off around `forward`. XLA's autocast stays on.

## What to do

Fix: safe.

Use the decorators of `torch.amp` with `xla.device_type()`.

## Example

```diff
 import torch
-from torch.cuda.amp import custom_bwd, custom_fwd
+from xla_migrate import runtime as xla

 class Square(torch.autograd.Function):
     @staticmethod
-    @custom_fwd(cast_inputs=torch.float16)
+    @torch.amp.custom_fwd(device_type=xla.device_type(), cast_inputs=torch.bfloat16)
     def forward(ctx, x):
         ctx.save_for_backward(x)
         return x * x

     @staticmethod
-    @custom_bwd
+    @torch.amp.custom_bwd(device_type=xla.device_type())
     def backward(ctx, grad):
         return 2 * ctx.saved_tensors[0] * grad
```

```diff
 import torch
+from xla_migrate import runtime as xla

 class Double(torch.autograd.Function):
     @staticmethod
-    @torch.amp.custom_fwd(device_type="cuda")
+    @torch.amp.custom_fwd(device_type=xla.device_type())
     def forward(ctx, x):
         return 2 * x
```

Decorators for another device are not reported:

```python
import torch

class Double(torch.autograd.Function):
    @staticmethod
    @torch.amp.custom_fwd(device_type="cpu")
    def forward(ctx, x):
        return 2 * x
```
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...analysis.scopes import Scope
from ...analysis.script import Script
from ...analysis.syntax import is_handed_on, is_literal, keyword
from ...analysis.training.tensors.kept_half import bfloat16_for
from ...edits import Edit, Replace
from ...finding import Finding
from ...rule import Rule

RULE = Rule("XLA203", "custom-fwd")

_CUDA = tuple(
    f"torch.cuda.amp.{home}{name}"
    for home in ("", "autocast_mode.")
    for name in ("custom_fwd", "custom_bwd")
)
_ANY = tuple(name.replace(".cuda", "") for name in _CUDA)
_MESSAGE = "the decorator has no effect under the autocast of XLA: use the decorator of `torch.amp` with `xla.device_type()`"


@RULE.reference(*_CUDA)
def bare(script: Script, node: ast.expr, scope: Scope) -> Iterator[Finding]:
    """`@custom_fwd`, or passed on."""
    if not is_handed_on(node, script.parents):
        return
    new = f"{_name(script, node, scope)}(device_type={script.xla}.device_type())"
    yield RULE.finding(script, node, _MESSAGE, Replace(node, new))


@RULE.call(*_CUDA)
def called(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    """`@custom_fwd(cast_inputs=...)`, `custom_fwd(function)`."""
    kind = f"device_type={script.xla}.device_type()"
    given = [("", argument) for argument in call.args]
    given += [(f"{k.arg}=" if k.arg else "**", k.value) for k in call.keywords]
    texts: list[str] = []
    holes: list[ast.expr] = []
    for name, value in given:
        half = bfloat16_for(script, value, scope)
        texts.append(f"{name}{half or f'{{{len(holes)}}}'}")
        if half is None:
            holes.append(value)
    first = texts[: len(call.args)]
    text = ", ".join([*first, kind, *texts[len(call.args) :]])
    edit = Replace(call, f"{_name(script, call.func, scope)}({text})", tuple(holes))
    yield RULE.finding(script, call, _MESSAGE, edit)


@RULE.call(*_ANY)
def of_any_device(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    device = keyword(call, "device_type")
    if not is_literal(device, "cuda"):
        return
    edits: list[Edit] = [Replace(device, f"{script.xla}.device_type()")]
    cast = keyword(call, "cast_inputs")
    new = bfloat16_for(script, cast, scope) if cast is not None else None
    if cast is not None and new is not None:
        edits.append(Replace(cast, new))
    yield RULE.finding(script, call, _MESSAGE, *edits)


def _name(script: Script, node: ast.expr, scope: Scope) -> str:
    dotted = script.dotted(node, scope) or ""
    return script.spell(f"torch.amp.{dotted.rpartition('.')[2]}", scope)
