"""A result whose size depends on data is fetched from the device, and compiled anew for each size.

`nonzero`, `unique`, `x[mask]` and their like wait for the device to learn the size, and every new size is a new graph
for all that follows (xla-facts 3.22, 3.23). What to do depends on what comes next: `torch.where(mask, x, 0)` instead of
`x[mask]`, sums weighted by the mask instead of means over a selection, `F.one_hot(y, num_classes)`,
`torch.repeat_interleave(..., output_size=n)`.

A number written where a tensor itself meets a condition needs no selection:

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

A training loader whose last batch is smaller gives one more graph (3.29); without it, one per epoch is not seen, so
that is done only when asked for:

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

So are batches that are padded to their longest:

```diff
 from transformers import AutoTokenizer, Trainer, TrainingArguments

 tokenizer = AutoTokenizer.from_pretrained("bert-base-uncased")

 def encode(rows):
-    return tokenizer(rows["text"], padding=True, truncation=True, max_length=128)
+    return tokenizer(rows["text"], padding="max_length", truncation=True, max_length=128)

 arguments = TrainingArguments("out", optim="adamw_torch")
```

What is longer in every turn is another graph in every turn; what to do, a person knows:

```diff
 import torch
+from xla_migrate import runtime as xla

 @torch.no_grad()
 def generate(model, steps):
-    tokens = torch.zeros(1, 1).cuda()
+    tokens = torch.zeros(1, 1).to(xla.xla_device())
     for _ in range(steps):
         tokens = torch.cat([tokens, model(tokens)], dim=1)
+        xla.mark_step()
     return tokens
```

The same on the host, and choices that keep their size, are no finding:

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
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...edits import AddArgument, ReplaceStatement
from ...findings import INFO, LOW, MEDIUM, UNSAFE, WARNING, Finding
from ...rule import Rule
from ...syntax import keyword
from ...values import ACCEL, ARRAY, BATCH, HOST, TENSOR
from .device_tensors import may_be_read
from .growing_tensor import growing_tensors
from .last_batch import uneven_loaders
from .masks import is_about, is_called_a_mask, is_mask
from .padding import paddings

if TYPE_CHECKING:
    from ...names import Scope
    from ...script import Script

RULE = Rule("XLA504", "dynamic-shape", severity=WARNING, effort=MEDIUM)

_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_FUNCTIONS = {
    "torch.argwhere": "",
    "torch.bincount": "",
    "torch.masked_select": ": use `torch.where(mask, x, 0)`",
    "torch.nonzero": ": use the mask itself, or `torch.where`",
    "torch.unique": "",
    "torch.unique_consecutive": "",
}
_METHODS = {
    "argwhere": "",
    "bincount": "",
    "masked_select": ": use `torch.where(mask, x, 0)`",
    "nonzero": ": use the mask itself, or `torch.where`",
    "unique": "",
    "unique_consecutive": "",
}


@RULE.call(*_FUNCTIONS)
def function(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    if call.args and _matters(script, call, call.args[0]):
        dotted = script.dotted(call.func, scope) or ""
        yield RULE.at(script, call, f"the size of `{dotted}` depends on data{_FUNCTIONS[dotted]}")


@RULE.method(*_METHODS)
def method(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    assert isinstance(call.func, ast.Attribute)
    if _is_repeated(script, call) and may_be_read(script, call.func.value):
        name = call.func.attr
        yield RULE.at(script, call, f"the size of `.{name}()` depends on data{_METHODS[name]}")


@RULE.call("torch.where")
def where(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    """`torch.where(condition)`, which is `nonzero`."""
    if len(call.args) == 1 and not call.keywords and _matters(script, call, call.args[0]):
        message = "the size of `torch.where` of a condition alone depends on data"
        yield RULE.at(script, call, message)


@RULE.call("torch.nn.functional.one_hot")
def one_hot(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    if len(call.args) == 1 and keyword(call, "num_classes") is None:
        if _matters(script, call, call.args[0]):
            yield RULE.at(
                script, call, "without `num_classes` the size of `one_hot` depends on data"
            )


@RULE.call("torch.repeat_interleave")
def repeat_interleave(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    counts = keyword(call, "repeats") or (call.args[1] if len(call.args) > 1 else None)
    if counts is None or keyword(call, "output_size") is not None:
        return
    if script.value(counts).has(TENSOR) and _matters(script, call, counts):
        yield RULE.at(
            script, call, "without `output_size` the size of `repeat_interleave` depends on data"
        )


@RULE.whole
def masked(script: Script) -> Iterator[Finding]:
    """`x[mask]`, read or written."""
    for node, _ in script.index.of(ast.Subscript):
        if isinstance(node.slice, (ast.Constant, ast.Slice, ast.Tuple)):
            continue
        if isinstance(node.ctx, ast.Store):
            yield from _written(script, node)
        elif isinstance(node.ctx, ast.Load) and _is_selection(script, node):
            if _is_repeated(script, node):
                message = "the size of a selection by a mask depends on data"
                yield RULE.at(script, node, f"{message}: use `torch.where(mask, x, 0)`")


def _is_selection(script: Script, node: ast.Subscript) -> bool:
    """What has a mask on the device for an index is a tensor there, too, where nothing says otherwise."""
    if is_mask(script, node.slice):
        return may_be_read(script, node.value) or not script.value(node.value).kinds
    if not (script.accelerated and is_called_a_mask(script, node.slice)):
        return False
    value = script.value(node.value)
    return value.has(TENSOR) and not value.kinds & {ARRAY, HOST, BATCH}


def _written(script: Script, node: ast.Subscript) -> Iterator[Finding]:
    """`x[x < 0] = 0`."""
    message = "writing by a mask fetches it from the device: use `torch.where` or `masked_fill_`"
    statement = script.parent(node)
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        own = is_about(script, node.slice, node.value) and _is_whole_number(statement.value)
        if own and _is_computed(script, node.value):
            text = "{0}.masked_fill_({1}, {2})"
            edit = ReplaceStatement(statement, text, (node.value, node.slice, statement.value))
            yield RULE.at(script, node, message, edit)
            return
    if (
        is_mask(script, node.slice)
        and may_be_read(script, node.value)
        and _is_repeated(script, node)
    ):
        yield RULE.at(script, node, message)


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
    """Whether `operand`, a tensor by what is done with it, is on the device, in code that runs again and again."""
    if may_be_read(script, operand):
        return _is_repeated(script, node)
    if not script.is_trained or script.value(operand).has(HOST):
        return False
    return script.is_in_a_module(node) and _is_in_forward(script, node)


@RULE.whole
def growing(script: Script) -> Iterator[Finding]:
    for call in growing_tensors(script):
        message = "longer in every turn, a new graph in every turn: allocate the whole length, and write into it"
        yield RULE.at(script, call, message)


def _is_repeated(script: Script, node: ast.AST, depth: int = 0) -> bool:
    """In a loop, in what a module computes, or in a function that is called there."""
    for ancestor in script.ancestors(node):
        if isinstance(ancestor, _LOOPS):
            return True
        if isinstance(ancestor, (ast.FunctionDef, ast.AsyncFunctionDef)):
            return (
                _is_in_forward(script, node)
                or script.is_called_in_steps(ancestor)
                or (
                    depth < 3
                    and any(
                        _is_repeated(script, call, depth + 1) for call in _calls(script, ancestor)
                    )
                )
            )
    return False


def _calls(script: Script, function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[ast.Call]:
    """The calls of this function, or of this method, in the file."""
    for call, scope in script.index.calls_of(function.name):
        method = script.training.local_method(call.func, scope)
        if method is function or script.value(call.func, scope).definition is function:
            yield call


def _is_in_forward(script: Script, node: ast.AST) -> bool:
    function = script.function(node)
    return function is not None and function.name in {"forward", "training_step"}


@RULE.whole
def last_batch(script: Script) -> Iterator[Finding]:
    if not (script.accelerated or script.uses_accelerate):
        return
    for call in uneven_loaders(script):
        message = "a smaller last batch is one more graph"
        edit = AddArgument(call, "drop_last=True")
        yield RULE.at(script, call, message, edit, safety=UNSAFE, severity=INFO, effort=LOW)


@RULE.whole
def padded(script: Script) -> Iterator[Finding]:
    trained = script.is_trained or script.accelerated
    if not (trained or "TrainingArguments" in script.source.text):
        return
    for place in paddings(script):
        edits = () if place.edit is None else (place.edit,)
        yield RULE.at(script, place.node, place.message, *edits, safety=UNSAFE)
