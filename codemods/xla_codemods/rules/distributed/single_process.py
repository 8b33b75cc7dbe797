"""`nn.DataParallel` uses one XLA device, and says nothing.

It splits batches over the CUDA devices of one process. On XLA it passes everything to the one module
(xla-facts, section 2): right, but on one device. To use several, wrap with `DistributedDataParallel` and start one process
per device (`xla.launch`, `torchrun`), or migrate with `--parallel spmd`, where one process drives all devices.

```python
import torch
from torch import nn
from xla_migrate import runtime as xla

model = nn.DataParallel(nn.Linear(4, 2)).to(xla.xla_device())
xla.save(model.module.state_dict(), "model.pt")
```
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...findings import INFO, MEDIUM, Finding
from ...rule import Rule

if TYPE_CHECKING:
    from ...names import Scope
    from ...script import Script

RULE = Rule("XLA605", "single-process-data-parallel", severity=INFO, effort=MEDIUM)


@RULE.call(
    "torch.nn.DataParallel",
    "torch.nn.parallel.DataParallel",
    "torch.nn.parallel.data_parallel.DataParallel",
    "torch.nn.parallel.data_parallel",
)
def data_parallel(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    message = "`DataParallel` uses one XLA device: use DistributedDataParallel with `xla.launch` for several"
    yield RULE.at(script, call, message)
