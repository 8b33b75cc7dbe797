"""A value that is read from the device in every step makes the host wait.

## What it reports

Host reads in training loops: `.item()`, `print(loss)`, `if loss > x`, `float(loss)`, `any(...)`,
`max(...)` or `sorted(...)` of tensors, and tensors as an index of a list or a host array.

## Why it matters on XLA

XLA runs training steps asynchronously. A host read waits until the device has computed the value,
so Python and the device no longer work at the same time.

## What to do

Fix: safe, or none.

Defer values that are only shown or summed. `xla.item(loss)` returns a deferred value, from which
sums, means and meters are computed in double precision. `xla.later` makes a call when its values
have arrived, in the order of the script's other output. On CUDA both act at once.

Values that decide something need another change. Check them every n-th step, or decide on the
device: skip a step with `xla.optimizer_step(optimizer, where=finite)`, and keep a maximum with
`torch.maximum`.

## Example

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

Evaluations read the value once:

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

Conditions that only control output are deferred. `xla.computed` keeps extremes:

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

Checks that end the training are deferred if no effect of the following steps is visible: output
of later steps is dropped, no weights are saved, and no caller catches the error.

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

A check every n-th step is not reported:

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

An environment on the host needs each action. The rule reports the read as a note:

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

trl's trainers read their metrics themselves, which the rule reports as a note. Lightning reads
what the progress bar shows:

```python
from lightning import LightningModule
from trl import RewardConfig, RewardTrainer
from xla_migrate import runtime as xla

def train(model, dataset):
    xla.patch_accelerate()
    arguments = RewardConfig("out", optim="adamw_torch", max_length=512)
    RewardTrainer(model, arguments, train_dataset=dataset).train()  # XLA503

class Classifier(LightningModule):
    def training_step(self, batch, index):
        loss = self.loss(batch)
        self.log("loss", loss, prog_bar=True)  # XLA503
        self.log("train_loss", loss)
        self.log("epoch_loss", loss, prog_bar=True, on_step=False, on_epoch=True)
        return loss

    def validation_step(self, batch, index):
        self.log("val_loss", self.loss(batch), prog_bar=True)
```

Rare reads, and values that are not tensors on the device, are not reported:

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

A loop that reads each element of a tensor is reported wherever it stands, because XLA compiles for
each element:

```python
import torch
from xla_migrate import runtime as xla

def train(model, batches, optimizer):
    model.to(xla.xla_device())
    for x, y in xla.MpDeviceLoader(batches):
        torch.nn.functional.cross_entropy(model(x), y).backward()
        xla.optimizer_step(optimizer)

def confusion(model, batches):
    table = torch.zeros(4, 4)
    for x, y in xla.MpDeviceLoader(batches):
        with torch.no_grad():
            guess = model(x).argmax(1)
        for t, p in zip(y.view(-1), guess.view(-1)):  # XLA503
            table[t.long(), p.long()] += 1
        for t, p in zip(y.tolist(), guess.tolist()):
            table[t, p] += 1
    return table
```

The gradient of a tensor that is created on the host is copied to the host:

```python
import torch
from xla_migrate import runtime as xla

def train(net, optimizer, points):
    device = xla.xla_device()
    x = torch.tensor(points, requires_grad=True).float().to(device)  # XLA503
    t = torch.tensor(points).to(device).requires_grad_()
    for _ in range(1000):
        loss = net(x, t).mean()
        optimizer.zero_grad()
        loss.backward()
        xla.optimizer_step(optimizer)
        xla.mark_step()
```

## Limits

A read is deferred if the rule can follow the uses of its value in every step:

- Arithmetic, `min`, `max`, `math` (`xla.computed`), formatted text and elements of numpy arrays
  (`xla.fill`).
- Lists and dictionaries of the file or of an object, such as `self.losses.append(loss.item())`.
- Results of functions that only this file calls, and meters of the project.
- Output through `print`, `logging`, tqdm, rich, files that are opened in the same function,
  `accelerator.print`, `accelerator.log`, TensorBoard, wandb and other trackers.
- Loggers of the project that only keep their arguments.

`xla.arrived` returns a Python number for code that tests the type of the value.

## See also

[Deferred values](../host-reads.md) describes `xla.item`, `xla.later` and what they wait for.
[PyTorch/XLA on a GPU](../native-backends.md#pytorchxla-on-a-gpu) shows what deferred reads save.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import takewhile

from ...analysis.frameworks.arguments import READING_TRAINERS
from ...analysis.frameworks.lightning_modules import is_lightnings
from ...analysis.inference.values import ACCEL
from ...analysis.loops import STEP, outside_loops
from ...analysis.scopes import Scope
from ...analysis.script import Script
from ...analysis.syntax import is_literal, keyword, name_of, unparsed
from ...analysis.training.acting import is_an_action
from ...analysis.training.host_reads.conditions import condition_of
from ...analysis.training.host_reads.element_loops import element_loops, is_reported_at_a_loop
from ...analysis.training.host_reads.fetching import LISTS_TO_TENSORS, reads_in_turns
from ...analysis.training.host_reads.read_numbers import good_step, is_of_a_loss
from ...analysis.training.tensors.given import KEEPING
from ...catalog.alternatives import alternative
from ...edits import Edit, ReplaceStatement
from ...finding import INFO, MEDIUM, WARNING, Finding
from ...flow.closure import reach
from ...patterns import Pattern
from ...rule import MethodCall, Rule
from ...symptoms import LIKELY, POSSIBLE

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

_ACTION = ", because the environment needs the action, and XLA launches a graph for each action: act in several environments at once, or with a copy of the model on the CPU"
# Reasons about values that functions return, or attributes that other code reads.
_CALLERS = Pattern(r"to unknown callers$|^other modules read")
_LEAF = "the tensor that requires gradients is on the host, and each backward pass copies its gradient there: create it on the device (`device=...`), or call `.requires_grad_()` after the move"
_ELEMENTS = "the loop over `{}` compiles a graph for each element and reads it from the device: iterate over a copy on the host (`.cpu()` or `.tolist()`)"
_LARGER = ", and the host waits: use larger batches instead of `gradient_accumulation_steps`"
_IN_A_BAR = "Lightning reads what `prog_bar=True` shows from the device in every step, and the host waits: log it without `prog_bar`"
_LATER = "fetch the value later, without waiting"
_STOPPING = (
    "; the check then ends training up to 16 steps later, and these steps show and save nothing"
)
_KEEPING_GRADIENTS = KEEPING | {"double", "float"}
_REDUCTIONS = frozenset({"max", "mean", "min", "sum"})
# What makes a number of a number, and what takes one for a size.
_NUMBERS = frozenset("ceil floor int max min round".split())
_SIZED = frozenset(
    "arange empty expand eye full narrow new_zeros ones pad put rand randint randn randperm range repeat reshape split"
    " tile topk view zeros".split()
)


@RULE.file
def host_sync(script: Script) -> Iterator[Finding]:
    for node, description, outcome, in_a_step in reads_in_turns(script):
        edits, obstacle = outcome.edits, outcome.obstacle
        if not edits and is_reported_at_a_loop(script, node):
            continue
        if not edits and is_an_action(script, node):
            yield RULE.finding(script, node, f"{description} in every turn{_ACTION}", severity=INFO)
            continue
        if not in_a_step and not edits:
            continue  # an evaluation is not what training waits for
        advice = _without_check(script, node) or _without_move(script, node)
        reason = f" (cannot be deferred: {obstacle})" if obstacle and not advice else ""
        if edits:
            advice = _LATER + _STOPPING * any(_stops(script, edit) for edit in edits)
        advice = advice or _advice(script, node, obstacle)
        message = f"{description} in every step, and the host waits{reason}: {advice}"
        place = node.ifs[0] if isinstance(node, ast.comprehension) else node
        yield RULE.finding(script, place, message, *edits)


def _stops(script: Script, edit: Edit) -> bool:
    """Return True if the edit defers a check that ends the training."""
    check = condition_of(script, edit.node) if isinstance(edit, ReplaceStatement) else None
    return check is not None and bool(check.how)


@RULE.file
def reads_of_elements(script: Script) -> Iterator[Finding]:
    for loop, (tensors, _) in element_loops(script).items():
        place = loop.iter if isinstance(loop, ast.For) else loop
        names = "` and `".join(map(unparsed, tensors))
        yield RULE.finding(script, place, _ELEMENTS.format(names))


@RULE.node(ast.keyword, named=("requires_grad",))
def leaf_on_the_host(script: Script, argument: ast.keyword, scope: Scope) -> Iterator[Finding]:
    """`torch.tensor(x, requires_grad=True).to(device)`."""
    call = script.parent(argument)
    is_leaf = isinstance(call, ast.Call) and keyword(call, "device") is None
    if is_leaf and is_literal(argument.value, True) and _is_moved_on(script, call):
        yield RULE.finding(script, argument, _LEAF)


@RULE.method("requires_grad_")
def made_a_leaf_on_the_host(script: Script, call: MethodCall, scope: Scope) -> Iterator[Finding]:
    """`torch.rand(4).requires_grad_().to(device)`."""
    if not script.value(call.func.value).has(ACCEL) and _is_moved_on(script, call):
        yield RULE.finding(script, call, _LEAF)


@RULE.call(*READING_TRAINERS)
def reading_trainer(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    name = name_of(call.func)
    message = f"`{name}` reads its metrics from the device for each batch, whatever `logging_steps` is{_LARGER}"
    yield RULE.finding(script, call, message, severity=INFO)


@RULE.node(ast.keyword, named=("prog_bar",))
def shown_in_a_progress_bar(
    script: Script, argument: ast.keyword, scope: Scope
) -> Iterator[Finding]:
    """`self.log("loss", loss, prog_bar=True)`, also if the bar is off."""
    call, function = script.parent(argument), script.function(argument)
    if not isinstance(call, ast.Call) or function is None or function.name != "training_step":
        return
    if is_literal(argument.value, True) and is_lightnings(script, call):
        if not is_literal(keyword(call, "on_step"), False):
            yield RULE.finding(script, argument, _IN_A_BAR)


def _is_moved_on(script: Script, leaf: ast.AST | None) -> bool:
    """Return True if the result of `leaf` is moved to the device in its expression, and keeps its gradient."""
    if not (script.is_trained and script.runs_accelerated):
        return False
    moved = False
    around = script.parent(leaf) if leaf is not None else None
    while isinstance(around, ast.Attribute):
        call = script.parent(around)
        if not isinstance(call, ast.Call) or around.attr not in _KEEPING_GRADIENTS:
            return False
        moved = moved or (around.attr in {"cuda", "to"} and script.value(call).has(ACCEL))
        around = script.parent(call)
    is_parameter = isinstance(around, ast.Call) and name_of(around.func) == "Parameter"
    return moved and not is_parameter and _is_for_steps(script, around)


def _is_for_steps(script: Script, around: ast.AST | None) -> bool:
    """Return True if `around` stores an attribute, or stands in code that computes gradients of all leaves."""
    function = script.function(around) if around is not None else None
    if isinstance(around, ast.Assign) and isinstance(around.targets[0], ast.Attribute):
        return True
    backward = (call for call, _ in script.index.calls_of("backward"))
    return function is None or any(script.function(call) is function for call in backward)


def _without_check(script: Script, node: ast.AST) -> str:
    """Return how to make the call `node` without its check of the result; "" for other reads."""
    name = name_of(node.func) if isinstance(node, ast.Call) else ""
    if name in {"clip_grad_norm_", "clip_gradients"}:
        return "pass `error_if_nonfinite=False`, and check the norm every n-th step"
    if name in {"inv", "inverse"}:
        return "use `torch.linalg.inv_ex(x).inverse`, which does not check"
    return ""


def _without_move(script: Script, node: ast.AST) -> str:
    """Return how to avoid the read of the lengths of a packed sequence, which PyTorch needs on the host."""
    around = takewhile(lambda each: not isinstance(each, ast.stmt), script.ancestors(node))
    calls = (each for each in around if isinstance(each, ast.Call))
    if isinstance(node, ast.expr) and any(name_of(c.func) == "pack_padded_sequence" for c in calls):
        return "keep the lengths on the host, where `pack_padded_sequence` needs them"
    return ""


def _advice(script: Script, node: ast.AST, obstacle: str) -> str:
    if obstacle.endswith("the script continues") or obstacle.startswith("the check ends"):
        return "check it every n-th step (`if step % 100 == 0 and ...`)"
    if obstacle == "a lambda reads it":
        return "define the lambda as a function with `def`, whose reads can be deferred"
    if _is_a_list_of_tensors(script, node):
        return "join them with `torch.stack`"
    match node:
        case ast.Call(func=ast.Name(id="all" | "any" | "max" | "min" as name), args=[_]):
            return f"`torch.stack([...]).{name}()` is one read: make it every n-th step, or after the loop"
        case ast.Compare(ops=[_, _, *_]):
            return "compare each pair, and join the results with `&`"
        case ast.Subscript():
            return f"move the indices to the host first, in one transfer (`.cpu()`), or count on the device: {alternative('bincount')}"
    if reduction := _reduction_on_the_host(script, node):
        return f"remove `.cpu()`, so that `.{reduction}()` is computed on the device and can be read later"
    if _CALLERS.search(obstacle):
        return "return the tensor (`loss.detach()`), and let callers read it every n-th step"
    if obstacle.endswith("with a tensor or array"):
        return "compute with the tensor itself if both are on the device, or read every n-th step"
    if _is_logged_by_lightning(script, node):
        return "pass the tensor itself to `self.log`"
    if obstacle and _is_array_of_a_loss(script, node):
        return "use `.item()`, whose read is deferred"
    if _is_for_scipy(script, node):
        return "SciPy needs the values on the host in each step: read all samples in one transfer"
    if obstacle and _is_for_numpy(script, node):
        return "compute it with PyTorch on the device instead of numpy"
    if isinstance(node, ast.Call) and script.dotted(node.func) == "torch.multinomial":
        return (
            "draw with `replacement=True`, or take `topk` of the logarithms plus Gumbel noise: "
            "`(torch.log(p) - torch.log(-torch.log(torch.rand_like(p)))).topk(n).indices`"
        )
    if _is_a_shift(script, node):
        return "shift on the device: `x.gather(dim, (torch.arange(n) + shift) % n)`, with the shift as a tensor"
    if _is_a_size(script, node):
        return (
            "pad to one size and mask the rest, or keep the number on the host next to the tensor"
        )
    around = script.parent(node)
    match around if isinstance(around, ast.Call) and node in around.args else node:
        case ast.Call(func=ast.Name(id="max" | "min" as name), args=[_, _, *_]):
            return f"compute it on the device: `torch.{name}imum`, or `torch.clamp` with a number"
    statement = script.statement(node)
    head = statement.test if isinstance(statement, (ast.If, ast.While, ast.Assert)) else node
    if _decides_on_the_step(script, head) and (good := good_step(script, head)):
        return f"check it every n-th step, or decide on the device: `xla.optimizer_step(optimizer, where={good})`"
    if _is_asked_of(script, node):
        return (
            "check it every n-th step, or decide on the device: `torch.where(condition, new, old)`"
        )
    return "read every n-th step, or after the loop"


def _reduction_on_the_host(script: Script, node: ast.AST) -> str:
    """Return `sum` of `correct.cpu().sum()`, whose sum is smaller than what is read; "" for others."""
    around = script.parent(node)
    is_read = isinstance(node, ast.Call) and name_of(node.func) == "cpu"
    is_called = is_read and isinstance(script.parent(around or node), ast.Call)
    name = around.attr if is_called and isinstance(around, ast.Attribute) else ""
    return name if name in _REDUCTIONS else ""


def _decides_on_the_step(script: Script, head: ast.AST) -> bool:
    """Return True if the condition `head` may skip what follows it, or has a step in its branches."""
    choice = script.statement(head)
    if not isinstance(choice, ast.If):
        return True
    inside = [node for branch in (choice.body, choice.orelse) for node in outside_loops(branch)]
    is_left = any(isinstance(node, (ast.Continue, ast.Return)) for node in inside)
    return is_left or STEP in script.training.effects_of([*choice.body, *choice.orelse])


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


def _is_for_scipy(script: Script, node: ast.AST) -> bool:
    """Return True if the function of the read `node` calls SciPy: `linear_sum_assignment(cost.cpu())`."""
    if not script.source.mentions("scipy"):
        return False
    calls = (call for call, scope in script.index.of(ast.Call) if _is_scipys(script, call, scope))
    return any(script.function(call) is script.function(node) for call in calls)


def _is_scipys(script: Script, call: ast.Call, scope: Scope) -> bool:
    return (script.dotted(call.func, scope) or "").startswith("scipy.")


def _is_array_of_a_loss(script: Script, node: ast.AST) -> bool:
    """`value = loss.detach().cpu().numpy()` of one number."""
    match node, script.parent(node):
        case ast.Call(func=ast.Attribute(value=owner, attr="cpu")), ast.Attribute(attr="numpy"):
            return is_of_a_loss(script, owner)
    return False


def _is_asked_of(script: Script, node: ast.AST) -> bool:
    """True if `node` is an `if`, or stands in the condition of one."""
    if isinstance(node, (ast.If, ast.IfExp)):
        return True
    for child, ancestor in script.upward(node):
        if isinstance(ancestor, (ast.If, ast.IfExp)) and child is ancestor.test:
            return True
        if isinstance(ancestor, ast.stmt):
            return False
    return False


def _is_a_shift(script: Script, node: ast.AST) -> bool:
    """Return True for `torch.roll(x, -int(index[i]), -1)`."""
    taker = _taker(script, node)
    return isinstance(taker, ast.Call) and name_of(taker.func) == "roll"


def _is_a_size(script: Script, node: ast.AST) -> bool:
    """True if what is read decides how large something is, also through names: it is needed in every step.

    `n = int(lengths.max())`, then `range(n)`, `x[:, :n]`, `x.view(n, -1)`; also `k = min(n, 8)`, then `x.topk(k)`.
    """
    reached = reach([node], lambda each: _named_uses(script, _taker(script, each)))
    takers = (_taker(script, each) for each in reached)
    return _is_sized_by(node) or any(map(_is_sized_by, takers))


def _is_sized_by(taker: ast.AST | None) -> bool:
    is_call = isinstance(taker, ast.Call) and name_of(taker.func) in _SIZED
    return is_call or isinstance(taker, ast.Slice)


def _taker(script: Script, node: ast.AST) -> ast.AST | None:
    """Return the slice, call or statement that takes the value of `node`, also after functions of numbers."""
    for child, ancestor in script.upward(node):
        match ancestor:
            case ast.Slice() | ast.stmt():
                return ancestor
            case ast.Call() if child in ancestor.args and name_of(ancestor.func) not in _NUMBERS:
                return ancestor
    return None


def _named_uses(script: Script, taker: ast.AST | None) -> list[ast.Name]:
    """Return the reads of the name that the assignment `taker` binds, in its function."""
    match taker:
        case ast.Assign(targets=[ast.Name(id=name)]):
            reads = script.index.names_in(script.function(taker), name)
            loads = (read for read in reads if isinstance(read.ctx, ast.Load))
            return [load for load in loads if script.statement(load) is not taker]
    return []
