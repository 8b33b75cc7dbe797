"""bfloat16 needs no loss scaling.

Gradients in float16 underflow, so CUDA scripts scale the loss up. bfloat16 has float32's range: the scaler has nothing
to do there, and on XLA it costs a host sync per step (fact 1.73), while its `step` reduces no gradients over
replicas (1.74). Autocast computes in bfloat16 (XLA201), so all that belongs to the scaler goes: scaling, unscaling, its
update.

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

A scaler whose state is in checkpoints stays there: `xla.GradScaler` scales nothing, and keeps what the CUDA script saved, so
that each of the two scripts resumes from the other's checkpoints.

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

Where a scaler is handed on to functions of the same file it becomes `None`, and an `if` that chose between scaling
and not scaling goes, with its test:

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

Where having one says that mixed precision is on, or code of another file gets it, it stays as `xla.GradScaler`, too.

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

No step is ever skipped, which is what comparing the scale before and after asks:

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

Gradients that are clipped and that nothing has unscaled are clipped while they are scaled, tens of thousands of times too
large: nearly all of them. Without a scaler the limit is met as it is written, so such a place is named.

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

Scalers of other libraries are left alone.

```python
import torch
from sklearn.preprocessing import StandardScaler

def normalise(x):
    scaler = StandardScaler()
    scaler.fit(x)
    return torch.tensor(scaler.transform(x))
```
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...analysis.frameworks.accelerator import uses_accelerate
from ...analysis.inference.values import SCALER
from ...analysis.syntax import is_handed_on
from ...analysis.training.scalers.branches import collapsed
from ...analysis.training.scalers.creations import MAKERS, Creation, creations, idle_bindings
from ...analysis.training.scalers.scaled_gradients import clipped
from ...analysis.training.scalers.uses import Uses, classify
from ...edits import Edit, Replace, remove
from ...finding import MEDIUM, WARNING, Finding
from ...rule import Rule
from ...symptoms import REMOTE

if TYPE_CHECKING:
    from ...analysis.scopes import Scope
    from ...analysis.script import Script

RULE = Rule(
    "XLA204", "grad-scaler", of_step="precision", severity=WARNING, behind={"host reads": REMOTE}
)

_MESSAGE = "a GradScaler costs one device read in every step on XLA, and bfloat16 needs no loss scaling: remove it"
_BESIDE_ACCELERATE = (
    "this GradScaler scales losses on XLA, too, and costs one device read in every step: ask accelerate for bfloat16, "
    "which needs none, and remove it"
)
_WORDS = ("caler", ".scale(", ".unscale_(")


@RULE.file
def used(script: Script) -> Iterator[Finding]:
    """What is done with scalers, and the branches that have nothing left to decide."""
    if not script.source.mentions("scale") or uses_accelerate(script):
        return
    if not any(word in script.source.text for word in _WORDS):
        return
    uses = classify(script)
    for node, edits in uses.fixed:
        yield RULE.finding(script, node, _MESSAGE, *edits)
    for branch, edit in collapsed(script, uses.changes):
        yield RULE.finding(
            script, branch, "without loss scaling both branches are the same: keep one", edit
        )
    for node in uses.unclear:
        message = (
            "this uses what only a GradScaler has, and bfloat16 needs no loss scaling: remove this"
        )
        yield RULE.finding(script, node, message, effort=MEDIUM)
    if not all(_is_disabled(creation) for creation in uses.creations):
        yield from _clipped_while_scaled(script, uses)
    yield from _subclasses(script)


def _clipped_while_scaled(script: Script, uses: Uses) -> Iterator[Finding]:
    message = (
        "CUDA clips gradients here that are scaled, since nothing has unscaled them, and XLA clips them as they are, which"
        " is far less: check the limit, and write `scaler.unscale_(optimizer)` before it if that was forgotten"
    )
    for call in clipped(script, uses):
        yield RULE.finding(script, call, message)._replace(outlasts=True)


@RULE.call(*MAKERS)
def created(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    if uses_accelerate(script):
        if any(c.call is call and not _is_disabled(c) for c in creations(script)):
            yield RULE.finding(script, call, _BESIDE_ACCELERATE, effort=MEDIUM)
        return
    uses = classify(script)
    asked = uses.asked(script, {branch for branch, _ in collapsed(script, uses.changes)})
    for creation in uses.creations:
        if creation.call is call and not _is_disabled(creation):
            yield RULE.finding(script, call, _MESSAGE, *_without(script, creation, uses, asked))


@RULE.reference(*MAKERS)
def handed_on(script: Script, node: ast.expr, scope: Scope) -> Iterator[Finding]:
    """`make = partial(GradScaler, enabled=amp)`."""
    if is_handed_on(node, script.parents):
        message = _BESIDE_ACCELERATE if uses_accelerate(script) else _MESSAGE
        yield RULE.finding(script, node, message, effort=MEDIUM)


def _without(script: Script, creation: Creation, uses: Uses, asked: bool) -> Iterator[Edit]:
    """What becomes of `GradScaler(...)`: one that scales nothing, `None`, or nothing."""
    if uses.unclear:
        return
    if (
        asked
        or uses.saved
        or uses.handed_out
        or uses.is_for_others(script, creation)
        or _is_given(script, creation)
    ):
        yield from _idle(script, creation.call)
    elif creation.statement is None or uses.passed:
        yield Replace(creation.whole, "None")
    else:
        yield remove(creation.statement)
        yield from (remove(statement) for statement in idle_bindings(script, creation))


_PARAMETERS = ("init_scale", "growth_factor", "backoff_factor", "growth_interval", "enabled")


def _idle(script: Script, call: ast.Call) -> Iterator[Edit]:
    """The runtime's scaler, with the same arguments but for devices and groups."""
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
    call = script.parent(around) if isinstance(around, ast.keyword) else around
    return isinstance(call, ast.Call) and script.value(call.func).definition is None


def _is_one_of_several(script: Script, around: ast.AST | None) -> bool:
    """True if what stands directly in `around` is an element, and something may be done with all of them."""
    if isinstance(around, (ast.Tuple, ast.List)):
        above = script.parent(around)
        unpacked = above.targets if isinstance(above, ast.Assign) else []
        return not any(isinstance(target, (ast.Tuple, ast.List)) for target in unpacked)
    return isinstance(around, (ast.ListComp, ast.DictComp, ast.SetComp, ast.GeneratorExp))


def _is_disabled(creation: Creation) -> bool:
    """True if it is switched off in so many words."""
    match creation.call:
        case ast.Call(
            args=[], keywords=[ast.keyword(arg="enabled", value=ast.Constant(value=False))]
        ):
            return True
    return False


def _subclasses(script: Script) -> Iterator[Finding]:
    for definition, scope in script.index.of(ast.ClassDef):
        if SCALER in script.inference.base_kind(definition, scope):
            message = "this class wraps a GradScaler, and bfloat16 needs no loss scaling: call the optimizer instead of it"
            yield RULE.finding(script, definition, message, effort=MEDIUM)
