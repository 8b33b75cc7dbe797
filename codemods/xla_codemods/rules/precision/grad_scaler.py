"""bfloat16 needs no loss scaling.

## What it reports

Gradient scalers of PyTorch and all code that belongs to them: scaling, unscaling, `update` and
comparisons of the scale.

## Why it matters on XLA

A `GradScaler` reads one value from the device in each step (fact 1.73). Its `step` does not
average gradients between replicas (fact 1.74). It exists because gradients in float16 underflow.
bfloat16 has the range of float32.

## What to do

Fix: safe, or none.

Remove the scaler. Autocast computes in bfloat16 on XLA.

## Example

```diff
 import torch
-from torch.cuda.amp import GradScaler
+from xla_migrate import runtime as xla

 def train(model, criterion, loader, device):
     optimizer = torch.optim.AdamW(model.parameters())
-    scaler = GradScaler()
-    for x, y in loader:
+    for x, y in xla.MpDeviceLoader(loader):
         loss = criterion(model(x.to(device)), y.to(device))
         optimizer.zero_grad()
-        scaler.scale(loss).backward()
+        loss.backward()
-        scaler.unscale_(optimizer)
         torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
-        scaler.step(optimizer)
+        xla.optimizer_step(optimizer)
-        scaler.update()
     return model.state_dict()
```

A scaler whose state is saved in checkpoints becomes `xla.GradScaler`. It scales nothing and keeps
the state, so that both scripts can resume from the other's checkpoints:

```diff
 import torch
+from xla_migrate import runtime as xla

 def train(model, loss, optimizer):
-    scaler = torch.cuda.amp.GradScaler(init_scale=1024)
+    scaler = xla.GradScaler(init_scale=1024)
-    scaler.scale(loss).backward()
+    loss.backward()
-    scaler.step(optimizer)
+    xla.optimizer_step(optimizer)
+    xla.mark_step()
-    scaler.update()
     return {"model": model.state_dict(), "scaler": scaler.state_dict()}
```

A scaler that is passed to functions of the same file becomes `None`. An `if` that chooses between
scaling and no scaling is removed:

```diff
 import torch
+from xla_migrate import runtime as xla

 def step(loss, optimizer, scaler):
-    if scaler is not None:
-        scaler.scale(loss).backward()
-        scaler.step(optimizer)
-        scaler.update()
-    else:
-        loss.backward()
-        optimizer.step()
+    loss.backward()
+    xla.optimizer_step(optimizer)
+    xla.mark_step()

 def main(loss, optimizer):
-    scaler = torch.amp.GradScaler("cuda")
+    scaler = None
     step(loss, optimizer, scaler)
```

If the presence of a scaler means mixed precision, or if code of another file receives it, it
becomes `xla.GradScaler`:

```diff
 import torch
+from xla_migrate import runtime as xla

 def main(args, model, x, optimizer):
-    scaler = torch.cuda.amp.GradScaler() if args.amp else None
+    scaler = xla.GradScaler() if args.amp else None
-    with torch.cuda.amp.autocast(enabled=scaler is not None):
+    with xla.autocast(enabled=scaler is not None):
         loss = model(x).mean()
-    scaler.scale(loss).backward()
+    loss.backward()
-    scaler.step(optimizer)
+    xla.optimizer_step(optimizer)
+    xla.mark_step()
```

A comparison of the scale tests whether a step was skipped. No step is skipped without a scaler:

```diff
 import torch
-from torch.amp import GradScaler
+from xla_migrate import runtime as xla

 def train(loss, optimizer, scheduler):
-    scaler = GradScaler("cuda")
-    scaler.scale(loss).backward()
+    loss.backward()
-    scale = scaler.get_scale()
-    scaler.step(optimizer)
+    xla.optimizer_step(optimizer)
+    xla.mark_step()
-    scaler.update()
-    if scale <= scaler.get_scale():
-        scheduler.step()
+    scheduler.step()
```

A script that clips gradients without unscaling them first clips nearly all of them on CUDA.
Without a scaler the limit applies as written. The rule reports the clipping:

```diff
 import torch
-from torch.amp import GradScaler
+from xla_migrate import runtime as xla

 def train(model, loss, optimizer):
-    scaler = GradScaler("cuda")
-    scaler.scale(loss).backward()
+    loss.backward()
     torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
-    scaler.step(optimizer)
+    xla.optimizer_step(optimizer)
+    xla.mark_step()
-    scaler.update()
```

Scalers of other libraries are not reported:

```python
import torch
from sklearn.preprocessing import StandardScaler

def normalise(x):
    scaler = StandardScaler()
    scaler.fit(x)
    return torch.tensor(scaler.transform(x))
```

## See also

XLA201, XLA205, XLA208
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...analysis.frameworks.accelerator import uses_accelerate
from ...analysis.inference.values import SCALER
from ...analysis.scopes import Scope
from ...analysis.script import Script
from ...analysis.syntax import is_handed_on
from ...analysis.training.scalers.branches import collapsed
from ...analysis.training.scalers.creations import (
    MAKERS,
    Creation,
    creations,
    idle_bindings,
    is_disabled,
)
from ...analysis.training.scalers.kept import clipped, keeps_scalers
from ...analysis.training.scalers.uses import Uses, uses_of_scalers
from ...edits import Edit, Replace, remove
from ...finding import MEDIUM, WARNING, Finding
from ...flow.calls import call_with
from ...rule import Rule
from ...symptoms import REMOTE

RULE = Rule(
    "XLA204",
    "grad-scaler",
    of_step="precision",
    severity=WARNING,
    behind={"host reads": REMOTE},
    words=("scale",),
)

_COST = (
    "a GradScaler costs one device read in every step on XLA, and bfloat16 needs no loss scaling"
)
_MESSAGE = f"{_COST}: remove it"
_IDLE = f"{_COST}: use `xla.GradScaler`, which scales nothing"
_BESIDE_ACCELERATE = "the GradScaler also scales losses on XLA, and costs one device read in every step: select bfloat16 in accelerate, and remove the scaler"
_KEPT_STEP = (
    "the scaler's `step` averages no gradients over XLA devices: remove the scaler, and use"
    " `xla.optimizer_step`"
)
_WORDS = ("caler", ".scale(", ".unscale_(")


@RULE.file
def used(script: Script) -> Iterator[Finding]:
    """What is done with scalers, and the branches that have nothing left to decide."""
    if uses_accelerate(script):
        return
    if not any(word in script.source.text for word in _WORDS):
        return
    uses = uses_of_scalers(script)
    is_kept = keeps_scalers(script)
    for node, edits in () if is_kept else uses.fixed:
        yield RULE.finding(script, node, _MESSAGE, *edits)
    for branch, edit in () if is_kept else collapsed(script, uses.changes):
        yield RULE.finding(
            script, branch, "without loss scaling both branches are the same: keep one", edit
        )
    for call in uses.changes.steps if is_kept else ():
        yield RULE.finding(script, call, _KEPT_STEP, effort=MEDIUM)
    for node in uses.unclear:
        message = "the code uses a member that only a GradScaler has, and bfloat16 needs no loss scaling: remove it"
        yield RULE.finding(script, node, message, effort=MEDIUM)
    if not all(is_disabled(creation) for creation in uses.creations):
        yield from _clipped_while_scaled(script, uses)
    yield from _subclasses(script)


def _clipped_while_scaled(script: Script, uses: Uses) -> Iterator[Finding]:
    message = "on CUDA the clipping applies to scaled gradients, because nothing unscales them first, and on XLA to unscaled ones: check the limit, and if `scaler.unscale_(optimizer)` is missing in the original, add it"
    for call in clipped(script, uses):
        yield RULE.finding(script, call, message)._replace(outlasts=True)


@RULE.call(*MAKERS)
def created(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    if uses_accelerate(script):
        if any(c.call is call and not is_disabled(c) for c in creations(script)):
            yield RULE.finding(script, call, _BESIDE_ACCELERATE, effort=MEDIUM)
        return
    uses = uses_of_scalers(script)
    is_tested = uses.asked(script, {branch for branch, _ in collapsed(script, uses.changes)})
    for creation in uses.creations:
        if creation.call is call and not is_disabled(creation):
            if keeps_scalers(script):
                yield RULE.finding(script, call, _MESSAGE)
            elif is_tested or _is_needed(script, creation, uses):
                yield RULE.finding(script, call, _IDLE, *_idle(script, call))
            else:
                yield RULE.finding(script, call, _MESSAGE, *_without(script, creation, uses))


@RULE.reference(*MAKERS)
def handed_on(script: Script, node: ast.expr, scope: Scope) -> Iterator[Finding]:
    """`make = partial(GradScaler, enabled=amp)`."""
    if not is_handed_on(node, script.parents):
        return
    if uses_accelerate(script):
        yield RULE.finding(script, node, _BESIDE_ACCELERATE, effort=MEDIUM)
    elif (script.dotted(node, scope) or "").startswith(_OF_TORCH):
        yield RULE.finding(script, node, _IDLE, Replace(node, f"{script.xla}.GradScaler"))
    else:
        yield RULE.finding(script, node, _MESSAGE, effort=MEDIUM)


_OF_TORCH = ("torch.GradScaler", "torch.amp.", "torch.cuda.amp.")


def _is_needed(script: Script, creation: Creation, uses: Uses) -> bool:
    """Return True if something remains that needs a scaler."""
    is_for_others = uses.handed_out or uses.is_for_others(script, creation)
    return uses.saved or is_for_others or _is_given(script, creation)


def _without(script: Script, creation: Creation, uses: Uses) -> Iterator[Edit]:
    """What becomes of `GradScaler(...)` if nothing needs it: `None`, or nothing."""
    if creation.statement is None or uses.passed:
        yield Replace(creation.whole, "None")
    else:
        yield remove(creation.statement)
        yield from (remove(statement) for statement in idle_bindings(script, creation))


_PARAMETERS = ("init_scale", "growth_factor", "backoff_factor", "growth_interval", "enabled")


def _idle(script: Script, call: ast.Call) -> Iterator[Edit]:
    """Return the runtime's scaler, with the same arguments except devices and groups."""
    maker = script.dotted(call.func) or ""
    positional = list(call.args)
    if positional and not maker.startswith(("torch.cuda", "torch_xla", "fairscale")):
        positional.pop(0)  # the device
    if any(isinstance(a, ast.Starred) for a in positional):
        return
    names = list(_PARAMETERS)
    if maker.startswith("torch.distributed"):
        names[1:3] = "backoff_factor", "growth_factor"
    given = [*zip(names, positional, strict=False)]
    given += [(k.arg or "", k.value) for k in call.keywords if k.arg in (*_PARAMETERS, None)]
    text = ", ".join(
        f"{name}={{{i}}}" if name else f"**{{{i}}}" for i, (name, _) in enumerate(given)
    )
    yield Replace(call, f"{script.xla}.GradScaler({text})", tuple(value for _, value in given))


