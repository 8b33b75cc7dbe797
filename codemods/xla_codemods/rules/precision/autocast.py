"""CUDA's autocast has no effect on XLA tensors.

## What it reports

`torch.autocast("cuda")`, `torch.cuda.amp.autocast()` and autocast of a device that may be CUDA.

## Why it matters on XLA

XLA tensors stay in float32, without a warning (fact 1.71).

## What to do

Fix: safe.

Use `xla.autocast()`, the autocast of the accelerator. It computes in bfloat16, even if float16 was
requested. TPUs and Trainium support bfloat16 in hardware, and it needs no loss scaling. On CUDA it
computes in bfloat16, too. GPUs without bfloat16 compute in float16, with a warning.

## Example

```diff
 import torch
-from torch.cuda.amp import autocast
+from xla_migrate import runtime as xla

 def forward(model, x, amp):
-    with autocast():
+    with xla.autocast():
         y = model(x)
-    with torch.autocast(device_type="cuda", dtype=torch.float16, enabled=amp):
+    with xla.autocast(dtype=torch.bfloat16, enabled=amp):
         z = model(y)
-    with torch.cuda.amp.autocast(amp):
+    with xla.autocast(enabled=amp):
         return model(z)
```

`xla.autocast` accepts variables: "cuda" means the accelerator and float16 means bfloat16:

```diff
 import torch
 from contextlib import nullcontext
+from xla_migrate import runtime as xla

 def context(device_type, dtype):
-    return nullcontext() if device_type == "cpu" else torch.amp.autocast(device_type=device_type, dtype=dtype)
+    return nullcontext() if device_type == "cpu" else xla.autocast(device_type=device_type, dtype=dtype)
```

The function is replaced as a value, too:

```diff
 import torch
 from contextlib import suppress
+from xla_migrate import runtime as xla

 def get_autocast(precision):
     if precision == "amp":
-        return torch.cuda.amp.autocast
+        return xla.autocast
-    return (lambda: torch.cuda.amp.autocast(dtype=torch.bfloat16)) if precision == "bf16" else suppress
+    return (lambda: xla.autocast(dtype=torch.bfloat16)) if precision == "bf16" else suppress
```

Autocast on the CPU is not reported. Autocast of a tensor's device is not reported if it is off or
if its data type is given:

```python
import torch

def forward(model, x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        x = model(x)
    with torch.autocast(x.device.type, enabled=False):
        return model(x)
```

Autocast of a tensor's device without a data type is float16 on CUDA, which needs loss scaling:

```diff
 import torch
+from xla_migrate import runtime as xla

 def step(model, x, optimizer, scaler):
-    with torch.autocast(x.device.type):
+    with xla.autocast(x.device.type):
         loss = model(x).mean()
-    scaler.scale(loss).backward()
-    scaler.step(optimizer)
-    scaler.update()
+    loss.backward()
+    xla.optimizer_step(optimizer)
+    xla.mark_step()
```

## See also

XLA204
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...analysis.scopes import Scope
from ...analysis.script import Script
from ...analysis.syntax import is_cuda_string, is_handed_on, is_literal, keyword, text_of
from ...analysis.training.tensors.kept_half import bfloat16_for
from ...edits import AddArgument, DropArgument, Edit, Replace
from ...finding import Finding
from ...rule import Rule

RULE = Rule("XLA201", "autocast", of_step="precision")

_CUDA = ("torch.cuda.amp.autocast", "torch.cuda.amp.autocast_mode.autocast")
_ANY = ("torch.autocast", "torch.amp.autocast", "torch.amp.autocast_mode.autocast")
_CUDA_ORDER = ("enabled", "dtype", "cache_enabled")
_ANY_ORDER = ("device_type", "dtype", "enabled", "cache_enabled")
_MESSAGE = "autocast for CUDA leaves XLA tensors in float32 without a warning: use `xla.autocast`"
_OFF = "the call switches off only CUDA's autocast, and XLA's stays on: use `xla.autocast`"
_RIGHT = frozenset({"torch.bfloat16", "torch.float32"})
_OTHERS = frozenset({"cpu", "mps", "xpu", "hpu", "npu", "mtia", "meta", "xla"})


@RULE.call(*_CUDA)
def of_cuda(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    edits = [
        Replace(call.func, f"{script.xla}.autocast"),
        *_arguments(script, call, scope, _CUDA_ORDER),
    ]
    yield RULE.finding(script, call, _message(call, _CUDA_ORDER), *edits)


@RULE.call(*_ANY)
def of_any_device(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    if _is_right_as_it_is(script, call, scope):
        return
    edits = [
        Replace(call.func, f"{script.xla}.autocast"),
        *_arguments(script, call, scope, _ANY_ORDER),
    ]
    yield RULE.finding(script, call, _message(call, _ANY_ORDER), *edits)


def _message(call: ast.Call, order: tuple[str, ...], first: int = 0) -> str:
    """What happens on XLA; with `enabled=False`, which is for what must not run in half precision."""
    place = first + order.index("enabled")
    enabled = call.args[place] if len(call.args) > place else keyword(call, "enabled")
    is_off = is_literal(enabled, False)
    return _OFF if is_off else _MESSAGE


@RULE.call("functools.partial")
def partial(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    """`partial(torch.autocast, "cuda", dtype=...)`: a call whose first argument is the callee."""
    callee = script.dotted(call.args[0], scope) if call.args else None
    if callee not in _CUDA and callee not in _ANY:
        return
    order = _CUDA_ORDER if callee in _CUDA else _ANY_ORDER
    device = call.args[1] if len(call.args) > 1 else keyword(call, "device_type")
    if order is _ANY_ORDER and isinstance(device, ast.Constant) and device.value in _OTHERS:
        return
    edits = _arguments(script, call, scope, order, first=1)
    yield RULE.finding(
        script,
        call,
        _message(call, order, first=1),
        Replace(call.args[0], f"{script.xla}.autocast"),
        *edits,
    )


@RULE.reference(*_CUDA, *_ANY)
def uncalled(script: Script, node: ast.expr, scope: Scope) -> Iterator[Finding]:
    """`context = torch.cuda.amp.autocast if amp else nullcontext`; the runtime's also accepts `context(True)`."""
    parent = script.parent(node)
    if not is_handed_on(node, script.parents):
        return
    if isinstance(parent, ast.Call) and script.dotted(parent.func, scope) == "functools.partial":
        return  # dealt with above
    yield RULE.finding(script, node, _MESSAGE, Replace(node, f"{script.xla}.autocast"))


