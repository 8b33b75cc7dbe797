"""Weights that a script updates without an optimizer are not averaged between replicas.

## What it reports

Updates such as `p.data.add_(p.grad, alpha=-lr)` in a training step.

## Why it matters on XLA

`xla.optimizer_step` averages gradients. A script without an optimizer does not call it, so the
weights of several replicas diverge. With one replica, or under SPMD, nothing needs to change.

## What to do

Fix: none.

Average the gradients first, or use `torch.optim.SGD`.

## Example

```python
import torch

def update(model, loss, lr):
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 0.25)
    for p in model.parameters():
        p.data.add_(p.grad, alpha=-lr)  # XLA614
```

Scripts that average the gradients themselves, or use `DistributedDataParallel`, are not reported:

```python
import torch
from xla_migrate import runtime as xla

def update(model, loss, lr):
    loss.backward()
    for p in model.parameters():
        xla.all_reduce(p.grad)
        p.data.sub_(lr * p.grad / xla.world_size())
```

Neither are inputs that a script optimizes in each step:

```python
import torch
from xla_migrate import runtime as xla

def train(model, loader, optimizer):
    for x in xla.MpDeviceLoader(loader):
        sample = torch.rand_like(x).requires_grad_()
        for _ in range(10):
            xla.mark_step()
            model(sample).sum().backward()
            sample.data.add_(sample.grad, alpha=-1.0)
            sample.grad.zero_()
        (model(x) - model(sample.detach())).mean().backward()
        xla.optimizer_step(optimizer)
        xla.mark_step()
```

## See also

XLA501
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...analysis.frameworks.accelerator import uses_accelerate
from ...analysis.nodes import LOOPS
from ...analysis.scopes import Scope
from ...analysis.script import Script
from ...finding import INFO, MEDIUM, WARNING, Finding
from ...rule import Rule

RULE = Rule(
    "XLA614",
    "update-by-hand",
    of_step="turn",
    severity=INFO,
    effort=MEDIUM,
    shows_accelerator=False,
)

_UPDATES = frozenset({"add_", "sub_", "copy_", "addcmul_", "addcdiv_"})
_AVERAGES = (
    "DistributedDataParallel",
    "DDP",
    "all_reduce",
    "reduce_gradients",
    "average_gradients",
)
_STARTS = ("init_process_group", "spawn", "launch")


@RULE.node(ast.Attribute, named=("grad",))
def by_hand(script: Script, node: ast.Attribute, scope: Scope) -> Iterator[Finding]:
    """`p.data.add_(p.grad, alpha=-lr)`, `p -= lr * p.grad`."""
    if not script.trains or uses_accelerate(script) or not _updates(script, node):
        return
    if _is_made_in_the_loop(script, node):
        return
    if _is_of_an_optimizer(script, node) or any(map(script.index.calls_of, _AVERAGES)):
        return
    several = any(map(script.index.calls_of, _STARTS))
    message = "with several XLA devices each process updates its weights with its own gradients"
    advice = "average them first (`all_reduce`, divided by `world_size()`), or use torch.optim.SGD"
    severity = WARNING if several else INFO
    yield RULE.finding(script, node, f"{message}: {advice}", severity=severity)


def _updates(script: Script, node: ast.Attribute) -> bool:
    """True if the parameter whose gradient `node` is, is changed by it in place."""
    owner = ast.unparse(node.value)
    for above in script.ancestors(node):
        match above:
            case ast.Call(func=ast.Attribute(value=changed, attr=name)) if name in _UPDATES:
                return ast.unparse(changed).removesuffix(".data") == owner
            case ast.AugAssign(target=changed):
                return ast.unparse(changed).removesuffix(".data") == owner
            case ast.stmt():
                return False
    return False


def _is_made_in_the_loop(script: Script, node: ast.Attribute) -> bool:
    """True if the tensor is made anew in each turn of a loop around: an input, as samples of an energy-based model."""
    if not isinstance(node.value, ast.Name):
        return False
    loops = [around for around in script.ancestors(node) if isinstance(around, LOOPS)]
    made = [binding.node for binding in script.reaching(node.value) if binding.how == "assign"]
    return bool(made) and any(set(loops).intersection(script.ancestors(each)) for each in made)


def _is_of_an_optimizer(script: Script, node: ast.AST) -> bool:
    """Within a class that takes steps, whose gradients `xla.optimizer_step` averages."""
    return any(
        isinstance(above, ast.ClassDef)
        and any(isinstance(part, ast.FunctionDef) and part.name == "step" for part in above.body)
        for above in script.ancestors(node)
    )
