"""`capturable` optimizers are made for CUDA graphs.

They keep their step count on the device, which XLA does not need: with `foreach=True` they fail there, and with a
learning rate on the device they read it back at each step (xla-facts 3.26). Without CUDA graphs nothing speaks for
them; the arithmetic differs a little, so the fix is unsafe.

```diff
 import torch

-optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, capturable=True)
+optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
```

```python
import torch

optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, capturable=False)
```
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...edits import DropArgument
from ...findings import ERROR, UNSAFE, WARNING, Finding
from ...rule import Rule
from ...syntax import keyword
from ...values import OPTIMIZER

if TYPE_CHECKING:
    from ...names import Scope
    from ...script import Script

RULE = Rule("XLA305", "capturable", severity=WARNING)


@RULE.node(ast.keyword, named=("capturable",))
def capturable(script: Script, node: ast.keyword, scope: Scope) -> Iterator[Finding]:
    call = script.parent(node)
    if not _is_true(node.value) or not isinstance(call, ast.Call):
        return
    if not (script.dotted(call.func, scope) or "").startswith("torch.optim."):
        return
    if script.value(call, scope).has(OPTIMIZER):
        fails = _is_true(keyword(call, "foreach"))
        message = "capturable is for CUDA graphs, and fails on XLA together with foreach"
        severity = ERROR if fails else WARNING
        edit = DropArgument(call, node)
        yield RULE.at(script, node.value, message, edit, safety=UNSAFE, severity=severity)


def _is_true(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Constant) and node.value is True
