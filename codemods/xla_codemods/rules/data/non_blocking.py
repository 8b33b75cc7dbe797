"""`non_blocking=True` has no effect on XLA.

## What it reports

`non_blocking=` in copies of batches that a device loader moves.

## Why it matters on XLA

The argument requests a copy from pinned host memory, which exists only with CUDA. XLA accepts and
ignores it. A device loader has moved the batch before the script does.

## What to do

Fix: safe.

Remove the argument. The device loader's copies are non-blocking on CUDA.

## Example

```diff
 import torch
 from torch.utils.data import DataLoader
+from xla_migrate import runtime as xla

 def train(model, optimizer, dataset):
     loader = DataLoader(dataset, batch_size=8, drop_last=True)
-    for images in loader:
+    for images in xla.MpDeviceLoader(loader):
-        loss = model(images.to("cuda", non_blocking=True)).sum()
+        loss = model(images.to(xla.xla_device())).sum()
         loss.backward()
-        optimizer.step()
+        xla.optimizer_step(optimizer)
         optimizer.zero_grad()
```

Other copies keep the argument, which makes them faster on CUDA:

```python
import torch

def move(images, device):
    return images.to(device, non_blocking=True)
```

Arguments of the same name of other functions are not reported:

```python
def send(socket, data):
    socket.write(data, non_blocking=True)
```

## See also

XLA402
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...analysis.scopes import Scope
from ...analysis.script import Script
from ...edits import DropArgument
from ...finding import INFO, Finding
from ...rule import Rule

RULE = Rule("XLA403", "non-blocking", severity=INFO)


@RULE.method("to")
def non_blocking(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    argument = next((each for each in call.keywords if each.arg == "non_blocking"), None)
    if argument is not None and call in script.training.moves_of_device_loaders:
        message = "the device loader has moved the batch: remove `non_blocking`"
        yield RULE.finding(script, argument, message, DropArgument(call, argument))
