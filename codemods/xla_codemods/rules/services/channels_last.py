"""`channels_last` has no effect on XLA.

## What it reports

`memory_format=torch.channels_last` and `channels_last_3d` in files that train on an accelerator.

## Why it matters on XLA

XLA's compiler chooses the layout of tensors. Nothing fails, and values are the same: `to`,
`contiguous` and `torch.empty` accept the argument and return a tensor with the same `stride()` as
before.

## What to do

Fix: none.

Keep the argument for runs on CUDA, or remove it.

## Example

```python
import torch
from xla_migrate import runtime as xla

def train(model, loader, optimizer, criterion):
    device = xla.xla_device()
    model = model.to(device, memory_format=torch.channels_last)  # XLA133
    for images, labels in xla.MpDeviceLoader(loader):
        images = images.contiguous(memory_format=torch.channels_last)  # XLA133
        loss = criterion(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        xla.optimizer_step(optimizer)
```

A layout that is chosen is reported once, at the line that names it:

```python
import torch
from xla_migrate import runtime as xla

def step(model, clips, labels, args):
    layout = torch.channels_last_3d if args.channels_last else torch.preserve_format  # XLA133
    clips = clips.to(xla.xla_device(), memory_format=layout)
    torch.nn.functional.cross_entropy(model(clips), labels).backward()
```

Options of that name, other layouts and queries are not reported. On XLA
`is_contiguous(memory_format=torch.channels_last)` is True for each contiguous tensor:

```python
import torch
from xla_migrate import runtime as xla

def step(model, images, labels, args):
    images = images.to(xla.xla_device(), memory_format=torch.contiguous_format)
    if args.channels_last:
        print("channels_last", images.is_contiguous(memory_format=torch.channels_last))
    torch.nn.functional.cross_entropy(model(images), labels).backward()
```

Files that do not train, or that train only on the CPU, are not reported:

```python
import torch

def predict(model, images):
    return model(images.contiguous(memory_format=torch.channels_last))
```
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...analysis.scopes import Scope
from ...analysis.script import Script
from ...finding import INFO, Finding
from ...rule import Rule

RULE = Rule(
    "XLA133",
    "channels-last",
    severity=INFO,
    about="speed",
    shows_accelerator=False,
    behind={},
)


@RULE.reference("torch.channels_last", "torch.channels_last_3d")
def channels_last(script: Script, node: ast.expr, scope: Scope) -> Iterator[Finding]:
    if script.trains and script.runs_accelerated and _asks_for_it(script, node):
        name = script.segment(node)
        message = f"`{name}` has no effect on XLA, whose compiler chooses layouts: it can stay"
        yield RULE.finding(script, node, message)


def _asks_for_it(script: Script, node: ast.expr) -> bool:
    """True if `node` is what an argument or a variable is given, alone or as one of two."""
    given: ast.AST = node
    place = script.parent(given)
    while isinstance(place, ast.IfExp) and given is not place.test:
        given, place = place, script.parent(place)
    if isinstance(place, ast.keyword):
        call = script.parent(place)
        asks = (
            isinstance(call, ast.Call)
            and isinstance(call.func, ast.Attribute)
            and call.func.attr == "is_contiguous"
        )
        return place.arg == "memory_format" and not asks
    return isinstance(place, (ast.Assign, ast.AnnAssign)) and given is place.value
