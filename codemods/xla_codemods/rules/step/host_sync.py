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
+        running += xla.item(loss)
+        xla.later(lambda step=step, loss=loss: print(f"{step} {loss.item():.4f}"))
         if step % 100 == 99:
             print(step, running / 100)
             running = 0.0
-    return running
+    return xla.arrived(running)
```

That is done where everything is known that becomes of the value: arithmetic, `min`, `max` and `math` (`xla.computed`), texts, names,
elements of numpy arrays (`xla.fill`), lists and dicts of this file or of an object (`self.losses.append(loss.item())`), what functions return, also several values together, and
what generators yield to loops of this file, meters and functions of this project (`losses.update(loss.item(), n)`); `print`,
`logging`, tqdm, rich, files that are opened in the same function, `accelerator.print` and `accelerator.log`, TensorBoard, wandb and other trackers, and
loggers of this project that only keep and write what they are told (`logger.log(...)`, with `to=logger`). `xla.arrived` gives Python's own number to whatever may ask what it is. Evaluations read once:

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
-        if loss.item() > 10:
-            print("spike", step)
+        xla.later(lambda loss=loss, step=step: print("spike", step) if loss.item() > 10 else None)
-        if loss.item() < lowest:
-            lowest = loss.item()
+        lowest = xla.computed(min, lowest, xla.item(loss))
     print(lowest)
```

So are checks that end the training, where what a step does until then is seen by nobody: output of later steps is dropped, weights are not
saved, and no caller of the program catches the error.

```diff
 import math, sys
 import torch
 from torch.utils.data import DataLoader
+from xla_migrate import runtime as xla

 def train(model, dataset, optimizer, device):
-    for step, x in enumerate(DataLoader(dataset)):
+    for step, x in enumerate(xla.MpDeviceLoader(DataLoader(dataset))):
         loss = model(x.to(device)).mean()
-        value = loss.item()
+        value = xla.item(loss)
-        if not math.isfinite(value):
-            print("loss is", value)
-            sys.exit(1)
+        xla.later(lambda value=value: (print("loss is", value), sys.exit(1)) if not math.isfinite(value) else None)
         optimizer.zero_grad()
         loss.backward()
-        optimizer.step()
+        xla.optimizer_step(optimizer)
```

Whether a step is taken is decided by the device, where nothing but the step hangs on it, and what is shown or summed up:

```diff
 import torch
 from torch.utils.data import DataLoader
+from xla_migrate import runtime as xla

 def train(model, dataset, optimizer, device):
     total = 0.0
-    for step, x in enumerate(DataLoader(dataset)):
+    for step, x in enumerate(xla.MpDeviceLoader(DataLoader(dataset))):
         loss = model(x.to(device)).mean()
-        if not torch.isfinite(loss):
-            print("skipped", step)
-            continue
+        finite = torch.isfinite(loss)
+        xla.later(lambda step=step, isfinite_loss=torch.isfinite(loss): print("skipped", step) if not isfinite_loss else None)
         optimizer.zero_grad()
         loss.backward()
-        optimizer.step()
-        total += loss.item()
+        xla.optimizer_step(optimizer, where=finite)
+        total += xla.item(torch.where(finite, loss, 0))
     print(total)
```

So it is for `if torch.isfinite(norm): optimizer.step()`. Gradients of a step that is not taken have to be zeroed in every turn; schedulers and
averages of weights that step with it, and gradients of several turns that are added up, stand in the way.

Other decisions have to be read in every step, but for gradients that are clipped by hand, where the device can
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

`any(torch.isnan(p.grad).any() for p in ...)`, `max` and `sorted` of tensors read each of them, and so does a tensor as an index of a
list, an array or a tensor of the host: `matrix[target, guess] += 1` for each sample.

Let what is left be decided now and then; or on the device, where a step that is not finite is skipped by
`xla.optimizer_step(optimizer, where=finite)`, and a maximum is kept by `torch.maximum`:

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

An environment on the host needs each action, whatever is done: that is a note.

