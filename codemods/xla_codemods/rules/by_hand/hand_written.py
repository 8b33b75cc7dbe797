"""A script that was written for torch_xla by hand is left as it is.

Its author has seen to devices, step marks, averages over replicas and files, and two hands at them would make each twice.
So nothing in such a file is rewritten, and what is found in it (CUDA-only names, host reads, shapes that change) comes
without fixes. `xla-migrate --from torch_xla` rewrites the file as a whole to the runtime, so that it also runs on CUDA
and on the backends that follow torch_xla.

```python
import torch
import torch_xla  # XLA011
import torch_xla.core.xla_model as xm

def train(model, loader, optimizer):
    device = torch_xla.device()
    for x, y in loader:
        loss = model(x.to(device), y.to(device))
        loss.backward()
        xm.optimizer_step(optimizer, barrier=True)
```

A file is such a one where it calls what computes, marks, steps, launches, shards or saves through torch_xla, in a branch
of its own, too. One with a branch for CUDA and one for XLA is left as well: what both share would come twice.

```python
import torch

try:
    import torch_xla.core.xla_model as xm  # XLA011
except ImportError:
    xm = None

def device():
    return xm.xla_device() if xm is not None else torch.device("cuda")
```

Asking for metrics or setting a seed is none of that, and such a script for CUDA is migrated. Nor is a script that
Accelerate or Lightning Fabric drives.

```diff
 import torch
 import torch_xla.debug.metrics as met
+from xla_migrate import runtime as xla

 def move(x):
     print(met.metrics_report())
-    return x.cuda()
+    return x.to(xla.xla_device())
```
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...analysis.by_hand.written import is_written_by_hand
from ...analysis.nodes import walk
from ...finding import INFO, Finding
from ...rule import Rule

if TYPE_CHECKING:
    from ...analysis.script import Script

RULE = Rule("XLA011", "hand-written-torch-xla", severity=INFO)


@RULE.file
def hand_written(script: Script) -> Iterator[Finding]:
    if script.origin or not is_written_by_hand(script):
        return
    first = next(n for n in walk(script.tree) if _brings_torch_xla(n))
    message = (
        "this is torch_xla code written by hand, and nothing in it is rewritten: use `--from torch_xla` to rewrite it"
        " to the runtime"
    )
    yield RULE.finding(script, first, message)


def _brings_torch_xla(node: ast.AST) -> bool:
    if isinstance(node, ast.ImportFrom):
        return not node.level and (node.module or "").partition(".")[0] == "torch_xla"
    return isinstance(node, ast.Import) and any(
        alias.name.partition(".")[0] == "torch_xla" for alias in node.names
    )
