"""A collective that only some replicas call makes the job hang.

## What it reports

Collectives, step marks and host reads under a test of the rank, and code before which the step
needs a mark.

## Why it matters on XLA

All replicas must run the same graphs and call each collective. Under `if rank == 0:`, one replica
waits for the others forever. A save or a host read by one replica launches the pending graph,
including its collectives, only there (fact 1.41).

## What to do

Fix: safe.

Call collectives in all processes. Saving needs no test of the rank: each replica calls
`xla.save`, and one writes. A test around `xla.save` does no harm after a step mark, which the
migration adds.

## Example

```diff
 import torch
 import torch.distributed as dist
-from torch.nn.parallel import DistributedDataParallel
+from xla_migrate import runtime as xla

 def train(model, optimizer, loader, device):
-    dist.init_process_group("nccl")
+    xla.init_process_group()
-    model = DistributedDataParallel(model)
+    model = xla.DistributedDataParallel(model)
-    for x, y in loader:
+    for x, y in xla.MpDeviceLoader(loader):
         loss = model(x.to(device), y.to(device))
         loss.backward()
-        optimizer.step()
+        xla.optimizer_step(optimizer)
+        xla.mark_step()
         if dist.get_rank() == 0:
-            torch.save(model.state_dict(), "last.pt")
+            xla.save(model.state_dict(), "last.pt")
```

If one process reads averaged gradients, a step mark is added before the read:

```diff
 from torch import nn
-from torch.nn.parallel import DistributedDataParallel
+from xla_migrate import runtime as xla

 def step(module, optimizer, x, rank):
-    model = DistributedDataParallel(module)
+    model = xla.DistributedDataParallel(module)
     model(x).mean().backward()
     norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
+    xla.mark_step()
     if rank == 0:
         print(norm.item())
-    optimizer.step()
+    xla.optimizer_step(optimizer)
+    xla.mark_step()
```

A collective before an early return runs in all processes. It is not reported:

```python
from xla_migrate import runtime as xla

def log(value, rank):
    xla.all_reduce(value)
    if rank != 0:
        return
    print(value)
```

A barrier that all processes reach, although in different branches, is not reported:

```python
from xla_migrate import runtime as xla

def prepare(rank, download):
    if rank != 0:
        xla.barrier()
    download()
    if rank == 0:
        xla.barrier()
```

## See also

XLA502, XLA701
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from ...analysis.frameworks.accelerator import uses_accelerate
from ...analysis.inference import library_types
from ...analysis.loops import BACKWARD, FORWARD, MARK, STEP
from ...analysis.nodes import NAMED, walk
from ...analysis.scopes import Scope
from ...analysis.script import Script
from ...analysis.syntax import is_literal, keyword
from ...analysis.training.ranks.divergence import (
    has_replicas,
    may_be_alone,
    reads_averages,
)
from ...analysis.training.ranks.guards import (
    COLLECTIVES,
    Guard,
    group_of,
    guard,
    is_of_host,
    rank_names,
)
from ...edits import InsertBefore
from ...finding import MEDIUM, Finding
from ...flow.closure import reach
from ...flow.conditions import after, before
from ...patterns import Pattern
from ...rule import Rule

RULE = Rule("XLA606", "rank-guard", effort=MEDIUM)

_HOMES = ("torch.distributed.", f"{library_types.RUNTIME}.", "torch_xla.core.xla_model.")
_AVERAGE_IS_READ = "one process reads a value that is averaged over all processes, which hangs on XLA: mark the step before the read"
_JOINED = {*COLLECTIVES, "rendezvous", "reduce_gradients", "optimizer_step", "mesh_reduce"}


@RULE.node(ast.If)
def under_a_guard(script: Script, node: ast.If, scope: Scope) -> Iterator[Finding]:
    found = guard(node.test, rank_names(script))
    if found is None:
        return
    yield from _averages_read(script, node)
    yield from _cut_alone(script, node)
    yield from _in_a_callback(script, node)
    rest = node.orelse
    if not rest and isinstance(node.body[-1], _LEAVES):
        rest = after(script, node)
    yield from _never_met(script, node, found, node.body, rest)
    if rest is not node.orelse and not _is_of_a_mode(script, node.test):
        yield from _never_met(script, node, Guard(not found.first), rest, node.body)


def _is_of_a_mode(script: Script, test: ast.expr) -> bool:
    """`args.export and rank == 0`: behind its return is what other modes do, in which none returns there."""
    return (
        isinstance(test, ast.BoolOp)
        and isinstance(test.op, ast.And)
        and any(guard(value, rank_names(script)) is None for value in test.values)
    )


@RULE.file
def before_the_step(script: Script) -> Iterator[Finding]:
    """What one replica does with averaged gradients between backward and step, in whatever form it is kept from the others."""
    if not script.trains or uses_accelerate(script) or not has_replicas(script):
        return
    for statement in script.cached(_cut_before):
        edit = InsertBefore(statement, f"{script.xla}.mark_step()")
        yield RULE.finding(script, statement, _AVERAGE_IS_READ, edit)


def _cut_before(script: Script) -> list[ast.stmt]:
    """The first statement before each step that some replicas do alone, and that reads averages."""
    found: list[ast.stmt] = []
    for step in script.training.steps:
        for statement in _between_backward_and(script, script.statement(step.call)):
            if reads_averages(script, statement) and may_be_alone(script, statement):
                if statement not in found:
                    found.append(statement)
                break
    return found


def _between_backward_and(script: Script, statement: ast.stmt) -> list[ast.stmt]:
    """What runs between the last backward pass and `statement`, in its block and those around it; nothing behind a mark."""
    found: list[ast.stmt] = []
    node: ast.AST | None = statement
    while isinstance(node, ast.stmt) and not isinstance(node, NAMED):
        for statement in reversed(before(script, node)):
            effects = script.training.effects_of([statement])
            if MARK in effects:
                return []
            if BACKWARD in effects:
                return found
            found.insert(0, statement)
        node = script.parents.get(node)
        while isinstance(node, (ast.ExceptHandler, ast.match_case)):
            node = script.parents.get(node)
    return []


_LEAVES = (ast.Return, ast.Continue, ast.Break, ast.Raise)


def _never_met(
    script: Script, node: ast.If, found: Guard, body: list[ast.stmt], otherwise: list[ast.stmt]
) -> Iterator[Finding]:
    """Collectives in `body`, which only some replicas run, and which those that run `otherwise` do not call."""
    others = {name for _, name in _collectives(script, _with_called(script, otherwise))}
    for call, name in _collectives(script, body):
        if _may_be_of_these(script, node, call, name):
            continue
        if name not in others and not _met_elsewhere(script, node, found, name):
            message = f"`{name}` under a test of the rank hangs, because the other processes do not call it: call it in all processes"
            yield RULE.finding(script, call, message)


def _may_be_of_these(script: Script, node: ast.If, call: ast.Call, name: str) -> bool:
    """`if local_rank == 0: dist.all_reduce(x, group=leaders)`: a group of those that pass; one alone needs none."""
    ranks = rank_names(script)
    found = guard(node.test, ranks)
    alone = found is not None and found.first and not is_of_host(node.test, ranks)
    of_some = not alone or _is_among_several(node.test)
    return of_some and group_of(call, name) is not None


def _is_among_several(test: ast.expr) -> bool:
    """`rank in (0, 1)`; `is_leader`, which may be one of each host."""
    return any(
        (
            isinstance(part, ast.Compare)
            and any(isinstance(op, (ast.In, ast.NotIn)) for op in part.ops)
        )
        or (isinstance(part, (ast.Name, ast.Attribute)) and _LEADER.search(ast.unparse(part)))
        for part in walk(test)
    )


_LEADER = Pattern(r"leader|chief|coordinator|primary|root|node|head|host", re.IGNORECASE)


def _averages_read(script: Script, node: ast.If) -> Iterator[Finding]:
    """`if rank == 0: print(loss.item())` before the step, of a forward pass that averages: batch norms over all replicas."""
    if uses_accelerate(script) or not _synchronised(script) or node in script.cached(_cut_before):
        return
    if not _READS.search(ast.unparse(node)):
        return
    if has_replicas(script) and _is_within_a_step(script, node, {FORWARD}, {STEP}):
        edit = InsertBefore(node, f"{script.xla}.mark_step()")
        yield RULE.finding(script, node, _AVERAGE_IS_READ, edit)


def _is_within_a_step(script: Script, node: ast.If, starts: set[str], ends: set[str]) -> bool:
    """Return True if a statement before `node` starts a step that is not marked yet, and one after it is a part of it."""
    effects = [script.training.effects_of([statement]) for statement in before(script, node)]
    since = max((i for i, found in enumerate(effects) if found & starts), default=None)
    if since is None or any(MARK in found for found in effects[since:]):
        return False
    return any(script.training.effects_of([s]) & ends for s in after(script, node))


def _cut_alone(script: Script, node: ast.If) -> Iterator[Finding]:
    """`if rank == 0: event.record()` within a step: this replica's step is two graphs, and that of the others one."""
    if uses_accelerate(script) or not any(
        _cuts(script, part) for s in node.body for part in walk(s)
    ):
        return
    if has_replicas(script) and _is_within_a_step(
        script, node, {FORWARD, BACKWARD}, {BACKWARD, STEP}
    ):
        message = "the step mark in only one process changes its graph launches, and all processes hang: mark the step before it in all processes"
        edit = InsertBefore(node, f"{script.xla}.mark_step()")
        yield RULE.finding(script, node, message, edit)


