"""apex's `clip_grad_norm_` is a CUDA kernel.

## What it reports

`apex.contrib.clip_grad.clip_grad_norm_`.

## Why it matters on XLA

apex fails without CUDA.

## What to do

Fix: safe.

Use `torch.nn.utils.clip_grad_norm_`, which computes the same.

## Example

```diff
 import torch
-from apex.contrib.clip_grad import clip_grad_norm_

-norm = clip_grad_norm_(model.parameters(), 1.0)
+norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
```

PyTorch's function is not reported:

```python
from torch.nn.utils import clip_grad_norm_

norm = clip_grad_norm_(model.parameters(), 1.0)
```
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...analysis.scopes import Scope
from ...analysis.script import Script
from ...analysis.syntax import is_handed_on
from ...edits import Replace
from ...finding import Finding
from ...rule import Rule

RULE = Rule("XLA309", "apex-clip-grad")

_NAMES = (
    "apex.contrib.clip_grad.clip_grad_norm_",
    "apex.contrib.clip_grad.clip_grad.clip_grad_norm_",
)


@RULE.call(*_NAMES)
def called(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    yield _finding(script, call.func, scope)


@RULE.reference(*_NAMES)
def referred_to(script: Script, node: ast.expr, scope: Scope) -> Iterator[Finding]:
    if is_handed_on(node, script.parents):
        yield _finding(script, node, scope)


def _finding(script: Script, node: ast.expr, scope: Scope) -> Finding:
    edit = Replace(node, script.spell("torch.nn.utils.clip_grad_norm_", scope))
    return RULE.finding(
        script,
        node,
        "apex's clip_grad_norm_ fails without CUDA: use `torch.nn.utils.clip_grad_norm_`",
        edit,
    )
