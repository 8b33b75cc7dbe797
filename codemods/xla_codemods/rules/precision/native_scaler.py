"""timm's `NativeScaler` scales losses and steps the optimizer itself.

## What it reports

`timm.utils.NativeScaler`.

## Why it matters on XLA

It runs the backward pass, the clipping and the optimizer step around a GradScaler. That costs one
host read per step (fact 1.73) and averages no gradients between replicas (fact 1.74).

## What to do

Fix: safe.

Use `xla.NativeScaler`, which has the same interface and scales nothing. Its state is empty, and
it ignores the state in an old checkpoint.

## Example

```diff
 import torch
-from timm.utils import NativeScaler
+from xla_migrate import runtime as xla

-loss_scaler = NativeScaler()
+loss_scaler = xla.NativeScaler()
```

Classes of the same name from other packages are not reported:

```python
import torch
from util.misc import NativeScaler

loss_scaler = NativeScaler()
```

## See also

XLA204
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...analysis.scopes import Scope
from ...analysis.script import Script
from ...analysis.syntax import is_handed_on
from ...edits import Replace
from ...finding import WARNING, Finding
from ...rule import Rule

RULE = Rule("XLA205", "native-scaler", of_step="precision", severity=WARNING)

_NAMES = tuple(
    f"timm.utils.{home}{name}" for home in ("", "cuda.") for name in ("NativeScaler", "ApexScaler")
)
_MESSAGE = "timm's scaler does not average gradients over XLA devices, and bfloat16 needs no loss scaling: use `xla.NativeScaler`"


@RULE.call(*_NAMES)
def created(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    yield RULE.finding(script, call, _MESSAGE, Replace(call, f"{script.xla}.NativeScaler()"))


@RULE.reference(*_NAMES)
def referred_to(script: Script, node: ast.expr, scope: Scope) -> Iterator[Finding]:
    """`scaler_class = NativeScaler`; in annotations it may stay."""
    if is_handed_on(node, script.parents):
        yield RULE.finding(script, node, _MESSAGE, Replace(node, f"{script.xla}.NativeScaler"))