def _is_given(script: Script, creation: Creation) -> bool:
    """True if it is made for what this file does not show: `Trainer(scaler=GradScaler())`, `{"scaler": GradScaler()}`."""
    around = script.parent(creation.whole)
    if isinstance(around, ast.Assign) and isinstance(around.targets[0], ast.Subscript):
        return True
    if isinstance(around, ast.Dict) or (
        creation.statement is None and _is_one_of_several(script, around)
    ):
        return True
    call = call_with(script, creation.whole)
    return call is not None and script.value(call.func).definition is None


def _is_one_of_several(script: Script, around: ast.AST | None) -> bool:
    """True if what stands directly in `around` is an element, and something may be done with all of them."""
    if isinstance(around, (ast.Tuple, ast.List)):
        above = script.parent(around)
        unpacked = above.targets if isinstance(above, ast.Assign) else []
        return not any(isinstance(target, (ast.Tuple, ast.List)) for target in unpacked)
    return isinstance(around, (ast.ListComp, ast.DictComp, ast.SetComp, ast.GeneratorExp))


def _subclasses(script: Script) -> Iterator[Finding]:
    for definition, scope in script.index.of(ast.ClassDef):
        if SCALER in script.inference.base_kind(definition, scope):
            message = "the class wraps a GradScaler, and bfloat16 needs no loss scaling: call the optimizer directly"
            yield RULE.finding(script, definition, message, effort=MEDIUM)