def _in_a_callback(script: Script, node: ast.If) -> Iterator[Finding]:
    """`if state.is_world_process_zero: torch.save(...)` in a Trainer's callback: its step is marked at the next batch."""
    function = script.function(node)
    owner = script.parent(function) if function is not None else None
    if function is None or function.name not in _DURING_A_STEP:
        return
    if not isinstance(owner, ast.ClassDef) or not any(
        script.dotted(base) in _CALLBACKS for base in owner.bases
    ):
        return
    earlier = before(script, node)
    marked = MARK in script.training.effects_of(earlier)
    marked = marked or any(_waits(script, part) for s in earlier for part in walk(s))
    alone = [node, *(after(script, node) if isinstance(node.body[-1], _LEAVES) else ())]
    text = "\n".join(map(ast.unparse, alone))
    acts = _READS.search(text) or "save" in text
    if acts and not marked:
        message = "a read or a save in one process launches the step's collectives only there, and all processes wait: mark the step before it in all processes"
        edit = InsertBefore(node, f"{script.xla}.mark_step()")
        yield RULE.finding(script, node, message, edit)


_CALLBACKS = ("transformers.TrainerCallback", "transformers.trainer_callback.TrainerCallback")
_DURING_A_STEP = frozenset({"on_step_end", "on_optimizer_step", "on_pre_optimizer_step"})
_WAITS = ("torch.cuda.synchronize", f"{library_types.RUNTIME}.synchronize")
_EVENT = Pattern(r"event|start|end|begin|stop|tic|toc|timer", re.IGNORECASE)


