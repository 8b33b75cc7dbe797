"""A result whose size depends on data is read from the device and compiled again for each size.

## What it reports

Operations in training steps whose result has a size that depends on data (`nonzero`, `unique`,
`x[mask]`), sizes that change between steps, and loaders whose batches differ in size.

## Why it matters on XLA

The host waits for the device to learn the size. Each new size is a new graph for all operations
that follow.

## What to do

Fix: safe, unsafe or none.

Keep one size. The replacement depends on the code that follows:

- `torch.where(mask, x, 0)` for `x[mask]`.
- `xla.masked_sum(x, mask)` for `x[mask].sum()`, and `xla.masked_mean(x, mask)` for its mean.
- `xla.masked_count(torch.eq, x, y, mask=mask)` for `(x[mask] == y[mask]).sum()`, and
  `xla.masked_share` for its mean.
- `xla.masked_loss(F.mse_loss, x, y, mask=mask)` for `F.mse_loss(x[mask], y[mask])`.
- `xla.assign(x, mask, 0)` for `x[mask] = 0`.
- A fixed length, or one of a few lengths, for batches that are padded to their longest sample.
- `F.one_hot(y, num_classes)` for `F.one_hot(y)`.
- `torch.repeat_interleave(..., output_size=n)` for a call without the size.

## Example

A number that is assigned where a tensor meets a condition:

```diff
 import torch
+from xla_migrate import runtime as xla

 def sample(model, steps):
-    tokens = torch.ones(8).cuda()
+    tokens = torch.ones(8).to(xla.xla_device())
     for _ in range(steps):
         logits = torch.softmax(tokens, -1)
-        logits[logits < 0.1] = 0
+        logits.masked_fill_(logits < 0.1, 0)
         tokens = tokens + logits
     return tokens
```

A mask that another tensor decides on:

```diff
 import torch
 from xla_migrate import runtime as xla

 def nearest(model, batches, optimizer, points):
     for x in xla.MpDeviceLoader(batches):
         best = torch.full((8,), 1e10, device=x.device)
         for point in points:
             distance = torch.sum((x - point) ** 2, -1)
             mask = distance < best
-            best[mask] = distance[mask]
+            xla.assign(best, mask, distance)
         model(best).mean().backward()
         xla.optimizer_step(optimizer)
```

The mean of what a mask selects:

```diff
 import torch
 from xla_migrate import runtime as xla

 def train(model, batches, optimizer):
     for x, y in xla.MpDeviceLoader(batches):
         losses = (model(x) - y) ** 2
-        losses[y > 0].mean().backward()
+        xla.masked_mean(losses, y > 0).backward()
         xla.optimizer_step(optimizer)
```

The loss of what a mask selects:

```diff
 import torch
 from torch.nn import functional as F
 from xla_migrate import runtime as xla

 def train(model, batches, optimizer):
     for x, y in xla.MpDeviceLoader(batches):
         mask, scores = y >= 0, model(x)
-        F.cross_entropy(scores[mask], y[mask]).backward()
+        xla.masked_loss(F.cross_entropy, scores, y, mask=mask).backward()
         xla.optimizer_step(optimizer)
```

A smaller last batch costs one extra compilation. `drop_last=True` avoids it, but skips up to one
batch per epoch, so the fix is unsafe:

```diff
 import torch
 from torch.utils.data import DataLoader
+from xla_migrate import runtime as xla

 def train(model, dataset, optimizer, device):
-    loader = DataLoader(dataset, batch_size=8, shuffle=True)
+    loader = DataLoader(dataset, batch_size=8, shuffle=True, drop_last=True)
-    for x in loader:
+    for x in xla.MpDeviceLoader(loader):
         x = x.to(device)
         optimizer.zero_grad()
         model(x).mean().backward()
-        optimizer.step()
+        xla.optimizer_step(optimizer)
```

Batches of graphs, whose numbers of nodes and edges differ:

```python
from torch_geometric.loader import NeighborLoader
from xla_migrate import runtime as xla

def train_on_graphs(model, data, optimizer):
    model.to(xla.xla_device())
    for batch in xla.MpDeviceLoader(NeighborLoader(data, num_neighbors=[25, 10])):  # XLA504
        model(batch.x, batch.edge_index).mean().backward()
        xla.optimizer_step(optimizer)
```

Batches that are padded to their longest sample:

```diff
 from transformers import AutoTokenizer, Trainer, TrainingArguments

 tokenizer = AutoTokenizer.from_pretrained("bert-base-uncased")

 def encode(rows):
-    return tokenizer(rows["text"], padding=True, truncation=True, max_length=128)
+    return tokenizer(rows["text"], padding="max_length", truncation=True, max_length=128)

 arguments = TrainingArguments("out", optim="adamw_torch")
```

A tensor that grows in each iteration:

```diff
 import torch
+from xla_migrate import runtime as xla

 @torch.no_grad()
 def generate(model, steps):
-    tokens = torch.zeros(1, 1).cuda()
+    tokens = torch.zeros(1, 1).to(xla.xla_device())
     for _ in range(steps):
         tokens = torch.cat([tokens, model(tokens)], dim=1)  # XLA504
+        xla.mark_step()
     return tokens
```

A cache of keys that grows with each token:

```python
import torch
from torch import nn
from xla_migrate import runtime as xla

class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.key = nn.Linear(8, 8)

    def forward(self, x, cache):
        k = self.key(x)
        if "k" in cache:
            k = torch.cat([cache["k"], k], dim=1)  # XLA504
        cache["k"] = k
        return (x @ k.transpose(1, 2)).softmax(-1) @ k

@torch.no_grad()
def generate(x, steps):
    model, cache = Attention().to(xla.xla_device()), {}
    for _ in range(steps):
        x = model(x, cache)
        xla.mark_step()
    return x
```

A size that is computed from a counter or a schedule:

```python
import torch
from xla_migrate import runtime as xla

def warm_up(model, optimizer, steps):
    model.to(xla.xla_device())
    for step in range(steps):
        length = min(8 + step, 64)
        x = torch.randint(0, 100, (4, length), device=xla.xla_device())  # XLA504
        model(x).mean().backward()
        xla.optimizer_step(optimizer)
        xla.mark_step()
```

A batch that is cut at its longest sample:

```python
from xla_migrate import runtime as xla

def train_on_words(model, batches, optimizer):
    model.to(xla.xla_device())
    for ids, mask in xla.MpDeviceLoader(batches):
        longest = int(mask.sum(1).max())  # XLA503
        model(ids[:, :longest]).mean().backward()  # XLA504
        xla.optimizer_step(optimizer)
```

Operations on the host, and operations that keep the size, are not reported:

```python
import torch
from xla_migrate import runtime as xla

def count(batches, device):
    for x in xla.MpDeviceLoader(batches):
        print(torch.unique(torch.arange(4)))
        x = torch.where(x > 0, x, 0.0)
        top = x.topk(3).values
```
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from itertools import takewhile

from ...analysis.frameworks.accelerator import uses_accelerate
from ...analysis.frameworks.arguments import has_a_trainer
from ...analysis.frameworks.hooks import called_in_steps
from ...analysis.inference.values import ACCEL, ARRAY, BATCH, HOST, NUMBER, TENSOR
from ...analysis.nodes import LOOPS
from ...analysis.scopes import Scope
from ...analysis.script import Script
from ...analysis.syntax import is_literal, keyword, name_of, names_given
from ...analysis.training.acting import is_of_an_operation
from ...analysis.training.shapes.batch_samplers import uneven_batches, uneven_tensors
from ...analysis.training.shapes.cutting import cuts
from ...analysis.training.shapes.growing_tensor import (
    growing_caches,
    growing_lists,
    growing_tensors,
)
from ...analysis.training.shapes.masked_selections import whole_loss, whole_reduction
from ...analysis.training.shapes.masks import (
    is_about,
    is_called_a_mask,
    is_constant_mask,
    is_mask,
    is_same_mask,
)
from ...analysis.training.shapes.padding import graph_loaders, paddings, uneven_loaders
from ...analysis.training.shapes.prepared import as_prepared
from ...analysis.training.shapes.sizes import Variation, changing_sizes
from ...analysis.training.tensors.computed import computing
from ...analysis.training.tensors.device_tensors import is_device_tensor, may_be_read
from ...analysis.training.tensors.given import is_given
from ...catalog.alternatives import alternative
from ...edits import AddArgument, Edit, Replace, ReplaceStatement
from ...finding import INFO, LOW, MEDIUM, UNSAFE, WARNING, Finding
from ...flow.calls import lambda_calls, outer_calls
from ...flow.closure import ends, reach
from ...flow.edges import sources
from ...patterns import Pattern
from ...rule import MethodCall, Rule
from ...symptoms import LIKELY, POSSIBLE

_CUT = "a batch that is cut at its longest sample has a different length each time, and XLA compiles once for each length: keep the full length, or cut at one of a few lengths"
_UNEVEN = "the sampler makes batches of different sizes, and XLA compiles once for each size: give each group of lengths one batch size, and pad its batches to one length"
_BY_CHANCE = "the number of elements differs from batch to batch, and XLA compiles again for each number: pad to one number, or to one of a few numbers"

_ONE_SIZE = "use one size and mask the rest, or round the size up to one of a few sizes"
_SAME_MASK = (
    "the mask selects the same elements in every step, but XLA reads the mask from the device each time: compute its "
    "indices once, on the host (`mask.nonzero(as_tuple=True)`), and use them in place of the mask"
)

RULE = Rule(
    "XLA504",
    "dynamic-shape",
    of_what_runs=True,
    severity=WARNING,
    effort=MEDIUM,
    about="speed",
    behind={
        "static shapes": LIKELY,
        "bounded graph": POSSIBLE,
        "host reads": POSSIBLE,
        "no fallback": POSSIBLE,
    },
)

_ELSEWHERE = ": move the call out of the step, or to the host"
_COUNTED = f": use {alternative('bincount')}, or move the call out of the step"
_WHOLE = ": keep the full tensor and neutralise masked elements with `torch.where(mask, x, 0)`"
_FUNCTIONS = {
    "torch.argwhere": _ELSEWHERE,
    "torch.bincount": _COUNTED,
    "torch.masked_select": "",  # below
    "torch.nonzero": ": use the mask itself, or `torch.where`",
    "torch.unique": _ELSEWHERE,
    "torch.unique_consecutive": _ELSEWHERE,
}
_METHODS = {
    "argwhere": _ELSEWHERE,
    "bincount": _COUNTED,
    "masked_select": "",  # below
    "nonzero": ": use the mask itself, or `torch.where`",
    "unique": _ELSEWHERE,
    "unique_consecutive": _ELSEWHERE,
}


@RULE.call(*_FUNCTIONS)
def function(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    if call.args and _matters(script, call, call.args[0]):
        dotted = script.dotted(call.func, scope) or ""
        message = f"the size of the result of `{dotted}` depends on data, and XLA compiles again for each size"
        if dotted != "torch.masked_select":
            yield RULE.finding(script, call, message + _FUNCTIONS[dotted])
        elif len(call.args) == 2:
            yield _of_a_mask(script, call, message, *call.args, broadcast=True)


@RULE.reference(*_FUNCTIONS)
def prepared(script: Script, node: ast.expr, scope: Scope) -> Iterator[Finding]:
    """`select = partial(torch.masked_select)`, which is called elsewhere."""
    made, dotted = script.parent(node), script.dotted(node, scope) or ""
    if isinstance(made, ast.Call) and made.args[:1] == [node]:
        names = set(names_given(made, script.parent))
        calls = [call for name in sorted(names) for call, _ in script.index.calls_of(name)]
        for call in calls:
            given = as_prepared(script, call)
            if given.func is node and given.args and _matters(script, call, given.args[0]):
                message = f"the size of the result of `{dotted}` depends on data, and XLA compiles again for each size"
                yield RULE.finding(script, call, message + (_FUNCTIONS[dotted] or _WHOLE))


@RULE.method(*_METHODS)
def method(script: Script, call: MethodCall, scope: Scope) -> Iterator[Finding]:
    owner, name = call.func.value, call.func.attr
    is_there = (
        may_be_read(script, owner)
        or is_mask(script, owner)
        or _selects_in_a_model(script, owner, name)
    )
    if is_there and _is_repeated(script, call):
        message = f"the size of the result of `.{name}()` depends on data, and XLA compiles again for each size"
        if name != "masked_select":
            yield RULE.finding(script, call, message + _METHODS[name])
        elif len(call.args) == 1:
            yield _of_a_mask(script, call, message, owner, call.args[0], broadcast=True)


def _of_a_mask(
    script: Script,
    selection: ast.expr,
    message: str,
    values: ast.expr,
    mask: ast.expr,
    *,
    broadcast: bool,
) -> Finding:
    """Return the finding of a selection by `mask`, with a fix if only its sum, mean or loss is used."""
    found = whole_reduction(script, selection, values, mask, broadcast)
    found = found or whole_loss(script, selection)
    if found is None:
        return RULE.finding(script, selection, f"{message}: {_instead(script, selection)}")
    function, edit = found
    return RULE.finding(script, selection, f"{message}: use `{function}`", edit)


def _selects_in_a_model(script: Script, node: ast.expr, method: str) -> bool:
    """Return True for `scores.masked_select(mask)`, a method of tensors alone, in the class of a model that trains."""
    trains = script.is_trained and script.runs_accelerated
    if not (method == "masked_select" and trains and script.is_in_a_module(node)):
        return False
    reached = reach([node], lambda each: sources(script, each))
    moves = {name_of(each.func) for each in reached if isinstance(each, ast.Call)}
    return moves.isdisjoint({"cpu", "to"}) and not script.value(node).kinds - {TENSOR}


@RULE.call("torch.where")
def where(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    """`torch.where(condition)`, which is `nonzero`."""
    if len(call.args) == 1 and not call.keywords and _matters(script, call, call.args[0]):
        message = "the size of the result of `torch.where` with only a condition depends on data, and XLA compiles again for each size: use the mask itself, or pass both values"
        yield RULE.finding(script, call, message)


@RULE.call("torch.nn.functional.one_hot")
def one_hot(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    if len(call.args) == 1 and keyword(call, "num_classes") is None:
        if _matters(script, call, call.args[0]):
            yield RULE.finding(
                script,
                call,
                "without `num_classes` XLA reads the data to find the size of `one_hot`: pass `num_classes`",
            )


@RULE.call("torch.repeat_interleave")
def repeat_interleave(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    yield from _repeats(script, call, call.args[1:2])


@RULE.method("repeat_interleave")
def repeat_interleave_method(script: Script, call: MethodCall, scope: Scope) -> Iterator[Finding]:
    yield from _repeats(script, call, call.args[:1])


def _repeats(script: Script, call: ast.Call, given: list[ast.expr]) -> Iterator[Finding]:
    """Yield the finding of a call whose numbers of repeats are a tensor on the device."""
    counts = keyword(call, "repeats") or next(iter(given), None)
    if counts is None or keyword(call, "output_size") is not None:
        return
    is_tensor = script.value(counts).has(TENSOR) or is_device_tensor(script, counts)
    if is_tensor and _matters(script, call, counts):
        message = "without `output_size` XLA reads the data to find the size of `repeat_interleave`: pass `output_size`"
        yield RULE.finding(script, call, message)


_JOINING = ("torch.cat", "torch.concat", "torch.concatenate", "torch.stack", "torch.vstack")
# What has other elements in each step.
_DRAWN = Pattern(r"batch|sampl|transition|replay|memory|episode|traject|next_", re.IGNORECASE)


@RULE.call(*_JOINING)
def joined(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    """`torch.cat([s for s in batch.next_state if s is not None])`."""
    match call.args:
        case [
            ast.ListComp(generators=[walked]) | ast.GeneratorExp(generators=[walked]),
            *_,
        ] if walked.ifs and _DRAWN.search(ast.unparse(walked.iter)):
            if _is_repeated(script, call):
                message = "the number of tensors that are joined depends on data, and XLA compiles again for each number: join all tensors, replace unused ones with zeros, and mask their results"
                yield RULE.finding(script, call, message)


@RULE.file
def masked(script: Script) -> Iterator[Finding]:
    """`x[mask]` and `x[:, mask]`, read or written."""
    nodes = [node for node, _ in script.index.of(ast.Subscript)]
    taken: set[ast.AST | None] = (
        set()
    )  # what edits take away: `dist[mask]` of `best[mask] = dist[mask]`
    for node in nodes:
        if isinstance(node.ctx, ast.Store):
            for finding in _written(script, node):
                statement = script.parent(node)
                if finding.edits and isinstance(statement, ast.Assign):
                    taken.add(statement.value)
                yield finding
    for node in nodes:
        if isinstance(node.ctx, ast.Load) and node not in taken:
            for finding in _selected(script, node):
                taken.update(_replaced(script, finding))
                yield finding


def _replaced(script: Script, finding: Finding) -> Iterator[ast.AST | None]:
    """Yield the selections that the edits of `finding` replace: `y[mask]` of `loss(x[mask], y[mask])`."""
    for edit in finding.edits:
        if isinstance(edit, Replace):
            yield from (script.parent(hole) for hole in edit.holes)


def _indices(node: ast.Subscript) -> list[ast.expr]:
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    return [part for part in parts if not isinstance(part, (ast.Constant, ast.Slice))]


def _selected(script: Script, node: ast.Subscript) -> Iterator[Finding]:
    indices = _indices(node)
    if any(is_constant_mask(script, index) for index in indices):
        if _is_of_the_device(script, node.value) and _is_repeated(script, node):
            yield RULE.finding(script, node, _SAME_MASK, effort=LOW)
    elif any(_is_selection(script, node.value, index) for index in indices):
        if _is_repeated(script, node):
            message = "the size of a selection by a mask depends on data, and XLA compiles again for each size"
            if indices == [node.slice]:
                yield _of_a_mask(script, node, message, node.value, node.slice, broadcast=False)
            else:
                yield RULE.finding(script, node, f"{message}: {_instead(script, node)}")
    elif names := {_chosen_by(script, index) for index in indices} - {""}:
        for name in names if may_be_read(script, node.value) and _is_repeated(script, node) else ():
            message = f"the number of indices that `{name}` finds depends on data, and XLA compiles again for each number"
            yield RULE.finding(script, node, f"{message}: {_instead(script, node)}")


# Functions that return the places where something is true.
_CHOOSING = frozenset(f"numpy.{name}" for name in ("argwhere", "flatnonzero", "nonzero", "where"))


def _chosen_by(script: Script, index: ast.expr) -> str:
    """Return the function of numpy that finds the indices `index` in each step, or ""."""
    for node in ends([index], lambda each: _parts_of_indices(script, each)):
        if isinstance(node, ast.Call) and len(node.args) == 1:
            dotted = script.dotted(node.func) or ""
            if dotted in _CHOOSING and _is_repeated(script, node):
                return dotted
    return ""


def _parts_of_indices(script: Script, node: ast.expr) -> Sequence[ast.expr]:
    return [node.value] if isinstance(node, ast.Subscript) else sources(script, node)


_SUMS = frozenset({"nansum", "sum"})
_MEANS = frozenset({"mean", "nanmean"})
_SPREADS = frozenset(
    {"amax", "amin", "argmax", "argmin", "max", "median", "min", "prod", "std", "var"}
)


def _instead(script: Script, selection: ast.expr) -> str:
    """What computes the same of the whole tensor: zeros that stand in for what is left out would count in a mean."""
    node: ast.expr = selection
    while True:
        around = script.parent(node)
        if isinstance(around, ast.Attribute) and isinstance(script.parent(around), ast.Call):
            name, call = around.attr, script.parent(around)
        elif isinstance(around, ast.Call) and node in around.args:
            name, call = name_of(around.func), around
        elif isinstance(around, (ast.BinOp, ast.UnaryOp)):
            node = around
            continue
        else:
            return "keep the full tensor, with a neutral value for masked elements"
        if name in _SUMS:
            return "use `torch.where(mask, x, 0)`"
        if name in _MEANS:
            return "divide the sum of `torch.where(mask, x, 0)` by `mask.sum()`"
        if name in _SPREADS:
            return f"compute `{name}` of the full tensor, with a neutral value for masked elements"
        if "loss" in name.lower() or "criterion" in name.lower() or "entropy" in name.lower():
            whole = "compute the losses with `reduction='none'`, and"
            if isinstance(call, ast.Call) and is_literal(keyword(call, "reduction"), "sum"):
                return f"{whole} sum `torch.where(mask, losses, 0)`"
            return f"{whole} divide the sum over the mask by `mask.sum()`"
        assert isinstance(call, ast.Call)
        node = call


def _is_selection(script: Script, selected: ast.expr, index: ast.expr) -> bool:
    """What has a mask on the device for an index is a tensor there, too, where nothing says otherwise."""
    if is_mask(script, index):
        return _is_of_the_device(script, selected)
    if not (script.runs_accelerated and is_called_a_mask(script, index)):
        return False
    value = script.value(selected)
    return value.has(TENSOR) and not value.kinds & {ARRAY, HOST, BATCH}


def _is_of_the_device(script: Script, node: ast.expr) -> bool:
    return may_be_read(script, node) or not script.value(node).kinds


def _written(script: Script, node: ast.Subscript) -> Iterator[Finding]:
    """`x[x < 0] = 0`, `x[mask] = y[mask]`."""
    message = "an assignment with a mask reads the mask from the device"
    around = script.parent(node)
    indices = _indices(node)
    is_whole = indices == [node.slice]
    statement = around if isinstance(around, ast.Assign) and around.targets == [node] else None
    statement = statement if is_whole else None
    if statement is not None:
        own = is_about(node.slice, node.value) and _is_whole_number(statement.value)
        if own and _is_computed(script, node.value):
            text = "{0}.masked_fill_({1}, {2})"
            edit = ReplaceStatement(statement, text, (node.value, node.slice, statement.value))
            yield RULE.finding(script, node, f"{message}: use `masked_fill_`", edit)
            return
    if not any(is_mask(script, index) for index in indices):
        return
    function = script.function(node)
    is_tensor = may_be_read(script, node.value) or (
        function is not None and is_of_an_operation(script, function)
    )
    if (is_tensor or is_given(script, node.value)) and _is_repeated(script, node):
        edits = _assigned(script, statement, node) if is_tensor and statement is not None else ()
        instead = "`xla.assign`, or `torch.where`" if is_whole else "`torch.where`"
        yield RULE.finding(script, node, f"{message}: use {instead}", *edits)


def _assigned(script: Script, statement: ast.Assign, place: ast.Subscript) -> Iterator[Edit]:
    """The call that writes a number, or the elements of another tensor under the same mask."""
    value = statement.value
    if isinstance(value, ast.Subscript) and is_same_mask(place, value):
        value = value.value
    elif script.value(value).kinds != {NUMBER}:
        return
    text = f"{script.xla}.assign({{0}}, {{1}}, {{2}})"
    yield ReplaceStatement(statement, text, (place.value, place.slice, value))


def _is_computed(script: Script, node: ast.expr) -> bool:
    """A tensor on the device, or one in what a module computes."""
    value = script.value(node)
    if not value.has(TENSOR) or value.kinds & {ARRAY, HOST, BATCH}:
        return False
    return value.has(ACCEL) or script.is_in_a_module(node)


def _is_whole_number(node: ast.expr) -> bool:
    """A number that tensors of integers can hold, or an infinity, which they cannot in either way."""
    match node:
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return _is_whole_number(operand)
        case ast.Constant(value=bool()):
            return False
        case ast.Constant(value=int() | float() as value):
            return float(value).is_integer()
        case ast.Call(func=ast.Name(id="float"), args=[ast.Constant(value=str(text))]):
            return text.lower().lstrip("+-") in {"inf", "infinity"}
        case ast.Attribute(attr="inf"):
            return True
    return False


def _matters(script: Script, node: ast.AST, operand: ast.expr) -> bool:
    """True if `operand`, a tensor by what is done with it, is on the device, in code that runs again and again."""
    if may_be_read(script, operand):
        return _is_repeated(script, node)
    if not script.is_trained or script.value(operand).has(HOST):
        return False
    return script.is_in_a_module(node) and _is_in_forward(script, node)


@RULE.file
def growing(script: Script) -> Iterator[Finding]:
    for call in (*growing_tensors(script), *growing_lists(script)):
        message = "a tensor that grows in each iteration makes XLA compile in each iteration: allocate the full length, and write into the tensor"
        yield RULE.finding(script, call, message)
    for call in growing_caches(script):
        message = "a cache that grows from call to call makes XLA compile in each iteration that samples: allocate the full length, and write the new part with `xla.put`"
        yield RULE.finding(script, call, message)


@RULE.file
def sized_by_a_counter(script: Script) -> Iterator[Finding]:
    """`torch.zeros(4, 8 + step)`, also by names, lists of stages and functions of this file."""
    for size in changing_sizes(script):
        if size.variation is Variation.FEW:
            message = "XLA compiles the step once for each size in the list"
            yield RULE.finding(script, size.node, f"{message}: keep the list short", severity=INFO)
        else:
            message = "the size changes between steps, and XLA compiles again for each size"
            yield RULE.finding(script, size.node, f"{message}: {_ONE_SIZE}")


def _is_repeated(script: Script, node: ast.AST) -> bool:
    """In a loop, in what a module computes, or in a function that is called there."""
    places = reach([node], lambda each: _outer_calls(script, each))
    return any(_runs_often(script, place) for place in places)


def _outer_calls(script: Script, node: ast.AST) -> list[ast.Call]:
    """Return the calls of the function and of the named lambdas that `node` stands in."""
    around = (a for a in script.ancestors(node) if isinstance(a, ast.Lambda))
    return [*outer_calls(script, node), *(c for each in around for c in lambda_calls(script, each))]


def _runs_often(script: Script, node: ast.AST) -> bool:
    function = script.function(node)
    inside = takewhile(lambda around: around is not function, script.ancestors(node))
    is_called = function is not None and script.callers.take_part_in_steps(function)
    return is_called or _is_in_forward(script, node) or any(isinstance(a, LOOPS) for a in inside)


def _is_in_forward(script: Script, node: ast.AST) -> bool:
    function = script.function(node)
    if function is None:
        return False
    is_hook = function.name in {"forward", "training_step"} or function in called_in_steps(script)
    return is_hook or function in computing(script)


@RULE.file
def last_batch(script: Script) -> Iterator[Finding]:
    if not (script.runs_accelerated or uses_accelerate(script)):
        return
    for call in uneven_loaders(script):
        message = (
            "the smaller last batch costs one extra compilation: use `drop_last=True` to avoid it"
        )
        edit = AddArgument(call, "drop_last=True")
        yield RULE.finding(script, call, message, edit, safety=UNSAFE, severity=INFO, effort=LOW)


@RULE.file
def padded(script: Script) -> Iterator[Finding]:
    trained = script.is_trained or script.runs_accelerated
    if not (trained or "TrainingArguments" in script.source.text or has_a_trainer(script)):
        return
    for place in paddings(script):
        edits = () if place.edit is None else (place.edit,)
        yield RULE.finding(script, place.node, place.message, *edits, safety=UNSAFE)
    for node in cuts(script) if trained else ():
        yield RULE.finding(script, node, _CUT)
    for node in uneven_batches(script) if trained else ():
        yield RULE.finding(script, node, _UNEVEN)
    for node in uneven_tensors(script) if trained else ():
        yield RULE.finding(script, node, _BY_CHANCE)


@RULE.file
def graphs(script: Script) -> Iterator[Finding]:
    if not (script.is_trained and (script.runs_accelerated or uses_accelerate(script))):
        return
    for call in graph_loaders(script):
        message = "batches of graphs differ in their numbers of nodes and edges, and XLA compiles again for each: pad the graphs to one size (`torch_geometric.transforms.Pad`), or pad the batches"
        yield RULE.finding(script, call, message)
