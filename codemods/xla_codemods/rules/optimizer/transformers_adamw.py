"""transformers 5 has no `AdamW`.

## What it reports

`AdamW` imported from transformers.

## Why it matters on XLA

Version 5 removed the class, so the import fails.

## What to do

Fix: unsafe.

Use `torch.optim.AdamW` with the removed class's defaults: eps 1e-6 and no weight decay. PyTorch
decays before the update and corrects the bias of eps, so the last digits of results differ, and
the fix is unsafe.

## Example

```diff
 import torch
-from transformers import AdamW
+from xla_migrate import runtime as xla

-optimizer = AdamW(model.parameters(), lr=5e-5)
+optimizer = torch.optim.AdamW(model.parameters(), lr=5e-5, eps=1e-6, weight_decay=0.0)
 loss.backward()
-optimizer.step()
+xla.optimizer_step(optimizer)
+xla.mark_step()
```

PyTorch's class is not reported:

```python
import torch

optimizer = torch.optim.AdamW(model.parameters(), lr=5e-5)
```
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...analysis.scopes import Scope
from ...analysis.script import Script
from ...analysis.training.optimizer_equivalents import ADAM, Equivalent, NoCounterpart, edits
from ...finding import MEDIUM, UNSAFE, WARNING, Finding
from ...rule import Rule

RULE = Rule("XLA306", "transformers-adamw", severity=WARNING)

# Parameters and defaults: transformers 4.30, src/transformers/optimization.py.
_EQUIVALENT = Equivalent(
    "torch.optim.AdamW",
    ("params", "lr", "betas", "eps", "weight_decay", "correct_bias", "no_deprecation_warning"),
    ADAM,
    explicit={"eps": "1e-6", "weight_decay": "0.0"},
    dropped=frozenset({"no_deprecation_warning"}),
    only={"correct_bias": True},
)
_MISSING = "transformers 5 has no AdamW"
_MESSAGE = f"{_MISSING}: use torch.optim.AdamW"


@RULE.call("transformers.AdamW", "transformers.optimization.AdamW", "pytorch_transformers.AdamW")
def called(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    try:
        made = edits(script, call, scope, _EQUIVALENT)
    except NoCounterpart as reason:
        yield RULE.finding(
            script,
            call,
            f"{_MISSING}, and torch.optim.AdamW has no {reason}: remove the argument",
            effort=MEDIUM,
        )
    else:
        yield RULE.finding(script, call, _MESSAGE, *made, safety=UNSAFE)