def _arguments(
    script: Script, call: ast.Call, scope: Scope, order: tuple[str, ...], first: int = 0
) -> Iterator[Edit]:
    """Arguments as `xla.autocast(device_type, dtype, enabled, cache_enabled)` takes them.

    Those given by position keep their place where everything before them does; "cuda" is not needed.
    """
    kept = order is _ANY_ORDER
    for name, argument in zip(order, call.args[first:]):
        if isinstance(argument, ast.Starred):
            return
        new = bfloat16_for(script, argument, scope) if name == "dtype" else None
        if name == "device_type" and _is_cuda(argument):
            kept = False
            yield DropArgument(call, argument)
        elif kept:
            if new is not None:
                yield Replace(argument, new)
        else:
            yield DropArgument(call, argument)
            if new is not None:
                yield AddArgument(call, f"{name}={new}")
            else:
                yield AddArgument(call, f"{name}={{0}}", (argument,))
    for given in call.keywords:
        if given.arg == "device_type" and _is_cuda(given.value):
            yield DropArgument(call, given)
        elif given.arg in {"dtype", "fast_dtype"}:
            new = bfloat16_for(script, given.value, scope)
            if new is not None:
                yield Replace(given.value, new)


def _is_right_as_it_is(script: Script, call: ast.Call, scope: Scope) -> bool:
    """Another device's autocast, or that of whatever device a tensor is on (`x.device.type`), in a type that is right
    on XLA too, and in training on CUDA without loss scaling.
    """
    device = call.args[0] if call.args else keyword(call, "device_type")
    if isinstance(device, ast.Constant):
        return device.value in _OTHERS
    dtype = call.args[1] if len(call.args) > 1 else keyword(call, "dtype")
    if dtype is not None and script.dotted(dtype, scope) not in _RIGHT:
        return False
    if dtype is None and script.is_trained and not _is_off(call):
        return False  # CUDA's own type is float16, and the runtime scales no losses
    if isinstance(device, ast.Name) and not script.value(device, scope).kinds:
        bindings = script.bindings(device)
        return bool(bindings) and all(b.how == "parameter" or _is_type(b.value) for b in bindings)
    return _is_type(device)


def _is_off(call: ast.Call) -> bool:
    """`enabled=False`."""
    enabled = call.args[2] if len(call.args) > 2 else keyword(call, "enabled")
    return is_literal(enabled, False)


def _is_type(node: ast.expr | None) -> bool:
    """`x.device.type`."""
    return isinstance(node, ast.Attribute) and node.attr == "type"


def _is_cuda(node: ast.expr) -> bool:
    return is_cuda_string(text_of(node) or "")
