"""`nn.DataParallel` passes inputs from the CPU to a module that is on XLA.

It splits batches over the CUDA devices of one process, and brings them there. On XLA it hands everything to the one
module as it is, which fails where a batch is still on the CPU. `xla.DataParallel` brings inputs to the module's device;
on CUDA it is torch's.

```diff
 import torch
 from torch import nn
+from xla_migrate import runtime as xla

-model = nn.DataParallel(nn.Linear(4, 2)).cuda()
+model = xla.DataParallel(nn.Linear(4, 2)).to(xla.xla_device())
-torch.save(model.module.state_dict(), "model.pt")
+xla.save(model.module.state_dict(), "model.pt")
```

It uses one XLA device. To use several, wrap with `DistributedDataParallel` and start one process per device
(`xla.launch`, `torchrun`), or migrate with `--parallel spmd`, where one process drives all devices.

Where the type itself is compared, the runtime's is meant; `isinstance(model, nn.DataParallel)` stays true:

```diff
 import torch
 from torch import nn
+from xla_migrate import runtime as xla

 def unwrap(model):
-    return model.module if type(model) in (nn.DataParallel, nn.parallel.DistributedDataParallel) else model
+    return model.module if type(model) in (xla.DataParallel, xla.DistributedDataParallel) else model

 def unwrap_one(model):
     return model.module if isinstance(model, nn.DataParallel) else model
```

The function, which takes module and inputs at once, is left to a person; classes of other makes stay:

```python
from mylib import DataParallel

model = DataParallel(net, device_ids=[0, 1])
```
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...edits import Replace
from ...findings import Finding
from ...rule import Rule
from ...syntax import is_handed_on

if TYPE_CHECKING:
    from ...names import Scope
    from ...script import Script

RULE = Rule("XLA605", "single-process-data-parallel")

_CLASSES = (
    "torch.nn.DataParallel",
    "torch.nn.parallel.DataParallel",
    "torch.nn.parallel.data_parallel.DataParallel",
)
_MESSAGE = "`DataParallel` leaves inputs on the CPU, and uses one XLA device (DistributedDataParallel uses all)"


@RULE.call(*_CLASSES)
def data_parallel(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    yield RULE.at(script, call, _MESSAGE, Replace(call.func, f"{script.xla}.DataParallel"))


@RULE.reference(*_CLASSES)
def handed_on(script: Script, node: ast.expr, scope: Scope) -> Iterator[Finding]:
    """`wrap = nn.DataParallel`; `isinstance(model, nn.DataParallel)` stays true."""
    if is_handed_on(node, script.parents) or _is_compared(script, node):
        yield RULE.at(script, node, _MESSAGE, Replace(node, f"{script.xla}.DataParallel"))


def _is_compared(script: Script, node: ast.expr) -> bool:
    """`type(model) is nn.DataParallel`, `type(model) in (nn.DataParallel, ...)`."""
    parent = script.parent(node)
    if isinstance(parent, (ast.Tuple, ast.List, ast.Set)):
        parent = script.parent(parent)
    return isinstance(parent, ast.Compare)


@RULE.call("torch.nn.parallel.data_parallel", "torch.nn.parallel.data_parallel.data_parallel")
def function(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    message = "`data_parallel` needs CUDA devices: call the module itself"
    yield RULE.at(script, call, message)
