"""A dataset that moves samples to the device stalls the loader.

## What it reports

Datasets and collate functions that move samples to the device, and datasets of tensors on the
device.

## Why it matters on XLA

Each sample is a separate transfer. In a worker process, which must not use the device, the loader
hangs.

## What to do

Fix: safe, or none.

Keep samples on the host. The device loader moves whole batches.

## Example

```diff
 import torch
 from torch.utils.data import DataLoader, Dataset
+from xla_migrate import runtime as xla

 class Pairs(Dataset):
     def __getitem__(self, index):
-        return self.x[index].cuda(), self.y[index].cuda()
+        return self.x[index], self.y[index]

 def train(model, optimizer):
-    for x, y in DataLoader(Pairs(), batch_size=8, drop_last=True):
+    for x, y in xla.MpDeviceLoader(DataLoader(Pairs(), batch_size=8, drop_last=True)):
         optimizer.zero_grad()
         model(x, y).backward()
-        optimizer.step()
+        xla.optimizer_step(optimizer)
```

Collate functions:

```diff
 from torch.utils.data import DataLoader, default_collate
+from xla_migrate import runtime as xla

 def train(model, dataset, optimizer, device):
-    loader = DataLoader(dataset, collate_fn=lambda batch: [t.to(device) for t in default_collate(batch)])
+    loader = DataLoader(dataset, collate_fn=lambda batch: [t for t in default_collate(batch)])
-    for x, y in loader:
+    for x, y in xla.MpDeviceLoader(loader):
         optimizer.zero_grad()
         model(x, y).backward()
-        optimizer.step()
+        xla.optimizer_step(optimizer)
```

A dataset of tensors on the device is indexed sample by sample. Each index is part of the graph,
so each batch is a new graph (fact 3.31):

```diff
 import torch
 from torch.utils.data import TensorDataset
+from xla_migrate import runtime as xla

 def load(x, y):
-    return TensorDataset(torch.tensor(x).cuda(), torch.tensor(y).cuda())  # XLA405
+    return TensorDataset(torch.tensor(x).to(xla.xla_device()), torch.tensor(y).to(xla.xla_device()))  # XLA405
```

Operations on the host are not reported:

```python
from torch.utils.data import Dataset

class Floats(Dataset):
    def __getitem__(self, index):
        return self.x[index].to("cpu")
```

## Limits

If batches of a dataset feed a loop in another file, the moves are kept. They work as long as no
worker process makes them. For speed, remove them and move the batches in that loop.

## See also

XLA401
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...analysis.nodes import walk
from ...analysis.scopes import Scope
from ...analysis.script import Script
from ...analysis.training.tensors.moved_tensors import is_moved
from ...edits import Replace
from ...finding import MEDIUM, WARNING, Finding
from ...rule import Rule

RULE = Rule("XLA405", "device-in-dataset")


@RULE.file
def device_in_dataset(script: Script) -> Iterator[Finding]:
    taken = script.training.moves_left_to_loops
    for call in script.training.feeding.moves_in_loading:
        assert isinstance(call.func, ast.Attribute)
        message = "the loader moves samples to the device one by one, which is slow and hangs in worker processes: move whole batches in the loop"
        if call in taken:
            yield RULE.finding(script, call, message, Replace(call, "{0}", (call.func.value,)))
        else:
            yield RULE.finding(script, call, message, effort=MEDIUM, severity=WARNING)


_CUT_UP = (
    "indexing samples on the device makes XLA compile for every batch: keep the dataset on the host"
)


@RULE.call("torch.utils.data.TensorDataset")
def tensors(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    """`TensorDataset(x.cuda(), y.cuda())`."""
    if any(is_moved(script, given) for given in call.args):
        yield RULE.finding(script, call, _CUT_UP, effort=MEDIUM)


@RULE.node(ast.FunctionDef)
def held(script: Script, method: ast.FunctionDef, scope: Scope) -> Iterator[Finding]:
    """`self.x[index]`, if the constructor has put `self.x` on the device."""
    if method.name != "__getitem__" or len(method.args.args) != 2 or script.is_in_a_module(method):
        return
    index = method.args.args[1].arg
    for node in walk(method):
        match node:
            case ast.Subscript(value=ast.Attribute() as whole, slice=ast.Name(id=name)) if (
                name == index and is_moved(script, whole)
            ):
                yield RULE.finding(script, node, _CUT_UP, effort=MEDIUM)
                return
