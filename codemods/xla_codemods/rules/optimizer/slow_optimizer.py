"""Some optimizers decide on the host, at every step.

They read values back, or compile anew, because their arithmetic branches on numbers (fact 3.27). Per step, for each
parameter, on torch_xla 2.9: ASGD reads 3 values, Adafactor 2, Muon 10, Rprop 4 while it compiles ten graphs; LBFGS, in
all, compiles 33, then 62, then 89, and goes on growing. SparseAdam takes sparse gradients, which XLA does not have.

The runtime's LBFGS is torch's with its history and its decisions on the host: each evaluation is one launch and one read.

```diff
 import torch
 from xla_migrate import runtime as xla

 model = torch.nn.Linear(4, 2).to(xla.xla_device())
-optimizer = torch.optim.LBFGS(model.parameters())
+optimizer = xla.LBFGS(model.parameters())
```

The others are left.

```python
import torch
from xla_migrate import runtime as xla

model = torch.nn.Linear(4, 2).to(xla.xla_device())
optimizer = torch.optim.Rprop(model.parameters())  # XLA307
```

Where the file computes on the CPU nothing is said.

```python
import torch

optimizer = torch.optim.LBFGS(torch.nn.Linear(4, 2).parameters())
```
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...edits import Replace
from ...finding import ERROR, MEDIUM, WARNING, Finding
from ...rule import Rule
from ...symptoms import LIKELY, POSSIBLE, REMOTE

if TYPE_CHECKING:
    from ...analysis.scopes import Scope
    from ...analysis.script import Script

RULE = Rule(
    "XLA307",
    "slow-optimizer",
    severity=WARNING,
    effort=MEDIUM,
    behind={"launches": LIKELY, "static shapes": POSSIBLE, "bounded graph": REMOTE},
)

_COSTS = {
    "LBFGS": "compiles dozens of graphs in every step on XLA",
    "ASGD": "reads three values of each parameter back in every step on XLA",
    "Adafactor": "reads two values of each parameter back in every step on XLA",
    "Muon": "reads ten values of each parameter back in every step on XLA",
    "Rprop": "reads four values of each parameter back and compiles new graphs in every step on XLA",
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
