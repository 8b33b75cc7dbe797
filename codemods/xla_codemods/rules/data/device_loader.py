"""A loop that moves its own batches waits for each transfer and marks no steps.

## What it reports

Loops over loaders that train or predict on the accelerator.

## Why it matters on XLA

Without a step mark the graph grows with each batch. The device also waits while the batch is
copied.

## What to do

Fix: safe.

Use `xla.MpDeviceLoader`. It moves batches to the device ahead of use and marks a step after each
batch. It wraps the iterable of the loop, so the loader's `dataset`, `sampler` and length stay the
same.

## Example

```diff
 import torch
 from torch.utils.data import DataLoader
+from xla_migrate import runtime as xla

 def train(model, dataset, optimizer, device):
     loader = DataLoader(dataset, batch_size=8, drop_last=True)
-    for step, (x, y) in enumerate(loader):
+    for step, (x, y) in enumerate(xla.MpDeviceLoader(loader)):
         x, y = x.to(device), y.to(device)
         optimizer.zero_grad()
         model(x, y).backward()
-        optimizer.step()
+        xla.optimizer_step(optimizer)
     print(step, len(loader.dataset))
```

Parts of a batch that the loop needs on the host stay there, if their names distinguish them from
the parts that the loop moves:

```diff
 import torch
 from torch.utils.data import DataLoader
+from xla_migrate import runtime as xla

 def train(model, dataset, optimizer, device):
-    for x, names in DataLoader(dataset, batch_size=8, drop_last=True):
+    for x, names in xla.MpDeviceLoader(DataLoader(dataset, batch_size=8, drop_last=True), host=(1,)):
         print(names.tolist())
         optimizer.zero_grad()
         model(x.to(device)).sum().backward()
-        optimizer.step()
+        xla.optimizer_step(optimizer)
```

If the parts cannot be distinguished, the loop moves the batches, and a step mark is added:

```diff
 import torch
 from torch.utils.data import DataLoader
+from xla_migrate import runtime as xla

 def train(model, dataset, optimizer, device, show):
     for batch in DataLoader(dataset, batch_size=8, drop_last=True):
         show(batch)
         optimizer.zero_grad()
         model(batch["image"].to(device)).sum().backward()
-        optimizer.step()
+        xla.optimizer_step(optimizer)
+        xla.mark_step()
```

If a flag decides whether the batch is moved, the flag selects the loader:

```diff
 import torch
 from torch.utils.data import DataLoader
+from xla_migrate import runtime as xla

 def train(model, dataset, optimizer, args):
     loader = DataLoader(dataset)
-    for x, y in loader:
+    for x, y in xla.MpDeviceLoader(loader) if args.cuda else loader:
         if args.cuda:
-            x, y = x.cuda(), y.cuda()
+            x, y = x.to(xla.xla_device()), y.to(xla.xla_device())
         optimizer.zero_grad()
         model(x, y).backward()
-        optimizer.step()
+        xla.optimizer_step(optimizer)
```

A loop that fetches its next batch before the backward pass keeps its loader. The step mark of a
device loader would separate the forward from the backward pass:

```diff
 import torch
 from torch.utils.data import DataLoader
+from xla_migrate import runtime as xla

 def train(model, dataset, optimizer, device):
     batches = iter(DataLoader(dataset, batch_size=8, drop_last=True))
     x, y = next(batches)
     for step in range(100):
         loss = model(x.to(device), y.to(device)).sum()
         x, y = next(batches)
         optimizer.zero_grad()
         loss.backward()
-        optimizer.step()
+        xla.optimizer_step(optimizer)
+        xla.mark_step()
```

Functions of PyTorch that loop over a loader would otherwise be one graph for the whole epoch
(fact 3.32):

```diff
 import torch
 from torch.optim.swa_utils import update_bn
+from xla_migrate import runtime as xla

-update_bn(loader, swa_model, device="cuda")
+update_bn(xla.MpDeviceLoader(loader), swa_model, device=xla.xla_device())
```

Loops without a training step and without a prediction are not reported:

```python
from torch.utils.data import DataLoader

def mean(dataset):
    return sum(x.mean() for x, _ in DataLoader(dataset))
```

## See also

XLA502, XLA405
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...analysis.frameworks.accelerator import uses_accelerate
from ...analysis.inference.values import DEVICE_LOADER
from ...analysis.scopes import Scope
from ...analysis.script import Script
from ...analysis.syntax import keyword
from ...analysis.training.loaders import Driver
from ...analysis.training.training import Loop
from ...analysis.training.transfer_flags import flag_of_moves
from ...edits import Replace
from ...finding import WARNING, Finding
from ...rule import Rule
from ...symptoms import REMOTE

_MOVES = (".to(", ".cuda(", "device")

RULE = Rule(
    "XLA401",
    "device-loader",
    of_step="turn",
    severity=WARNING,
    behind={"static shapes": REMOTE, "launches": REMOTE},
)


@RULE.file
def device_loader(script: Script) -> Iterator[Finding]:
    fed: dict[ast.expr, list[tuple[Loop, Driver]]] = {}
    for loop in script.training.loops:
        if not script.trains and not _may_move(script, loop):
            continue
        for driver in loop.drivers:
            if not driver.cached and script.training.feeding.wraps(loop, driver):
                fed.setdefault(driver.node, []).append((loop, driver))
    for node, loops in fed.items():
        yield RULE.finding(
            script,
            node,
            "XLA does not run the steps of the loop one by one: iterate over `xla.MpDeviceLoader`, which moves batches and marks steps",
            _wrapped(script, loops),
        )


@RULE.call("torch.optim.swa_utils.update_bn")
def update_bn(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    loader = call.args[0] if call.args else keyword(call, "loader")
    if loader is None or uses_accelerate(script) or not script.accelerated:
        return
    if not script.value(loader, scope).has(DEVICE_LOADER):
        edit = Replace(loader, f"{script.xla}.MpDeviceLoader({{0}})", (loader,))
        yield RULE.finding(
            script,
            loader,
            "PyTorch's loop over the batches becomes one XLA graph of all batches: pass an `xla.MpDeviceLoader`",
            edit,
        )


def _wrapped(script: Script, loops: list[tuple[Loop, Driver]]) -> Replace:
    """`loops`: those that iterate over the same."""
    loop, driver = loops[0]
    parts = {part for each in loops for part in script.training.feeding.parts_on_host(*each)}
    host = ", ".join(sorted(str(p) if isinstance(p, int) else f'"{p}"' for p in parts))
    given = f", host=({host},)" if len(parts) == 1 else f", host=({host})" if parts else ""
    node, text = driver.node, f"{script.xla}.MpDeviceLoader({{0}}{given})"
    flag = flag_of_moves(script, loop, driver)
    if flag is None:
        return Replace(node, text, (node,))
    return Replace(node, f"{text} if {flag} else {{0}}", (node,))


def _may_move(script: Script, loop: Loop) -> bool:
    """True if anything on the loop's lines looks like a move: asked before anything is evaluated."""
    lines = script.source.lines[loop.node.lineno - 1 : loop.node.end_lineno]
    return any(word in line for line in lines for word in _MOVES)
