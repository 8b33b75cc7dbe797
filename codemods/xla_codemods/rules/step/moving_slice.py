"""A slice at a different position in every step compiles in every step.

## What it reports

Slices, indices and ranges of device tensors whose Python numbers change from step to step.

## Why it matters on XLA

Python integers that slice or index are part of the graph, so each number is a new graph (fact
3.31).

## What to do

Fix: safe, unsafe or none.

Use `xla.narrow`, which takes the position as data. It returns a copy. To write into a slice, use
`xla.put` (XLA519).

## Example

```diff
 import torch
+from xla_migrate import runtime as xla

 def train(model, optimizer, device, length):
     source = torch.rand(10000, 64).to(device)
     for i in range(0, source.size(0) - length, length):
-        x = source[i : i + length]
+        x = xla.narrow(source, 0, i, length)
         loss = model(x).mean()
         optimizer.zero_grad()
         loss.backward()
-        optimizer.step()
+        xla.optimizer_step(optimizer)
+        xla.mark_step()
```

An index that is a number of the loop, as in samplers of diffusion models:

```diff
 import torch
+from xla_migrate import runtime as xla

 @torch.no_grad()
 def sample(model, x, steps):
-    betas = torch.linspace(1e-4, 0.02, steps).cuda()
+    betas = torch.linspace(1e-4, 0.02, steps).to(xla.xla_device())
     for t in reversed(range(steps)):
-        x = x - betas[t] * model(x)
+        x = x - xla.narrow(betas, 0, t) * model(x)
+        xla.mark_step()
     return x
```

A range with a changing start becomes a range from 0 plus the start:

```diff
 import torch
 from torch import nn
+from xla_migrate import runtime as xla

 def train(model, optimizer, embed, steps):
-    device = torch.device("cuda")
+    device = xla.xla_device()
     for i in range(steps):
-        positions = torch.arange(i, i + 8, device=device)
+        positions = torch.arange(8, device=device) + i
         loss = model(embed(positions)).mean()
         loss.backward()
-        optimizer.step()
+        xla.optimizer_step(optimizer)
+        xla.mark_step()
```

A slice that `copy_` writes to, as in buffers of rollouts:

```diff
 import torch
 from xla_migrate import runtime as xla

 def collect(model, batches, optimizer):
     kept = torch.zeros(512, 64, device=xla.xla_device())
     for i in range(0, 512, 8):
         x = batches(i).to(xla.xla_device())
         model(x).mean().backward()
         xla.optimizer_step(optimizer)
         xla.mark_step()
-        kept[i : i + 8].copy_(x)
+        xla.put(kept, 0, i, x, length=8)
```

Other methods that write to a slice are reported without a fix:

```python
import torch
from xla_migrate import runtime as xla

def collect(model, batches, optimizer):
    kept = torch.zeros(512, 64, device=xla.xla_device())
    for i in range(512):
        x = batches(i).to(xla.xla_device())
        model(x).mean().backward()
        xla.optimizer_step(optimizer)
        xla.mark_step()
        kept[i].mul_(0.9)  # XLA506
```

So are slices at the length of each sample. A mask of all positions is not:

```python
import torch
from xla_migrate import runtime as xla

def train(model, batches, optimizer):
    device = xla.xla_device()
    for x, lengths in xla.MpDeviceLoader(batches, host=(1,)):
        x = x.to(device)
        mask = torch.ones(x.shape, device=device)
        for i, n in enumerate(lengths):
            mask[i, n:] = 0  # XLA506
        positions = torch.arange(x.size(1), device=device)
        mask = mask * (positions < lengths.to(device)[:, None])
        loss = (model(x) * mask).mean()
        loss.backward()
        xla.optimizer_step(optimizer)
```

Slices at constant positions, and slices of lists and of host tensors, are not reported:

```python
from torch.utils.data import DataLoader
from xla_migrate import runtime as xla

def train(model, optimizer, names, dataset, device):
    for i, x in enumerate(xla.MpDeviceLoader(DataLoader(dataset))):
        loss = model(x[:, :-1]).mean()
        loss.backward()
        xla.optimizer_step(optimizer)
        print(names[i : i + 4])
```

## Limits

A slice may end beyond its tensor, but `xla.narrow` raises an exception there. If the rule cannot
tell that the end is inside the tensor, the fix is unsafe. If a function of another module slices
its argument, the call is reported without a fix.

## See also

XLA519, XLA510
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...analysis.inference.values import ACCEL
from ...analysis.nodes import walk
from ...analysis.script import Script
from ...analysis.syntax import argument_for, walk_body
from ...analysis.training.shapes.counters import Counters
from ...analysis.training.shapes.cutting import (
    has_moving_bounds,
    is_cut,
    is_on_device,
    is_written_to,
    length_of,
    moving_part,
    put_text,
)
from ...analysis.training.shapes.lengths import cut_at_lengths
from ...analysis.training.shapes.sizes import has_changing_length
from ...analysis.training.shapes.sums import is_sum
from ...analysis.training.tensors.computed import is_state
from ...analysis.training.tensors.moved_tensors import is_moved
from ...edits import Replace, ReplaceStatement
from ...finding import MEDIUM, SAFE, UNSAFE, WARNING, Finding
from ...flow.calls import call_of
from ...patterns import Pattern
from ...rule import Rule
from ...symptoms import LIKELY, POSSIBLE

_LAST_STEP = Pattern(r"== len\([\w.]+\) - 1|len\([\w.]+\) - 1 ==")

RULE = Rule(
    "XLA506",
    "moving-slice",
    of_what_runs=True,
    severity=WARNING,
    effort=MEDIUM,
    about="speed",
    behind={"static shapes": LIKELY, "bounded graph": POSSIBLE},
)

_MESSAGE = "a slice at a Python number that changes makes XLA compile again for each number: use `xla.narrow`"
_SIZE = "a slice whose size changes makes XLA compile again for each size: keep the full tensor, and mask what lies outside"
_BOUNDS = "a slice at Python numbers that change makes XLA compile again for each pair of numbers: use `xla.narrow` if the length is constant, or keep the full tensor, and mask what lies outside"
_INDEX = "an index that is a Python number which changes makes XLA compile again for each number: use `xla.narrow(x, dim, i)`, or index with a tensor of the device"
_LENGTHS = "a slice at the length of each sample makes XLA compile again for each set of lengths: mask with `torch.arange(n) < lengths[:, None]`, or slice after one `.cpu()`"
_WRITTEN = "a slice that is written to at a Python number that changes makes XLA compile again for each number: use `xla.put`"


@RULE.file
def moving_slice(script: Script) -> Iterator[Finding]:
    if not (script.is_trained or script.training.has_inference):
        return
    counters = script.cached(Counters)
    has_the_loop = script.trains or not script.is_trained  # no other module may have the loop
    if has_the_loop and not counters.any:
        return
    for node, _ in script.index.of(ast.Subscript):
        if isinstance(node.ctx, ast.Load) and _is_cut_on_device(script, node):
            if _is_at_the_last_step(script, node):
                continue  # once an epoch
            yield from _of_subscript(script, node, counters)
    may_call = not script.project.is_alone or script.source.mentions("arange")
    for call, scope in script.index.of(ast.Call) if may_call else ():
        dotted = script.dotted(call.func, scope)
        if dotted == "torch.arange":
            yield from _of_range(script, call, counters)
        elif dotted is not None:
            yield from _of_call(script, call, dotted, counters)


@RULE.file
def at_lengths(script: Script) -> Iterator[Finding]:
    """`for i, n in enumerate(lengths): mask[i, n:] = 0`."""
    for node in cut_at_lengths(script):
        yield RULE.finding(script, node, _LENGTHS)


def _is_cut_on_device(script: Script, node: ast.Subscript) -> bool:
    if call_of(script, node) is not None:
        return False  # `winners[i](x)`: functions
    if is_on_device(script, node.value, node.slice):
        return True
    if isinstance(node.value, ast.Attribute) and is_state(script, node.value):
        return True
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    return any(isinstance(p, ast.Slice) for p in parts) and is_moved(script, node.value)


def _is_at_the_last_step(script: Script, node: ast.AST) -> bool:
    """Under `if step == len(loader) - 1:`."""
    return any(
        isinstance(above, ast.If) and _LAST_STEP.search(ast.unparse(above.test)) is not None
        for above in script.ancestors(node)
    )


def _of_call(script: Script, call: ast.Call, dotted: str, counters: Counters) -> Iterator[Finding]:
    """`get_batch(source, i)`, where another module has `source[i : i + n]` in it."""
    function = script.project.function(dotted)
    if function is None:
        return
    given = [a for a in (*call.args, *(k.value for k in call.keywords)) if is_on_device(script, a)]
    if not given:
        return
    names = [arg.arg for arg in (*function.args.posonlyargs, *function.args.args)]
    handed = {name: argument_for(name, function, call, skip_self=False) for name in names}
    tensors = {name for name, value in handed.items() if value in given}
    moving = {name for name, v in handed.items() if v is not None and counters.changes(v)}
    for node in walk_body(function.body):
        if isinstance(node, ast.Subscript) and getattr(node.value, "id", "") in tensors:
            if any(isinstance(n, ast.Name) and n.id in moving for n in walk(node.slice)):
                message = (
                    f"`{function.name}` slices at a Python number that changes, which makes XLA compile again for each number: "
                    f"use `{script.xla}.narrow` in it"
                )
                yield RULE.finding(script, call, message)
                return


def _of_subscript(script: Script, node: ast.Subscript, counters: Counters) -> Iterator[Finding]:
    """`source[i : i + n]`, `x[:, i : i + n]`, `x[i]`."""
    found = moving_part(node.slice, counters.moves)
    if found is None:
        return
    dim, part, alone = found
    if is_written_to(script, node):  # `xla.narrow` gives a copy
        copied = _copied_to(script, node)
        put = put_text(script, node, dim, part, copied) if alone and copied is not None else None
        edits = [ReplaceStatement(script.statement(node), *put)] if put is not None else []
        yield RULE.finding(script, node, _WRITTEN, *edits)
        return
    if _cuts_at_the_end(script, part) or is_cut(script, node):
        return  # at the longest sample: XLA504's
    if has_changing_length(script, node):
        return  # XLA504's, too
    if alone and isinstance(part, ast.Slice):
        length = length_of(part)
        if length is not None and part.lower is not None:
            text = f"{script.xla}.narrow({{0}}, {dim}, {{1}}, {{2}})"
            edit = Replace(node, text, (node.value, part.lower, length))
            sure = counters.stays_inside(node.value, dim, part.lower, length)
            yield RULE.finding(script, node, _MESSAGE, edit, safety=SAFE if sure else UNSAFE)
            return
    if isinstance(part, ast.Slice):
        is_open = part.lower is None or part.upper is None
        other = _BOUNDS if has_moving_bounds(part, counters.moves) else _MESSAGE
        yield RULE.finding(script, node, _SIZE if is_open else other)
    elif alone and counters.is_an_integer(part):
        text = f"{script.xla}.narrow({{0}}, {dim}, {{1}})"
        yield RULE.finding(script, node, _INDEX, Replace(node, text, (node.value, part)))
    else:
        yield RULE.finding(script, node, _INDEX)


def _copied_to(script: Script, node: ast.Subscript) -> ast.expr | None:
    """Return `x` of the statement `kept[i].copy_(x)`, if it changes no other part of `kept`."""
    match script.statement(node):
        case ast.Expr(
            value=ast.Call(func=ast.Attribute(value=target, attr="copy_"), args=[value, *_])
        ) if target is node:
            return value
    return None


def _cuts_at_the_end(script: Script, part: ast.expr) -> bool:
    """`predictions[: total - seen]`, `predictions[: min(len(predictions), total - seen)]`: all of them, until the last."""
    if not isinstance(part, ast.Slice) or part.lower is not None or part.step is not None:
        return False
    upper = part.upper
    if isinstance(upper, ast.Name):
        upper = script.only_value(upper)
    match upper:
        case ast.BinOp(op=ast.Sub(), right=seen):
            return not isinstance(seen, ast.Constant)
        case ast.Call(func=ast.Name(id="min"), args=parts):
            return any(isinstance(p, ast.BinOp) and isinstance(p.op, ast.Sub) for p in parts)
    return False


def _of_range(script: Script, call: ast.Call, counters: Counters) -> Iterator[Finding]:
    """`torch.arange(i, i + n, device=...)`."""
    if len(call.args) != 2 or not _is_device_call(script, call):
        return
    start, end = call.args
    if not counters.changes(start):
        return
    length = is_sum(end, start)
    message = "a range whose start changes makes XLA compile again for each start: create a range from 0, and add the start"
    if length is None:
        yield RULE.finding(script, call, message)
        return
    rest = "".join(f", {k.arg}={{{n + 3}}}" for n, k in enumerate(call.keywords))
    holes = (call.func, length, start, *(k.value for k in call.keywords))
    text = f"{{0}}({{1}}{rest}) + {{2}}"
    yield RULE.finding(script, call, message, Replace(call, text, holes))


def _is_device_call(script: Script, call: ast.Call) -> bool:
    return all(k.arg in {"device", "dtype"} for k in call.keywords) and script.value(call).has(
        ACCEL
    )
