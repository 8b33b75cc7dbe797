"""A process that uses several CUDA devices has only one XLA device.

## What it reports

A model whose parts are placed on several devices in one process.

## Why it matters on XLA

The other rules map each placement to the same XLA device. A model that was split to fit into
memory may not fit.

## What to do

Fix: none.

Put the model on one device, start one process per device, or shard the model with SPMD. On XLA, a
model is divided by sharding and not by placing its layers.

## Example

```diff
 import torch
+from xla_migrate import runtime as xla

 class Halves(torch.nn.Module):
     def __init__(self, first, second):
         super().__init__()
-        self.first = first.to("cuda:0")
+        self.first = first.to(xla.xla_device())
-        self.second = second.to("cuda:1")  # XLA114
+        self.second = second.to(xla.xla_device(1))  # XLA114
```

One device other than the first is still one device. It is not reported:

```diff
 import torch
+from xla_migrate import runtime as xla

-device = torch.device("cuda:1")
+device = xla.xla_device(1)
```

```python
import torch

def copy(x, y):
    return x.to("cpu"), y.to(torch.device("cpu"))
```

## See also

XLA104, XLA608
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from ...analysis.devices.literal_context import NAME, SINK
from ...analysis.devices.own_cuda import classes_with_their_own
from ...analysis.devices.owners import has_own_method
from ...analysis.devices.specs import device_argument
from ...analysis.inference.library_types import RUNTIME
from ...analysis.nodes import FUNCTIONS, walk
from ...analysis.scopes import Scope
from ...analysis.script import Script
from ...analysis.syntax import keyword, name_of
from ...analysis.training.ranks.guards import mentions_rank, rank_names
from ...finding import HIGH, Finding
from ...patterns import Pattern
from ...rule import Rule

RULE = Rule("XLA114", "several-devices", effort=HIGH)

_SETS = frozenset({"torch.cuda.set_device", f"{RUNTIME}.set_device"})


_SECOND = "the script uses a second device in one process, and an XLA process has one: put the model on one device, or use SPMD"


@RULE.file
def several_devices(script: Script) -> Iterator[Finding]:
    first: dict[int, ast.expr] = {}
    together: dict[ast.AST | None, dict[int, ast.expr]] = {}
    for node, index in _placements(script):
        if isinstance(index, int):
            first.setdefault(index, node)
            if not _is_in_a_branch(script, node):
                together.setdefault(script.function(node), {}).setdefault(index, node)
        elif _counts_devices(script, index):
            yield RULE.finding(
                script,
                node,
                "the script uses several devices in one process, and an XLA process has one: start one process per device, or use SPMD",
            )
            return
    chosen = []
    if not script.project.is_alone or script.source.mentions("set_device"):
        chosen = [c for c, s in script.index.of(ast.Call) if script.dotted(c.func, s) in _SETS]
    if chosen:
        # Each process has one device: devices in different places may be for different processes.
        by_number = any(isinstance(a, ast.Constant) for c in chosen for a in c.args)
        several = (found for found in together.values() if len(found) > 1 and not by_number)
        first = next(several, {})
    second = first[max(first)] if len(first) > 1 else _second_by_rank(script)
    if second is not None:
        yield RULE.finding(script, second, _SECOND)


def _is_in_a_branch(script: Script, node: ast.expr) -> bool:
    for around in script.ancestors(node):
        if isinstance(around, FUNCTIONS):
            return False
        if isinstance(around, (ast.If, ast.IfExp, ast.Match, ast.Dict, ast.Try)):
            return True
    return False


def _second_by_rank(script: Script) -> ast.expr | None:
    """`dev1 = rank * 2 + 1`: each process has two devices."""
    for node, _ in script.index.of(ast.BinOp):
        match node:
            case (
                ast.BinOp(
                    left=ast.BinOp(left=rank, op=ast.Mult(), right=ast.Constant(value=int(each))),
                    op=ast.Add(),
                    right=ast.Constant(value=int(index)),
                )
                | ast.BinOp(
                    left=ast.BinOp(left=ast.Constant(value=int(each)), op=ast.Mult(), right=rank),
                    op=ast.Add(),
                    right=ast.Constant(value=int(index)),
                )
            ) if 0 < index < each and mentions_rank(rank, rank_names(script)):
                if _DEVICE.search(ast.unparse(script.statement(node))):
                    return node
    return None


_DEVICE = Pattern(r"(?:^|[^a-z])(?:dev\d|devices?\b|device_|gpus?\b|gpu_?\d|cuda)", re.IGNORECASE)


def _placements(script: Script) -> Iterator[tuple[ast.expr, int | ast.expr]]:
    """What is put on a device, or names one, with its index."""
    for placed in script.device_literals.all:
        spec = placed.spec
        if placed.place == SINK or placed.of_devices:
            yield spec.node, 0 if spec.ordinal is None else spec.ordinal
        elif placed.place == NAME and spec.ordinal is not None:
            yield spec.node, spec.ordinal
    for call, scope in script.index.of(ast.Call):
        yield from _called(script, call, scope)


def _called(
    script: Script, call: ast.Call, scope: Scope
) -> Iterator[tuple[ast.expr, int | ast.expr]]:
    func = call.func
    last = name_of(func)
    if last not in {"device", "xla_device", "cuda", "to"}:
        return
    dotted = script.dotted(func, scope)
    if dotted is None and not isinstance(func, ast.Attribute):
        return  # a function of the file's own
    if dotted is None and isinstance(func, ast.Attribute):
        if _is_anothers(script, func.value) or _may_be_anothers(script, func.value, call, scope):
            return
    given = device_argument(call)
    if dotted == f"{RUNTIME}.xla_device" or (dotted is None and last == "cuda"):
        if given is None:
            yield call, 0
    elif dotted == "torch.device" and given is not None:
        spec = script.device_literals.spec(given)
        index = call.args[1] if len(call.args) > 1 else keyword(call, "index")
        if spec is None:
            return
        if index is None and (spec.ordinal is None or not isinstance(spec.node, ast.IfExp)):
            yield call, 0 if spec.ordinal is None else spec.ordinal
        given = index
    elif dotted is not None:
        return
    if isinstance(given, ast.Constant):
        if type(given.value) is int and given.value >= 0:
            yield call, given.value
    elif isinstance(given, ast.Name) and last != "to":
        yield call, given


def _is_anothers(script: Script, owner: ast.expr) -> bool:
    """True if `owner` is of a class that is no tensor and no module, or has its own `cuda`."""
    return has_own_method(script, owner, "cuda") or script.is_neither_tensor_nor_module(owner)


def _may_be_anothers(script: Script, owner: ast.expr, call: ast.Call, scope: Scope) -> bool:
    """True if `call` is one of `cuda`, and may run that of a class which is no module."""
    if name_of(call.func) != "cuda":
        return False
    return bool(classes_with_their_own(script, owner, call))


def _counts_devices(script: Script, index: ast.expr) -> bool:
    """True if `index` runs through `range(torch.cuda.device_count())`."""
    if not isinstance(index, ast.Name):
        return False
    bindings = script.bindings(index)
    if len(bindings) != 1 or bindings[0].how != "for":
        return False
    iterated = bindings[0].value
    return (
        isinstance(iterated, ast.Call)
        and isinstance(iterated.func, ast.Name)
        and iterated.func.id == "range"
        and any(
            isinstance(n, ast.Call)
            and (script.dotted(n.func) or "").rpartition(".")[2] == "device_count"
            for n in walk(iterated)
        )
    )
