"""Some optimizers read values from the device or compile in every step.

## What it reports

LBFGS, ASGD, Adafactor and SparseAdam with parameters on the accelerator.

## Why it matters on XLA

Their arithmetic depends on numbers that Python reads (fact 3.27). Per step, measured with
torch_xla 2.9:

- ASGD reads 3 values for each parameter and Adafactor 2.
- LBFGS compiles 33 graphs, then 62, then 89, and more in each further step.
- SparseAdam needs sparse gradients, which XLA does not have.

## What to do

Fix: safe, or none.

Use `xla.LBFGS`. It is PyTorch's LBFGS with its history and its decisions on the host: one graph
launch and one read for each evaluation. Replace the other optimizers by Adam or SGD if you can.

Muon and Rprop read nothing with the runtime, which has the kernels that torch_xla lacks.

## Example

```diff
 import torch
 from xla_migrate import runtime as xla

 model = torch.nn.Linear(4, 2).to(xla.xla_device())
-optimizer = torch.optim.LBFGS(model.parameters())
+optimizer = xla.LBFGS(model.parameters())
```

The other optimizers are reported without a fix:

```python
import torch
from xla_migrate import runtime as xla

model = torch.nn.Linear(4, 2).to(xla.xla_device())
optimizer = torch.optim.ASGD(model.parameters())  # XLA307
```

Files that compute on the CPU are not reported:

```python
import torch

optimizer = torch.optim.LBFGS(torch.nn.Linear(4, 2).parameters())
```
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...analysis.scopes import Scope
from ...analysis.script import Script
from ...edits import Replace
from ...finding import ERROR, MEDIUM, WARNING, Finding
from ...rule import Rule
from ...symptoms import LIKELY, POSSIBLE, REMOTE

RULE = Rule(
    "XLA307",
    "slow-optimizer",
    severity=WARNING,
    effort=MEDIUM,
    behind={"launches": LIKELY, "static shapes": POSSIBLE, "bounded graph": REMOTE},
)

_COSTS = {
    "LBFGS": "compiles dozens of graphs in every step on XLA",
    "ASGD": "reads three values of each parameter in every step on XLA",
    "Adafactor": "reads two values of each parameter in every step on XLA",
    "SparseAdam": "needs sparse gradients, which XLA does not have",
}
_NAMES = {
    dotted: name
    for name in _COSTS
    for dotted in (f"torch.optim.{name}", f"torch.optim.{name.lower()}.{name}")
}
_NAMES["torch.optim.sparse_adam.SparseAdam"] = "SparseAdam"


@RULE.call(*_NAMES)
def slow(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    if not script.accelerated:
        return
    name = _NAMES[script.dotted(call.func, scope) or ""]
    if name == "LBFGS":
        message = f"{name} {_COSTS[name]}: use `xla.LBFGS`"
        yield RULE.finding(script, call, message, Replace(call.func, f"{script.xla}.LBFGS"))
        return
    severity = ERROR if name == "SparseAdam" else WARNING
    yield RULE.finding(script, call, f"{name} {_COSTS[name]}: use Adam or SGD", severity=severity)
