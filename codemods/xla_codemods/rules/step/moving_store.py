"""A write to a different position of a tensor in every step compiles in every step.

## What it reports

Assignments to an element or a slice of a device tensor whose Python index changes from step to
step.

## Why it matters on XLA

Python integers that index are part of the graph, so each number is a new graph (fact 3.31).

## What to do

Fix: safe or none.

Use `xla.put`, which takes the position as data.

## Example

Values that a rollout collects:

```diff
 import torch
+from xla_migrate import runtime as xla

 def train(policy, optimizer, env, steps, device):
     rewards = torch.zeros(128, 4).to(device)
     observation = env.reset().to(device)
     for update in range(steps):
         for step in range(128):
             with torch.no_grad():
                 action = policy(observation)
-            rewards[step] = env.step(action)
+            xla.put(rewards, 0, step, env.step(action))
+            xla.mark_step()
         loss = policy(observation).mean() * rewards.sum()
         optimizer.zero_grad()
         loss.backward()
-        optimizer.step()
+        xla.optimizer_step(optimizer)
+        xla.mark_step()
```

A queue whose position is an attribute of a module:

```diff
 import torch
 from torch import nn
+from xla_migrate import runtime as xla

 class Queue(nn.Module):
     def __init__(self, dim, size):
         super().__init__()
         self.register_buffer("queue", torch.randn(dim, size))
         self.pointer = 0

     @torch.no_grad()
     def enqueue(self, keys):
         n = keys.shape[0]
-        self.queue[:, self.pointer : self.pointer + n] = keys.T
+        xla.put(self.queue, 1, self.pointer, keys.T, length=n)
         self.pointer = (self.pointer + n) % self.queue.shape[1]

     def train_step(self, model, optimizer, x):
-        loss = model(x.cuda()) @ self.queue
+        loss = model(x.to(xla.xla_device())) @ self.queue
         loss.mean().backward()
-        optimizer.step()
+        xla.optimizer_step(optimizer)
+        xla.mark_step()
```

A slice whose length changes, too:

```python
import random
import torch
from xla_migrate import runtime as xla

def train_on_masked(model, optimizer, batches):
    for x in xla.MpDeviceLoader(batches):
        width = random.randint(0, 8)
        start = random.randint(0, 80 - width)
        x[:, start : start + width] = 0  # XLA519
        model(x).mean().backward()
        xla.optimizer_step(optimizer)
```

Writes at constant positions, to host tensors and into lists are not reported:

```python
import torch
from xla_migrate import runtime as xla

def train(model, optimizer, batches, losses, device):
    table = torch.zeros(4).to(device)
    host = torch.zeros(100)
    for i, x in enumerate(xla.MpDeviceLoader(batches)):
        loss = model(x).mean()
        loss.backward()
        xla.optimizer_step(optimizer)
        table[0] = 1.0
        host[i] = 2.0
        losses[i] = 3.0
```

## Limits

The fix covers one index, or one slice of known length. It does not cover additions in place and
several targets of one assignment.

## See also

XLA506
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...analysis.script import Script
from ...analysis.training.shapes.counters import Counters
from ...analysis.training.shapes.cutting import (
    has_moving_bounds,
    is_on_device,
    is_whole,
    length_of,
    moving_part,
    put_text,
)
from ...analysis.training.shapes.lengths import may_be_on_device
from ...analysis.training.tensors.computed import computing, is_state
from ...analysis.training.turns import in_each_step
from ...edits import ReplaceStatement
from ...finding import MEDIUM, SAFE, UNSAFE, WARNING, Finding
from ...rule import Rule
from ...symptoms import LIKELY, POSSIBLE

RULE = Rule(
    "XLA519",
    "moving-store",
    of_what_runs=True,
    severity=WARNING,
    effort=MEDIUM,
    about="speed",
    behind={"static shapes": LIKELY, "bounded graph": POSSIBLE},
)

_MESSAGE = (
    "an assignment at an index that changes makes XLA compile again for each number: use `xla.put`"
)
_BOUNDS = "an assignment to a slice whose bounds change makes XLA compile again for each pair of bounds: use `xla.put` if the length is constant, or compare `torch.arange(n)` with the bounds, and choose with `torch.where`"
_LENGTH = "an assignment to a slice whose length changes makes XLA compile again for each length: compare `torch.arange(n)` with the bounds, and choose with `torch.where`"


@RULE.file
def moving_store(script: Script) -> Iterator[Finding]:
    if not script.is_trained:
        return
    stores: list[ast.Assign | ast.AugAssign] = [
        *(assign for assign, _ in script.index.of(ast.Assign)),
        *(augment for augment, _ in script.index.of(ast.AugAssign)),
    ]
    for assign in stores:
        for target in assign.targets if isinstance(assign, ast.Assign) else [assign.target]:
            if not isinstance(target, ast.Subscript):
                continue
            if _is_on_device(script, target):
                yield from _of_target(script, assign, target, script.cached(Counters))
            elif _may_be_a_batch(script, target):
                moving = moving_part(target.slice, script.cached(Counters).moves)
                if moving is not None:
                    yield RULE.finding(script, target, _BOUNDS)


def _is_on_device(script: Script, target: ast.Subscript) -> bool:
    node = target.value
    if _may_be_a_list(script, node):
        return False
    if isinstance(node, ast.Attribute) and is_state(script, node):
        return script.runs_accelerated
    if is_on_device(script, node, target.slice):
        return True
    is_tensor = isinstance(target.slice, ast.Tuple)  # no list takes several indices
    return (
        is_tensor
        and script.function(target) in computing(script)
        and may_be_on_device(script, node)
    )


def _may_be_a_batch(script: Script, target: ast.Subscript) -> bool:
    """Return True for `x[:, :, a:b, c:d]` of an unknown value in a training step, most often images on the device."""
    match target:
        case ast.Subscript(value=ast.Name() as name, slice=ast.Tuple(elts=[first, second, _, *_])):
            is_unknown = not script.value(name).kinds and script.runs_accelerated
            is_of_images = is_unknown and is_whole(first) and is_whole(second)
            return is_of_images and target in in_each_step(script)
    return False


def _may_be_a_list(script: Script, node: ast.expr) -> bool:
    """True if one of the bindings that are read is a list or a dict, which `xla.put` does not take."""
    return isinstance(node, ast.Name) and any(
        isinstance(binding.whole, _CONTAINERS) for binding in script.reaching(node)
    )


_CONTAINERS = (ast.List, ast.ListComp, ast.Dict, ast.DictComp)


def _of_target(
    script: Script,
    assign: ast.Assign | ast.AugAssign,
    target: ast.Subscript,
    counters: Counters,
) -> Iterator[Finding]:
    """`rewards[step] = r`, `queue[:, i : i + n] = keys`."""
    found = moving_part(target.slice, counters.moves)
    if found is None:
        return
    dim, part, alone = found
    length = length_of(part) if isinstance(part, ast.Slice) else None
    if length is not None and counters.changes(length):
        yield RULE.finding(script, target, _LENGTH)
        return
    is_plain = alone and isinstance(assign, ast.Assign) and len(assign.targets) == 1
    put = put_text(script, target, dim, part, assign.value) if is_plain else None
    if put is None:
        has_bounds = has_moving_bounds(part, counters.moves)
        yield RULE.finding(script, target, _BOUNDS if has_bounds else _MESSAGE)
        return
    # A number fills a slice that ends beyond the tensor; `xla.put` raises an exception there.
    is_sure = (
        not (isinstance(part, ast.Slice) and isinstance(assign.value, ast.Constant))
        or part.lower is None
        or length is None
        or counters.stays_inside(target.value, dim, part.lower, length)
    )
    edit = ReplaceStatement(assign, *put)
    yield RULE.finding(script, target, _MESSAGE, edit, safety=SAFE if is_sure else UNSAFE)
