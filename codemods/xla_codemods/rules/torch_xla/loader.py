"""Device loaders of torch_xla.

## What it reports

`pl.MpDeviceLoader` and `pl.ParallelLoader`, in runs with `--from torch_xla`.

## Why it matters on XLA

They run with torch_xla only. torch_xla's loader ends the epoch silently if the dataset raises an
exception (fact 1.82).

## What to do

Fix: safe, or none.

Use `xla.MpDeviceLoader`. It has the same arguments, marks a step after each batch, raises the
dataset's exceptions, and keeps the types of batches and the loader's attributes.

## Example

```diff
-import torch_xla
-import torch_xla.distributed.parallel_loader as pl
+from xla_migrate import runtime as xla

 def train(loader):
-    for x, y in pl.MpDeviceLoader(loader, torch_xla.device(), batches_per_execution=2):
+    for x, y in xla.MpDeviceLoader(loader, xla.xla_device(), batches_per_execution=2):
         yield x, y
```

A `ParallelLoader` over one device with one pass:

```diff
-import torch_xla.core.xla_model as xm
-import torch_xla.distributed.parallel_loader as pl
+from xla_migrate import runtime as xla

 def main(loader, train, epochs):
-    device = xm.xla_device()
+    device = xla.xla_device()
     for _ in range(epochs):
-        para_loader = pl.ParallelLoader(loader, [device])
-        train(para_loader.per_device_loader(device))
+        para_loader = xla.MpDeviceLoader(loader, device)
+        train(para_loader)
     for x in range(epochs):
-        train(pl.ParallelLoader(loader, [device]).per_device_loader(device))
+        train(xla.MpDeviceLoader(loader, device))
```

A loader with several passes is reported without a fix. With torch_xla its second pass would be
empty:

```python
import torch_xla.distributed.parallel_loader as pl

def main(loader, device, train):
    para_loader = pl.ParallelLoader(loader, [device])  # XLA014
    for _ in range(2):
        train(para_loader.per_device_loader(device))
```
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...analysis.by_hand.written import KEPT, is_refused, renamed
from ...analysis.nodes import walk
from ...analysis.scopes import Scope
from ...analysis.script import Script
from ...edits import Edit, RenameArgument, Replace
from ...finding import WARNING, Finding
from ...rule import Rule

RULE = Rule("XLA014", "torch-xla-loader", severity=WARNING, origin="torch_xla")

_HOME = "torch_xla.distributed.parallel_loader"
_SAME = "the loader runs with torch_xla only: use `xla.MpDeviceLoader`, which is the same there"


@RULE.call(f"{_HOME}.MpDeviceLoader")
def device_loader(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    if is_refused(script, call):
        yield RULE.finding(script, call, f"torch_xla 2.9 does not accept these arguments: {KEPT}")
    else:
        yield RULE.finding(script, call, _SAME, renamed(script, call, "MpDeviceLoader"))


@RULE.reference(f"{_HOME}.MpDeviceLoader")
def uncalled(script: Script, node: ast.expr, scope: Scope) -> Iterator[Finding]:
    """`isinstance(loader, pl.MpDeviceLoader)`, `partial(pl.MpDeviceLoader, device=device)`."""
    if isinstance(getattr(node, "ctx", None), ast.Load):
        edit = Replace(node, f"{script.xla}.MpDeviceLoader")
        yield RULE.finding(script, node, _SAME, edit)


@RULE.call(f"{_HOME}.ParallelLoader")
def parallel_loader(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    device = _one_device(call)
    passed = _one_pass(script, call) if device is not None else None
    if is_refused(script, call):
        yield RULE.finding(script, call, f"torch_xla 2.9 does not accept these arguments: {KEPT}")
        return
    if device is None or passed is None:
        message = f"the ParallelLoader has several devices, or several passes: {KEPT}"
        yield RULE.finding(script, call, message)
        return
    edits: list[Edit] = [renamed(script, call, "MpDeviceLoader")]
    edits += _with_device(call, device)
    edits.append(Replace(passed, "{0}", (passed.func.value,)))  # type: ignore[attr-defined]
    yield RULE.finding(script, call, _SAME, *edits)


def _one_device(call: ast.Call) -> ast.expr | None:
    """The one that the loader is for: `[device]`."""
    if not call.args or any(isinstance(a, ast.Starred) for a in call.args) or len(call.args) > 2:
        return None
    listed = call.args[1] if len(call.args) > 1 else None
    for given in call.keywords:
        if given.arg is None or given.arg == "cpu_loader":
            return None
        if given.arg == "devices":
            listed = given.value
    if isinstance(listed, (ast.List, ast.Tuple)) and len(listed.elts) == 1:
        return None if isinstance(listed.elts[0], ast.Starred) else listed.elts[0]
    return None


def _with_device(call: ast.Call, device: ast.expr) -> list[Edit]:
    if len(call.args) > 1:
        return [Replace(call.args[1], "{0}", (device,))]
    listed = next(k for k in call.keywords if k.arg == "devices")
    return [Replace(listed.value, "{0}", (device,)), RenameArgument(call, listed, "device")]


def _one_pass(script: Script, call: ast.Call) -> ast.Call | None:
    """Return the only call of `per_device_loader(...)` on the result of `call`; None if there may be others."""
    parent = script.parent(call)
    if isinstance(parent, ast.Attribute):
        return _pass_of(script, parent)
    if not (
        isinstance(parent, ast.Assign)
        and len(parent.targets) == 1
        and isinstance(parent.targets[0], ast.Name)
    ):
        return None
    around = script.function(call) or script.tree
    name = parent.targets[0].id
    uses = [n for n in walk(around) if isinstance(n, ast.Name) and n.id == name]
    uses.sort(key=lambda n: (n.lineno, n.col_offset))
    place = uses.index(parent.targets[0])
    # Written and read by turns, in the same block: each is read once.
    if any(isinstance(n.ctx, ast.Load) is (k % 2 == 0) for k, n in enumerate(uses)):
        return None
    if len(uses) % 2 or place + 1 >= len(uses) or script.is_imported_elsewhere(name):
        return None
    read = script.parent(uses[place + 1])
    if not isinstance(read, ast.Attribute) or not _is_beside(script, parent, read):
        return None
    return _pass_of(script, read)


def _is_beside(script: Script, made: ast.stmt, read: ast.expr) -> bool:
    """Return True if `read` is in a statement next to `made`, not in a loop; the head of a `for` counts."""
    statement = script.statement(read)
    if isinstance(statement, ast.While):
        return False
    comprehensions = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.Lambda)
    for around in script.ancestors(read):
        if around is statement:
            break
        if isinstance(around, comprehensions):
            return False
    return statement in script.block(made)


def _pass_of(script: Script, attribute: ast.Attribute) -> ast.Call | None:
    call = script.parent(attribute)
    if attribute.attr != "per_device_loader" or not isinstance(call, ast.Call):
        return None
    return call if call.func is attribute else None
