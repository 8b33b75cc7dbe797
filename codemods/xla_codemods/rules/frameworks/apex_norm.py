"""apex's fused norms are CUDA kernels.

## What it reports

`FusedLayerNorm`, `FusedRMSNorm` and their variants, as calls, arguments and base classes.

## Why it matters on XLA

apex fails without CUDA.

## What to do

Fix: safe.

Use PyTorch's `nn.LayerNorm` and `nn.RMSNorm`. They have the same arguments and names of weights,
so checkpoints fit. `memory_efficient` is removed, because it only selects what the kernel keeps.
apex's `eps` is written out if PyTorch's default differs.

## Example

```diff
 import torch
 from torch import nn
-from apex.normalization import FusedLayerNorm, FusedRMSNorm

 class Block(nn.Module):
     def __init__(self, width):
         super().__init__()
-        self.first = FusedLayerNorm(width, eps=1e-6, memory_efficient=True)
+        self.first = nn.LayerNorm(width, eps=1e-6)
-        self.second = FusedRMSNorm(width)
+        self.second = nn.RMSNorm(width, eps=1e-5)
-        self.third = FusedRMSNorm(width, 1e-6, False)
+        self.third = nn.RMSNorm(width, 1e-6, False)
```

```diff
 import torch
-from apex.normalization.fused_layer_norm import FusedLayerNorm as LayerNorm

-class Norm(LayerNorm):
+class Norm(torch.nn.LayerNorm):
     pass

 def build(make):
-    return make(norm_layer=LayerNorm)
+    return make(norm_layer=torch.nn.LayerNorm)
```

A file with another norm for hosts without apex is not reported:

```python
import torch

try:
    from apex.normalization import FusedLayerNorm as LayerNorm
except ImportError:
    from torch.nn import LayerNorm

norm = LayerNorm(8)
```
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...analysis.scopes import Scope
from ...analysis.script import Script
from ...analysis.syntax import keyword
from ...edits import AddArgument, DropArgument, Edit, Replace
from ...finding import Finding
from ...rule import Rule

RULE = Rule("XLA809", "apex-norm")

_HOMES = ("apex.normalization", "apex.normalization.fused_layer_norm")
_LAYER = tuple(f"{home}.FusedLayerNorm" for home in _HOMES)
_RMS = tuple(f"{home}.FusedRMSNorm" for home in _HOMES)
_MESSAGE = "apex's normalisation fails without CUDA"
_FIXED = f"{_MESSAGE}: use the equivalent in PyTorch"


@RULE.call(*_LAYER)
def layer_norm(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    yield _made(script, call, scope, "torch.nn.LayerNorm")


@RULE.call(*_RMS)
def rms_norm(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    """The default of torch's is the smallest step of the data type for `eps`."""
    has_eps = len(call.args) > 1 or keyword(call, "eps") is not None
    added = () if has_eps else (AddArgument(call, "eps=1e-5"),)
    yield _made(script, call, scope, "torch.nn.RMSNorm", *added)


def _made(script: Script, call: ast.Call, scope: Scope, norm: str, *edits: Edit) -> Finding:
    if len(call.args) > 3 or any(k.arg is None for k in call.keywords) or _has_star(call):
        return RULE.finding(script, call.func, f"{_MESSAGE}: use `{norm}`")
    dropped = [
        DropArgument(call, argument)
        for argument in call.keywords
        if argument.arg == "memory_efficient"
    ]
    replaced = Replace(call.func, script.spell(norm, scope))
    return RULE.finding(script, call.func, _FIXED, replaced, *dropped, *edits)


def _has_star(call: ast.Call) -> bool:
    return any(isinstance(argument, ast.Starred) for argument in call.args)


@RULE.reference(*_LAYER)
def class_itself(script: Script, node: ast.expr, scope: Scope) -> Iterator[Finding]:
    if isinstance(getattr(node, "ctx", None), ast.Load):
        yield RULE.finding(
            script, node, _FIXED, Replace(node, script.spell("torch.nn.LayerNorm", scope))
        )


@RULE.reference(*_RMS)
def rms_class_itself(script: Script, node: ast.expr, scope: Scope) -> Iterator[Finding]:
    """Who calls it may leave `eps` out."""
    yield RULE.finding(script, node, f"{_MESSAGE}: use `torch.nn.RMSNorm`, with apex's `eps=1e-5`")
