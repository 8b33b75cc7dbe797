"""A script that was written for torch_xla by hand is not rewritten.

## What it reports

Files that compute, mark steps, step, launch, shard or save with torch_xla, in a branch or
everywhere.

## Why it matters on XLA

The author has handled devices, step marks, averages between replicas and files. Fixes would do
these things twice. Other findings in the file are reported without fixes.

## What to do

Fix: none.

Run `xla-migrate --from torch_xla` to rewrite the whole file to the runtime. It then also runs on
CUDA and on the backends that follow torch_xla.

## Example

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

A file with one branch for CUDA and one for XLA is not rewritten either, because fixes in code
that both share would apply twice:

```python
import torch

try:
    import torch_xla.core.xla_model as xm  # XLA011
except ImportError:
    xm = None

def device():
    return xm.xla_device() if xm is not None else torch.device("cuda")
```

Scripts that only read metrics or set a seed with torch_xla are migrated. The same applies to
scripts of Accelerate and Lightning Fabric:

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

from ...analysis.by_hand.written import is_written_by_hand
from ...analysis.script import Script
from ...analysis.syntax import packages
from ...finding import INFO, Finding
from ...rule import Rule

RULE = Rule("XLA011", "hand-written-torch-xla", severity=INFO, words=("torch_xla",))


@RULE.file
def hand_written(script: Script) -> Iterator[Finding]:
    if script.origin or not is_written_by_hand(script):
        return
    imports = (*script.index.of(ast.Import), *script.index.of(ast.ImportFrom))
    brought = (node for node, _ in imports if "torch_xla" in packages(node))
    first = min(brought, key=lambda node: node.lineno)
    message = "the file is written for torch_xla by hand and is not rewritten: use `--from torch_xla` to rewrite it to the runtime"
    yield RULE.finding(script, first, message)
