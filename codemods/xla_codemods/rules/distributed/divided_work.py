"""Work that a training step divides between processes gives each of them another graph.

## What it reports

Tests that compare the rank with something else than zero, around computations in a training step or
in an optimizer: `if i % world_size == rank:`.

## Why it matters on XLA

All replicas must run the same graphs if these contain collectives (fact 1.41). The code under the
test is recorded in one process only, into the graph that also contains the averages of gradients
and the next collective. The processes then wait for each other forever.

## What to do

Fix: none.

Call `xla.mark_step()` in all processes before and after the part that differs. The collectives are
then in graphs of their own, which are the same in all processes. Or do the work in all processes.

## Example

An optimizer in the style of Muon:

```python
import torch
import torch.distributed as dist
from xla_migrate import runtime as xla

class Muon(torch.optim.Optimizer):
    @torch.no_grad()
    def step(self):
        rank, world = dist.get_rank(), dist.get_world_size()
        for group in self.param_groups:
            updates = [torch.zeros_like(p) for p in group["params"]]
            for i, p in enumerate(group["params"]):
                if i % world == rank:  # XLA619
                    updates[i] = p.grad / (p.grad.norm() + 1e-7)
            for update, p in zip(updates, group["params"]):
                xla.all_reduce(update)
                p.add_(update, alpha=-group["lr"])
```

With the marks:

```python
import torch.distributed as dist
from xla_migrate import runtime as xla

def train(model, optimizer, loader):
    model = xla.DistributedDataParallel(model)
    rank, world = dist.get_rank(), dist.get_world_size()
    for x, y in xla.MpDeviceLoader(loader):
        model(x, y).backward()
        xla.mark_step()
        for i, p in enumerate(model.parameters()):
            if i % world == rank:
                p.grad.mul_(2)
        xla.mark_step()
        for p in model.parameters():
            xla.all_reduce(p.grad)
        xla.optimizer_step(optimizer)
        xla.mark_step()
```

Work on the host may differ, such as the indices of a sampler:

```python
import torch.distributed as dist

def indices(n):
    rank, world = dist.get_rank(), dist.get_world_size()
    return [i for i in range(n) if i % world == rank]
```

## See also

XLA606
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...analysis.frameworks.accelerator import uses_accelerate
from ...analysis.loops import MARK
from ...analysis.nodes import FUNCTIONS, walk
from ...analysis.scopes import Scope
from ...analysis.script import Script
from ...analysis.training.ranks.divergence import has_replicas
from ...analysis.training.ranks.guards import guard, mentions_rank, rank_names
from ...analysis.training.steps import is_of_an_optimizer
from ...analysis.training.tensors.device_tensors import is_device_tensor
from ...analysis.training.turns import in_each_step
from ...finding import MEDIUM, Finding
from ...flow.conditions import after, before
from ...rule import Rule

RULE = Rule("XLA619", "divided-work", effort=MEDIUM)

_MESSAGE = "only some processes compute this, and collectives in the same graph hang on XLA: call `xla.mark_step()` in all processes before and after this part"
_LEAVES = (ast.Continue, ast.Return)


@RULE.node(ast.If)
def divided(script: Script, node: ast.If, scope: Scope) -> Iterator[Finding]:
    if not _is_of_some_rank(script, node.test) or uses_accelerate(script):
        return
    if not has_replicas(script) and not script.index.calls_of("all_reduce"):
        return
    if node not in script.cached(in_each_step) and not is_of_an_optimizer(script, node):
        return
    rest = after(script, node) if isinstance(node.body[-1], _LEAVES) else []
    alone = [*node.body, *node.orelse, *rest]
    if any(_is_on_the_device(script, part) for s in alone for part in walk(s)):
        if not _is_marked(script, node):
            yield RULE.finding(script, node, _MESSAGE)


def _is_of_some_rank(script: Script, test: ast.expr) -> bool:
    """Return True for `i % world == rank`; a test of the first rank is XLA606's."""
    ranks = rank_names(script)
    if guard(test, ranks) is not None:
        return False
    for part in walk(test):
        match part:
            case ast.Compare(left=left, ops=[ast.Eq() | ast.NotEq()], comparators=[right]):
                sides = (left, right)
                is_constant = any(isinstance(side, (ast.Constant, ast.UnaryOp)) for side in sides)
                if not is_constant and any(mentions_rank(side, ranks) for side in sides):
                    return True
    return False


def _is_on_the_device(script: Script, node: ast.AST) -> bool:
    if isinstance(node, ast.Attribute) and node.attr == "grad":
        return True
    return isinstance(node, ast.expr) and is_device_tensor(script, node)


def _is_marked(script: Script, node: ast.If) -> bool:
    """Return True if a step mark precedes and follows `node`, or the loop or block that it is in."""
    statement: ast.AST | None = node
    while isinstance(statement, ast.stmt) and not isinstance(statement, FUNCTIONS):
        around = (before(script, statement), after(script, statement))
        if all(MARK in script.training.effects_of(part) for part in around):
            return True
        statement = script.parent(statement)
    return False
