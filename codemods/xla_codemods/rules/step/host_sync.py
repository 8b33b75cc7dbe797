"""A value fetched from the device in every training step makes the host wait for it.

XLA runs the steps behind the script's back; `.item()`, `print(loss)`, `if loss > x` and their like wait until the
device has come that far. What only people look at, and what is summed up, is read later: with the
values of other steps, in one transfer, when the device is done with them. `xla.item(loss)` is a number on its way, of
which sums, means and meters are made as of any number, in double precision; `xla.later` makes a call when what it shows
has come, in order with all other output. On CUDA both do at once what the script did.

```diff
 import torch
 from torch.utils.data import DataLoader
+from xla_migrate import runtime as xla

 def train(model, dataset, optimizer, device):
     running = 0.0
-    for step, (x, y) in enumerate(DataLoader(dataset)):
+    for step, (x, y) in enumerate(xla.MpDeviceLoader(DataLoader(dataset))):
         x, y = x.to(device), y.to(device)
         loss = torch.nn.functional.cross_entropy(model(x), y)
         optimizer.zero_grad()
         loss.backward()
-        optimizer.step()
-        running += loss.item()
-        print(f"{step} {loss.item():.4f}")
+        xla.optimizer_step(optimizer)
+        xla.mark_step()
+        running += xla.item(loss)
+        xla.later(lambda step=step, loss=loss: print(f"{step} {loss.item():.4f}"))
         if step % 100 == 99:
             print(step, running / 100)
             running = 0.0
-    return running
+    return xla.arrived(running)
```

That is done where everything is known that becomes of the value: arithmetic, `min`, `max` and `math` (`xla.computed`), names,
lists and dicts of this function, meters and functions of this project (`losses.update(loss.item(), n)`); `print`,
`logging`, tqdm, files that are opened in the same function, `accelerator.print`, and TensorBoard, wandb and mlflow in loops
that a device loader ends. `xla.arrived` gives Python's own number to whatever may ask what it is. Evaluations read once:

```diff
 import torch
 from torch.utils.data import DataLoader
+from xla_migrate import runtime as xla

 def train(model, dataset, optimizer, device):
-    for x, y in DataLoader(dataset):
+    for x, y in xla.MpDeviceLoader(DataLoader(dataset)):
         torch.nn.functional.cross_entropy(model(x.to(device)), y.to(device)).backward()
-        optimizer.step()
+        xla.optimizer_step(optimizer)

 @torch.no_grad()
 def evaluate(model, dataset, device):
     correct, predictions = 0, []
-    for x, y in DataLoader(dataset):
+    for x, y in xla.MpDeviceLoader(DataLoader(dataset)):
         x, y = x.to(device), y.to(device)
         pred = model(x).argmax(1)
-        correct += (pred == y).sum().item()
+        correct += xla.item((pred == y).sum())
-        predictions.extend(pred.cpu().numpy())
+        xla.later(lambda pred=pred: predictions.extend(pred.cpu().numpy()))
-    return correct / len(dataset), predictions
+    return xla.arrived(correct) / len(dataset), predictions
```

Conditions of what is only shown are asked later, too, and extremes are kept by `xla.computed`:

```diff
 import torch
 from torch.utils.data import DataLoader
+from xla_migrate import runtime as xla

 def train(model, dataset, optimizer, device):
     lowest = 100.0
-    for step, x in enumerate(DataLoader(dataset)):
+    for step, x in enumerate(xla.MpDeviceLoader(DataLoader(dataset))):
         loss = model(x.to(device)).mean()
         optimizer.zero_grad()
         loss.backward()
-        optimizer.step()
+        xla.optimizer_step(optimizer)
+        xla.mark_step()
-        if loss.item() > 10:
-            print("spike", step)
+        xla.later(lambda loss=loss, step=step: print("spike", step) if loss.item() > 10 else None)
-        if loss.item() < lowest:
-            lowest = loss.item()
+        lowest = xla.computed(min, lowest, xla.item(loss))
     print(lowest)
```

What decides in every step has to be read in every step, but for gradients that are clipped by hand, where the device can
multiply by one (also for `if norm > limit: coefficient = limit / norm ...`):

```diff
 import torch
 from torch.utils.data import DataLoader
+from xla_migrate import runtime as xla

 def train(model, dataset, optimizer, device):
-    for x, y in DataLoader(dataset):
+    for x, y in xla.MpDeviceLoader(DataLoader(dataset)):
         torch.nn.functional.cross_entropy(model(x.to(device)), y.to(device)).backward()
         norm = torch.stack([p.grad.norm() for p in model.parameters()]).norm()
         coefficient = 1.0 / (norm + 1e-6)
-        if coefficient < 1:
-            for p in model.parameters():
-                p.grad.mul_(coefficient)
+        coefficient = torch.where(coefficient < 1, coefficient, torch.ones_like(coefficient))
+        for p in model.parameters():
+            p.grad.mul_(coefficient)
-        optimizer.step()
+        xla.optimizer_step(optimizer)
```

Let other decisions be made now and then; or on the device, where a step that is not finite is skipped by
`torch.where(finite, new, old)`, and a maximum is kept by `torch.maximum`:

```python
import math, sys
import torch
from xla_migrate import runtime as xla

def train(model, batches, optimizer):
    for step, x in enumerate(xla.MpDeviceLoader(batches)):
        loss = model(x).sum()
        loss.backward()
        xla.optimizer_step(optimizer)
        xla.mark_step()
        if step % 100 == 0 and not math.isfinite(loss.item()):
            sys.exit(f"loss is {loss.item()} at step {step}")
```

What is read now and then is no finding, nor what is no tensor of the device:

```python
import torch
from xla_migrate import runtime as xla

def train(model, batches, optimizer, schedule):
    for step, x in enumerate(xla.MpDeviceLoader(batches)):
        loss = model(x).sum()
        loss.backward()
        xla.optimizer_step(optimizer)
        xla.mark_step()
        schedule.step()
        print(step, len(x), schedule.get_last_lr()[0])
        if step % 100 == 0:
            print(loss.item())
```
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from ...analysis.devices.specs import device_argument
from ...analysis.frameworks.accelerator import uses_accelerate
from ...analysis.inference.values import ACCEL, DEVICE, HOST, SCHEDULER, TENSOR, UNKNOWN
from ...analysis.nodes import walk
from ...analysis.syntax import keyword
from ...analysis.training.host_reads.plan import Outcome, plan
from ...analysis.training.tensors.device_tensors import is_device_tensor, may_be_read
from ...analysis.training.turns import evaluating, in_each_step, in_each_turn
from ...finding import MEDIUM, WARNING, Finding
from ...rule import IN_TRAINING, Rule
from ...symptoms import LIKELY, POSSIBLE

if TYPE_CHECKING:
    from ...analysis.script import Script

RULE = Rule(
    "XLA503",
    "host-sync",
    of_step="turn",
    severity=WARNING,
    effort=MEDIUM,
    about="speed",
    in_training=True,
    behind={"host reads": LIKELY, "printed metrics": LIKELY, "launches": POSSIBLE},
)

# Methods that tensors alone have, and that fetch.
_METHODS = frozenset({"item", "tolist", "cpu"})
# Builtins that look at the value of a tensor.
_BUILTINS = frozenset("bool float format int print range repr round str".split())
_EXTREMES = frozenset({"max", "min"})  # of several values: each is compared
_LOGGING = frozenset(
    "add_histogram add_image add_images add_scalar add_scalars critical debug error info log log_dict log_metric log_metrics log_scalar set_postfix warning".split()
)
_FETCHING = frozenset(
    {"torch.equal", "torch.allclose", "torch.multinomial", "torch.histc"}
    | {
        f"math.{name}"
        for name in ("ceil", "exp", "floor", "isfinite", "isinf", "isnan", "log", "sqrt")
    }
)


# What makes a number of a number, and what takes one for a size.
_NUMBERS = frozenset("ceil floor int max min round".split())
_SIZED = frozenset(
    "arange empty expand full new_zeros ones pad range repeat reshape split tile view zeros".split()
)


@RULE.file(mentions=IN_TRAINING)
def host_sync(script: Script) -> Iterator[Finding]:
    if not (script.is_trained and (script.runs_accelerated or uses_accelerate(script))):
        return
    steps = in_each_step(script)
    always = {**dict(in_each_turn(script, evaluating(script))), **steps}
    reads = [(node, said) for node in always for said in _reads(script, node)]
    planned = plan(script, dict(reads), always) if reads else {}
    for node, said in reads:
        edits, obstacle = planned.get(node, Outcome())
        if node not in steps and not edits:
            continue  # an evaluation is not what training waits for
        reason = f" (not read later here, since {obstacle})" if obstacle else ""
        message = (
            f"{said} in every step, and the host waits{reason}: {_advice(script, node, obstacle)}"
        )
        yield RULE.finding(script, node, message, *edits)


def _advice(script: Script, node: ast.AST, obstacle: str) -> str:
    if obstacle.endswith("whether it goes on"):
        return "ask every n-th step (`if step % 100 == 0 and ...`)"
    if obstacle and _is_for_numpy(script, node):
        return "compute it with torch on the device, in place of numpy"
    if _is_a_size(script, node):
        return "pad to one size, or keep the number on the host beside the tensor"
    statement = script.statement(node)
    head = statement.test if isinstance(statement, (ast.If, ast.While, ast.Assert)) else node
    asked = {n.attr if isinstance(n, ast.Attribute) else getattr(n, "id", "") for n in walk(head)}
    if asked & {"isnan", "isfinite", "isinf"}:
        return (
            "ask every n-th step, or on the device: `torch.where(torch.isfinite(loss), new, old)`"
        )
    if _is_asked_of(script, node):
        return "ask every n-th step, or decide on the device: `torch.where(condition, new, old)`"
    return "read every n-th step, or after the loop"


def _is_for_numpy(script: Script, node: ast.AST) -> bool:
    """`gradient = x.grad.cpu().numpy()`: what numpy computes with."""
    statement = script.statement(node)
    parent = script.parent(node)
    is_numpys = isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "numpy"
    is_numpys = is_numpys or (isinstance(parent, ast.Attribute) and parent.attr == "numpy")
    if isinstance(parent, ast.Call) and node in parent.args:  # `linear_sum_assignment(cost.cpu())`
        is_numpys = (script.dotted(parent.func) or "").startswith(("scipy.", "numpy.", "sklearn."))
    return is_numpys and isinstance(statement, ast.Assign)


def _is_asked_of(script: Script, node: ast.AST) -> bool:
    """True if `node` is an `if`, or stands in the condition of one."""
    if isinstance(node, (ast.If, ast.IfExp)):
        return True
    child = node
    for ancestor in script.ancestors(node):
        if isinstance(ancestor, (ast.If, ast.IfExp)) and child is ancestor.test:
            return True
        if isinstance(ancestor, ast.stmt):
            return False
        child = ancestor
    return False


def _is_a_size(script: Script, node: ast.AST, *, named: bool = False) -> bool:
    """True if what is read decides how large something is: it is needed in every step."""
    if isinstance(node, ast.Slice):
        return True
    child = node
    for ancestor in script.ancestors(node):
        if isinstance(ancestor, ast.Slice):
            return True
        if isinstance(ancestor, ast.Call) and child in ancestor.args:
            name = getattr(ancestor.func, "attr", getattr(ancestor.func, "id", ""))
            if name in _SIZED:
                return True
            if name not in _NUMBERS:
                return False
        if isinstance(ancestor, ast.Assign):
            return not named and _is_used_as_a_size(script, ancestor)
        if isinstance(ancestor, ast.stmt):
            return False
        child = ancestor
    return False


def _is_used_as_a_size(script: Script, statement: ast.Assign) -> bool:
    """`n = int(lengths.max())`, then `range(n)`, `x[:, :n]`, `x.view(n, -1)`."""
    match statement.targets:
        case [ast.Name(id=name)]:
            pass
        case _:
            return False
    function = script.function(statement)
    return any(
        _is_a_size(script, use, named=True)
        for use, _ in script.index.of(ast.Name)
        if use.id == name and isinstance(use.ctx, ast.Load) and script.function(use) is function
    )


def _reads(script: Script, node: ast.AST) -> Iterator[str]:
    """What `node` fetches from the device, as the finding says it."""
    match node:
        case ast.Call(func=ast.Attribute(attr=name, value=owner), args=[], keywords=[]) if (
            name in _METHODS
        ):
            if may_be_read(script, owner):
                yield f"`.{name}()` reads from the device"
        case ast.Call(func=ast.Attribute(attr="to", value=owner)) if _goes_to_the_host(
            script, node
        ):
            if may_be_read(script, owner):
                yield "`.to` the CPU reads from the device"
        case ast.Slice(lower=lower, upper=upper):
            if any(edge and is_device_tensor(script, edge) for edge in (lower, upper)):
                yield "a slice bound that is a tensor is read from the device"
        case ast.comprehension(ifs=tests):
            if any(_asks(script, test) for test in tests):
                yield "a condition on a tensor reads it from the device"
        case ast.BoolOp(values=values) if not _is_asked(script, node):
            if any(_asks(script, value) for value in values[:-1]):
                yield "`and` or `or` with a tensor reads it from the device"
        case ast.Compare(left=left, ops=[ast.In() | ast.NotIn()], comparators=[right]):
            if is_device_tensor(script, left) or is_device_tensor(script, right):
                yield "`in` with a tensor reads it from the device"
        case ast.Call():
            yield from _of_call(script, node)
        case ast.FormattedValue(value=value) if is_device_tensor(script, value):
            yield "formatting a tensor reads it from the device"
        case ast.BinOp(left=left, op=ast.Mod(), right=right) if _is_text(left):
            shown = right.elts if isinstance(right, ast.Tuple) else [right]
            if any(is_device_tensor(script, value) for value in _each(shown)):
                yield "formatting a tensor reads it from the device"
        case (
            ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test) | ast.Assert(test=test)
        ):
            if _asks(script, test):
                yield "a condition on a tensor reads it from the device"


def _goes_to_the_host(script: Script, call: ast.Call) -> bool:
    """`x.to("cpu")`, `x.to(torch.device("cpu"))`."""
    device = device_argument(call)
    value = script.value(device) if device is not None else UNKNOWN
    return (
        value.has(DEVICE) and value.has(HOST) and not value.has(ACCEL)
    )  # not `cuda if ... else cpu`


def _is_asked(script: Script, node: ast.AST) -> bool:
    """True if `node` is the condition of a statement, or part of one: that is judged as a whole."""
    parent = script.parent(node)
    if isinstance(parent, (ast.BoolOp, ast.UnaryOp)):
        return _is_asked(script, parent) or isinstance(parent, ast.BoolOp)
    return isinstance(parent, (ast.If, ast.While, ast.IfExp, ast.Assert)) and parent.test is node


def _is_text(node: ast.expr) -> bool:
    """`"%s"`, `"%10s" * 4 + "%8.3f"`."""
    if isinstance(node, ast.BinOp):
        return _is_text(node.left) or _is_text(node.right)
    return isinstance(node, ast.JoinedStr) or (
        isinstance(node, ast.Constant) and isinstance(node.value, str)
    )


def _each(nodes: Iterable[ast.expr]) -> Iterator[ast.expr]:
    """`nodes`, those below a star included."""
    for node in nodes:
        yield node.value if isinstance(node, ast.Starred) else node


def _asks(script: Script, test: ast.expr) -> bool:
    """True if the truth of `test` is that of a tensor."""
    if isinstance(test, ast.BoolOp):
        return any(_asks(script, value) for value in test.values)
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return _asks(script, test.operand)
    if isinstance(test, ast.Compare):
        if any(isinstance(op, (ast.Is, ast.IsNot, ast.In, ast.NotIn)) for op in test.ops):
            return False
        return any(is_device_tensor(script, side) for side in (test.left, *test.comparators))
    return is_device_tensor(script, test)


def _of_call(script: Script, call: ast.Call) -> Iterator[str]:
    func = call.func
    scope = script.index.scope(call)
    dotted = script.dotted(func, scope)
    if dotted == "torch.nn.utils.clip_grad_norm_":
        given = keyword(call, "error_if_nonfinite")
        if isinstance(given, ast.Constant) and given.value is True:
            yield "`error_if_nonfinite` reads the norm from the device"
    elif dotted in _FETCHING:
        read = may_be_read if dotted.startswith("torch.") else is_device_tensor
        if any(read(script, argument) for argument in call.args):
            yield f"`{dotted}` reads from the device"
    elif isinstance(func, ast.Name) and scope.find(func.id) is None:
        looked_at = func.id in _BUILTINS or (func.id in _EXTREMES and len(call.args) > 1)
        if looked_at and any(is_device_tensor(script, argument) for argument in _each(call.args)):
            yield f"`{func.id}` of a tensor reads it from the device"
    elif isinstance(func, ast.Attribute):
        if func.attr == "format" and isinstance(func.value, ast.Constant):
            if any(is_device_tensor(script, argument) for argument in _given(call)):
                yield "formatting a tensor reads it from the device"
        elif func.attr in _LOGGING and not (dotted or "").startswith("torch."):  # torch.log
            own = script.local_method(func, scope) is not None
            if not own and any(_shows(script, a) for a in _given(call)):
                yield "logging a tensor reads it from the device"
        elif func.attr == "step" and script.value(func.value, scope).has(SCHEDULER):
            if any(is_device_tensor(script, argument) for argument in _given(call)):
                yield "this scheduler reads the value that it is given from the device"


def _given(call: ast.Call) -> Iterator[ast.expr]:
    """The arguments, and the values of dicts among them."""
    for argument in _each((*call.args, *(k.value for k in call.keywords))):
        if isinstance(argument, ast.Dict):
            yield from argument.values
        elif isinstance(argument, ast.Call) and getattr(argument.func, "id", "") == "dict":
            yield from (k.value for k in argument.keywords)
        else:
            yield argument


def _shows(script: Script, node: ast.expr) -> bool:
    """True if `node` is a tensor of the device, or a dict that holds one."""
    if is_device_tensor(script, node):
        return True
    fields = script.value(node).fields if isinstance(node, ast.Name) else None
    return any(field.kinds == {TENSOR, ACCEL} for field in (fields or {}).values())
