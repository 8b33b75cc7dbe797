"""Average pooling with `divisor_override` may use the wrong divisor on XLA.

## What it reports

`divisor_override=` of `avg_pool2d`, `AvgPool2d` and the other average poolings.

## Why it matters on XLA

torch_xla 2.9 treats two poolings of one shape as equal if they differ only in `divisor_override`.
The second one silently uses the divisor of the first one. With `ceil_mode=True`, a single pooling
is wrong as well.

## What to do

Fix: none.

Pool without the argument, and multiply the result. The sum over a window of 2 x 2 is its average
times 4.

## Example

```diff
 import torch
 import torch.nn.functional as F
+from xla_migrate import runtime as xla

 def forward(model, x):
-    x = F.avg_pool2d(model(x.cuda()), 2, divisor_override=1)  # XLA520
+    x = F.avg_pool2d(model(x.to(xla.xla_device())), 2, divisor_override=1)  # XLA520
     return x
```

`None` is not a divisor. It is not reported:

```python
import torch
from xla_migrate import runtime as xla

pool = torch.nn.AvgPool2d(2, divisor_override=None).to(xla.xla_device())
```
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...analysis.scopes import Scope
from ...analysis.script import Script
from ...analysis.syntax import is_literal, keyword
from ...finding import WARNING, Finding
from ...rule import Rule

RULE = Rule("XLA520", "pooling-divisor", of_what_runs=True, severity=WARNING)

# Where the divisor stands among the positional arguments.
_PLACES = {
    f"torch.nn.{name}": place
    for names, place in (
        ("AvgPool2d AvgPool3d", 5),
        ("functional.avg_pool2d functional.avg_pool3d", 6),
    )
    for name in names.split()
}


@RULE.call(*_PLACES)
def pooling_divisor(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    place = _PLACES[script.dotted(call.func, scope) or ""]
    divisor = call.args[place] if len(call.args) > place else keyword(call, "divisor_override")
    if divisor is None or is_literal(divisor, None):
        return
    if script.runs_accelerated:
        message = "on XLA a pooling with `divisor_override` may silently use the divisor of another pooling: omit the argument, and multiply the result"
        yield RULE.finding(script, divisor, message)
