"""A Python integer in a shape, an exponent or an offset is part of the graph.

## What it reports

Python numbers that change from step to step, as an exponent or its base, a size, a number of
repeats, an offset of `roll` and `tril`, or the `eps` of a normalization.

## Why it matters on XLA

XLA compiles again for each value (fact 3.31). Numbers that are only added, multiplied or compared
are data and may change.

## What to do

Fix: none.

Pass the number as a tensor, or keep the size fixed and mask. If a size is drawn at random, as for
training at several scales, draw it once per epoch or from two or three values.

## Example

```python
import torch
from xla_migrate import runtime as xla

def train(model, optimizer, steps):
    x = torch.ones(4, device=xla.xla_device())
    for step in range(steps):
        loss = (model(x) * x**step).mean()  # XLA510
        loss.backward()
        xla.optimizer_step(optimizer)
        xla.mark_step()
```

Numbers that are only values are not reported:

```python
import torch
from xla_migrate import runtime as xla

def train(model, optimizer, steps):
    x = torch.ones(4, device=xla.xla_device())
    for step in range(steps):
        loss = (model(x + step) * 0.9**step).mean()
        loss.backward()
        xla.optimizer_step(optimizer)
        xla.mark_step()
```

## See also

XLA504, XLA506
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...analysis.inference.library_types import FACTORIES
from ...analysis.inference.values import BATCH, HOST, TENSOR
from ...analysis.nodes import walk
from ...analysis.scopes import Scope
from ...analysis.script import Script
from ...analysis.training.shapes.counters import Counters
from ...analysis.training.shapes.counting import draws_a_tensor, is_drawing
from ...analysis.training.shapes.sizes import changing_sizes
from ...analysis.training.tensors.computed import computing
from ...analysis.training.tensors.device_tensors import may_be_read
from ...analysis.training.turns import in_each_step
from ...finding import INFO, MEDIUM, WARNING, Finding
from ...flow.closure import reach
from ...rule import Rule
from ...symptoms import LIKELY, POSSIBLE

RULE = Rule(
    "XLA510",
    "python-scalar",
    of_what_runs=True,
    severity=WARNING,
    effort=MEDIUM,
    about="speed",
    behind={"static shapes": LIKELY, "bounded graph": POSSIBLE},
)

# Which arguments behind the tensor are part of the graph: of functions of torch, and of methods of the same name.
_FIXED = frozenset(
    "expand flatten kthvalue pow repeat reshape roll split tile topk tril triu unfold view".split()
)
_NO_SIZES = frozenset({"dim", "dims", "input", "out", "sorted", "largest"})
_RESIZING = ("torch.nn.functional.interpolate", "torch.nn.functional.upsample")
_NEW_SIZE = frozenset({"size", "scale_factor"})
_SIZED = FACTORIES - {
    "as_tensor",
    "asarray",
    "scalar_tensor",
    "tensor",
    "normal",
    "complex",
    "linspace",
    "arange",
}


# Numbers that torch_xla compiles into the graph, by measurement: their position and their name. Others are data, such as
# `alpha` of `add`, `beta` of `smooth_l1_loss`, and the probability of a dropout.
_FUNCTIONAL = {
    "threshold": {1: "threshold", 2: "value"},
    "hardtanh": {1: "min_val", 2: "max_val"},
    "layer_norm": {4: "eps"},
    "group_norm": {4: "eps"},
    "batch_norm": {7: "eps"},
    "instance_norm": {7: "eps"},
    "pad": {3: "value"},
    "normalize": {1: "p"},
    "pairwise_distance": {2: "p"},
    "triplet_margin_loss": {4: "p"},
}
_LAST_NAMES = (
    frozenset(_FUNCTIONAL)
    | _FIXED
    | _SIZED
    | {"arange", *(name.rpartition(".")[2] for name in _RESIZING)}
)


@RULE.file
def python_scalar(script: Script) -> Iterator[Finding]:
    if not script.trains:
        return
    counters = script.cached(Counters)
    if not counters.any:
        return
    for node, _ in script.index.of(ast.BinOp):
        if not isinstance(node.op, ast.Pow):
            continue
        for name, number, other in (
            ("exponent", node.right, node.left),
            ("base", node.left, node.right),
        ):
            if counters.changes(number) and may_be_read(script, other):
                yield RULE.finding(
                    script,
                    node,
                    f"a Python {name} that changes makes XLA compile again: pass it as a tensor",
                )
    reported = {size.node for size in changing_sizes(script)}  # by XLA504
    for call, scope in script.index.of(ast.Call):
        if reported and not reported.isdisjoint(walk(call)):
            continue
        if isinstance(call.func, ast.Attribute) and _has_changing_size(
            script, call, scope, counters
        ):
            name = script.dotted(call.func, scope) or f".{call.func.attr}"
            yield RULE.finding(
                script,
                call,
                f"`{name}` with a Python number that changes makes XLA compile again for each value: keep it constant, or use one value for many steps",
            )


def _has_changing_size(script: Script, call: ast.Call, scope: Scope, counters: Counters) -> bool:
    assert isinstance(call.func, ast.Attribute)
    name = call.func.attr
    if name not in _LAST_NAMES and script.project.is_alone:
        return False
    dotted = script.dotted(call.func, scope)
    named = [k.value for k in call.keywords if k.arg not in _NO_SIZES]
    if dotted is None:
        is_read = name in _FIXED and may_be_read(script, call.func.value)
        given = [*call.args, *named] if is_read else []
    elif dotted == f"torch.{name}" and name in _FIXED:
        is_read = bool(call.args) and may_be_read(script, call.args[0])
        given = [*call.args[1:], *named] if is_read else []
    elif dotted == f"torch.{name}" and name in _SIZED:
        given = call.args[: 1 if name == "full" else None] if may_be_read(script, call) else []
    elif dotted == f"torch.nn.functional.{name}" and name in _FUNCTIONAL:
        places = _FUNCTIONAL[name]
        given = [a for place, a in enumerate(call.args) if place in places]
        given += [k.value for k in call.keywords if k.arg in places.values()]
        given = given if call.args and may_be_read(script, call.args[0]) else []
    elif dotted in _RESIZING:
        given = [*call.args[1:3], *(k.value for k in call.keywords if k.arg in _NEW_SIZE)]
        given = given if call.args and may_be_read(script, call.args[0]) else []
    elif dotted == "torch.arange" and len(call.args) == 1:
        given = call.args if may_be_read(script, call) else []
    else:
        given = []
    sizes = [e for a in given for e in (a.elts if isinstance(a, (ast.Tuple, ast.List)) else [a])]
    return any(counters.changes(size) for size in sizes)


@RULE.file
def by_chance(script: Script) -> Iterator[Finding]:
    """`if random.random() < ratio:` in a step, which then computes one thing or another."""
    if not (script.trains and script.runs_accelerated and script.source.mentions("random", "rand")):
        return
    for node in in_each_step(script):
        if isinstance(node, (ast.If, ast.IfExp)) and _is_drawn(script, node.test):
            if script.function(node) in computing(script) or _computes(script, node):
                message = "a branch that depends on a random Python number is one graph per branch, and XLA compiles each of them: compute both branches and choose with `torch.where`, or draw less often"
                yield RULE.finding(script, node, message, severity=INFO)


def _is_drawn(script: Script, test: ast.expr) -> bool:
    """Return True if a number that is drawn decides `test`, also through names: `force = random.random() < ratio`."""

    def step(node: ast.expr) -> list[ast.expr]:
        if isinstance(node, ast.Call) or (isinstance(node, ast.Attribute) and node.attr == "shape"):
            return []
        if isinstance(node, ast.Name):
            return [b.whole for b in script.reaching(node) if b.whole is not None]
        return [child for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr)]

    parts = (*walk(test), *reach([test], step))
    calls = (part for part in parts if isinstance(part, ast.Call))
    return any(is_drawing(script, call) or draws_a_tensor(script, call) for call in calls)


def _computes(script: Script, node: ast.If | ast.IfExp) -> bool:
    """True if one of the ways has to do with tensors, of the device or of an unknown place."""
    ways = [*node.body, *node.orelse] if isinstance(node, ast.If) else [node.body, node.orelse]
    parts = (part for way in ways for part in walk(way) if isinstance(part, ast.expr))
    return any(may_be_read(script, part) or _is_placed_nowhere(script, part) for part in parts)


def _is_placed_nowhere(script: Script, node: ast.expr) -> bool:
    """Return True for a tensor of an unknown place, as of `x.mul_(2)`: in a step, most are on the device."""
    kinds = script.value(node).kinds
    if not kinds and isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return node.func.attr.endswith("_") and not node.func.attr.endswith("__")
    return TENSOR in kinds and not kinds & {BATCH, HOST}