```python
import torch
from xla_migrate import runtime as xla

def play(policy, env, optimizer, device):
    state, done = env.reset(), False
    while not done:
        values = policy(torch.as_tensor(state).to(device))
        state, reward, done, _ = env.step(values.argmax().item())  # XLA503
        loss = -values.max() * reward
        optimizer.zero_grad()
        loss.backward()
        xla.optimizer_step(optimizer)
        xla.mark_step()
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
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...analysis.frameworks.lightning_modules import is_lightnings
from ...analysis.nodes import walk
from ...analysis.training.acting import is_an_action
from ...analysis.training.host_reads.fetching import LISTS_TO_TENSORS, reads_in_turns
from ...finding import INFO, MEDIUM, WARNING, Finding
from ...patterns import Pattern
from ...rule import Rule
from ...symptoms import LIKELY, POSSIBLE

if TYPE_CHECKING:
    from ...analysis.script import Script

RULE = Rule(
    "XLA503",
    "host-sync",
    of_what_runs=True,
    of_step="turn",
    defers=True,
    severity=WARNING,
    effort=MEDIUM,
    about="speed",
    behind={"host reads": LIKELY, "printed metrics": LIKELY, "launches": POSSIBLE},
)

_ACTION = (
    ", since the environment needs the action, and XLA launches a graph for each: act for several environments at once, or "
    "with a copy of the model on the CPU"
)
# Of what functions return, and attributes are asked for.
_CALLERS = Pattern(r"callers that are not known here$|\.py` (?:shows|asks|hands)|^in `")
# What makes a number of a number, and what takes one for a size.
_NUMBERS = frozenset("ceil floor int max min round".split())
_SIZED = frozenset(
    "arange empty expand full new_zeros ones pad range repeat reshape split tile topk view zeros".split()
)


@RULE.file
def host_sync(script: Script) -> Iterator[Finding]:
    for node, said, outcome, in_a_step in reads_in_turns(script):
        edits, obstacle = outcome.edits, outcome.obstacle
        if not edits and is_an_action(script, node):
            yield RULE.finding(script, node, f"{said} in every turn{_ACTION}", severity=INFO)
            continue
        if not in_a_step and not edits:
            continue  # an evaluation is not what training waits for
        reason = f" (not read later here, since {obstacle})" if obstacle else ""
        advice = _advice(script, node, obstacle)
        if said.startswith("`error_if_nonfinite`"):
            advice = "give `error_if_nonfinite=False`, and look at the norm every n-th step"
        message = f"{said} in every step, and the host waits{reason}: {advice}"
        place = node.ifs[0] if isinstance(node, ast.comprehension) else node
        yield RULE.finding(script, place, message, *edits)


def _advice(script: Script, node: ast.AST, obstacle: str) -> str:
    if obstacle.endswith("whether it goes on") or obstacle.startswith("it ends the training"):
        return "ask every n-th step (`if step % 100 == 0 and ...`)"
    if _is_a_list_of_tensors(script, node):
        return "join them by `torch.stack`"
    match node:
        case ast.Call(func=ast.Name(id="all" | "any" | "max" | "min" as name), args=[_]):
            return f"`torch.stack([...]).{name}()` is one read, to be made every n-th step, or after the loop"
        case ast.Subscript():
            return "bring the indices to the host before, in one transfer (`.cpu()`), or count on the device: `torch.bincount`"
    if _CALLERS.search(obstacle):
        return "return the tensor (`loss.detach()`), and let callers read it every n-th step"
    if obstacle.endswith("may go on growing"):
        return "return a copy (`list(...)`)"
    if obstacle.endswith("is opened in every step"):
        return "open the file once, before the loop"
    if obstacle.endswith("would read the tensor itself"):
        return "hand it the tensor (`update(loss=loss)`), and it is read there"
    if _is_logged_by_lightning(script, node):
        return "hand `self.log` the tensor itself"
    if obstacle and _is_for_numpy(script, node):
        return "compute it with torch on the device, in place of numpy"
    if _is_a_size(script, node):
        return "pad to one size and mask what is too much, or keep the number on the host beside the tensor"
    statement = script.statement(node)
    head = statement.test if isinstance(statement, (ast.If, ast.While, ast.Assert)) else node
    asked = {n.attr if isinstance(n, ast.Attribute) else getattr(n, "id", "") for n in walk(head)}
    if asked & {"isnan", "isfinite", "isinf"}:
        return "ask every n-th step, or on the device: `xla.optimizer_step(optimizer, where=torch.isfinite(loss))`"
    if _is_asked_of(script, node):
        return "ask every n-th step, or decide on the device: `torch.where(condition, new, old)`"
    return "read every n-th step, or after the loop"


def _is_a_list_of_tensors(script: Script, node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and script.dotted(node.func) in LISTS_TO_TENSORS


def _is_logged_by_lightning(script: Script, node: ast.AST) -> bool:
    """`self.log("loss", loss.item())` of a LightningModule."""
    match script.statement(node):
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id="self"), attr=name))):
            return name in {"log", "log_dict"} and is_lightnings(script, node)
    return False


def _is_for_numpy(script: Script, node: ast.AST) -> bool:
    """`gradient = x.grad.cpu().numpy()`: what numpy computes with."""
    statement = script.statement(node)
    parent = script.parent(node)
    is_numpys = isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "numpy"
    is_numpys = is_numpys or (isinstance(parent, ast.Attribute) and parent.attr == "numpy")
    if isinstance(parent, ast.Call) and node in parent.args:  # `linear_sum_assignment(cost.cpu())`
        is_numpys = (script.dotted(parent.func) or "").startswith(("scipy.", "numpy.", "sklearn."))
    # `metrics["loss"] = loss.cpu().numpy()` is kept, and computes nothing.
    kept = isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Subscript)
    return is_numpys and isinstance(statement, ast.Assign) and not kept


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


def _is_a_size(script: Script, node: ast.AST, hops: int = 3) -> bool:
    """True if what is read decides how large something is, at most `hops` names further: it is needed in every step."""
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
            return hops > 0 and _is_used_as_a_size(script, ancestor, hops - 1)
        if isinstance(ancestor, ast.stmt):
            return False
        child = ancestor
    return False


def _is_used_as_a_size(script: Script, statement: ast.Assign, hops: int) -> bool:
    """`n = int(lengths.max())`, then `range(n)`, `x[:, :n]`, `x.view(n, -1)`; also `k = min(n, 8)`, then `x.topk(k)`."""
    match statement.targets:
        case [ast.Name(id=name)]:
            pass
        case _:
            return False
    function = script.function(statement)
    return any(
        _is_a_size(script, use, hops)
        for use in script.index.names_in(function, name)
        if isinstance(use.ctx, ast.Load) and script.statement(use) is not statement
    )