def _cuts(script: Script, node: ast.AST) -> bool:
    """`start.record()` of an event, and waiting for the device."""
    match node:
        case ast.Call(func=ast.Attribute(value=owner, attr="record")):
            return script.source.mentions("event") and bool(_EVENT.search(ast.unparse(owner)))
    return _waits(script, node)


def _waits(script: Script, node: ast.AST) -> bool:
    """Return True for `torch.cuda.synchronize()`, which marks the step on XLA."""
    return isinstance(node, ast.Call) and script.dotted(node.func) in _WAITS


def _synchronised(script: Script) -> bool:
    """True if the forward pass averages, too."""
    calls = ("convert_sync_batchnorm", "SyncBatchNorm", "convert_syncbn_model")
    return any(script.index.calls_of(name) for name in calls)


_READS = Pattern(r"\.item\(|\.tolist\(|\.cpu\(|print\(|float\(|log", re.IGNORECASE)


def _with_called(script: Script, body: list[ast.stmt]) -> list[ast.stmt]:
    """Return `body`, and the bodies of the functions of this file that it calls."""

    def called(statement: ast.stmt) -> Iterator[ast.stmt]:
        for call in (node for node in walk(statement) if isinstance(node, ast.Call)):
            definition = script.function_of(call.func)
            yield from definition.body if definition is not None else ()

    return list(reach(body, called))


def _collectives(script: Script, body: list[ast.stmt]) -> Iterator[tuple[ast.Call, str]]:
    for statement in body:
        for node in walk(statement):
            if isinstance(node, ast.Call):
                dotted = script.dotted(node.func) or ""
                home, _, name = dotted.rpartition(".")
                if name in _JOINED and f"{home}." in _HOMES and not _averages_nothing(node):
                    yield node, name


def _averages_nothing(call: ast.Call) -> bool:
    """`xla.optimizer_step(optimizer, average=False)`: a step of one replica's own."""
    given = keyword(call, "average")
    return is_literal(given, False)


def _met_elsewhere(script: Script, node: ast.If, found: Guard, name: str) -> bool:
    """True if the replicas that this guard keeps out call the same collective under the opposite one."""
    owner = script.function(node) or script.tree
    for other in walk(owner):
        if isinstance(other, ast.If) and other is not node:
            opposite = guard(other.test, rank_names(script))
            if opposite is not None and opposite.first != found.first:
                if any(other_name == name for _, other_name in _collectives(script, other.body)):
                    return True
    return False
