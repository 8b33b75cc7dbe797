"""The state of CUDA's random generators is empty on an XLA host, or fails.

## What it reports

`torch.cuda.get_rng_state`, `set_rng_state` and their variants, `torch.random.fork_rng`, and
`get_device_states` of `torch.utils.checkpoint`.

## Why it matters on XLA

`get_rng_state_all()` returns an empty list, and `set_rng_state` does nothing. A resumed run
silently draws different numbers. `fork_rng` raises an exception for XLA (fact 1.3).

## What to do

Fix: safe.

Use the runtime's functions of the same names.

## Example

```diff
 import torch
+from xla_migrate import runtime as xla

 def snapshot():
     return {
         "cpu": torch.get_rng_state(),
-        "cuda": torch.cuda.get_rng_state_all(),
+        "cuda": xla.get_rng_state_all(),
     }

 def restore(state):
     torch.set_rng_state(state["cpu"])
-    torch.cuda.set_rng_state_all(state["cuda"])
+    xla.set_rng_state_all(state["cuda"])
```

`fork_rng`:

```diff
 import torch
+from xla_migrate import runtime as xla

 def draw(n, device):
-    with torch.random.fork_rng(devices=[0]):
+    with xla.fork_rng(devices=[0]):
         return torch.rand(n).to(device)
```

Functions that let reversible layers draw the same numbers again:

```diff
 import torch
-from torch.utils.checkpoint import get_device_states, set_device_states
+from xla_migrate import runtime as xla

 class Deterministic(torch.nn.Module):
     def record(self, *args):
-        if torch.cuda._initialized:
+        if xla.is_initialized():
-            self.devices, self.states = get_device_states(*args)
+            self.devices, self.states = [xla.xla_device()], [xla.get_rng_state()]

     def again(self, *args):
-        with torch.random.fork_rng(devices=self.devices, enabled=True):
+        with xla.fork_rng(devices=self.devices, enabled=True):
-            set_device_states(self.devices, self.states)
+            for state in self.states:
+                xla.set_rng_state(state)
             return self.net(*args)
```

The CPU's state is not reported:

```python
import torch

def host_only(n):
    state = torch.get_rng_state()
    with torch.random.fork_rng(devices=[]):
        numbers = torch.rand(n)
    torch.set_rng_state(state)
    return numbers
```

## See also

XLA124
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...analysis.scopes import Scope
from ...analysis.script import Script
from ...analysis.syntax import keyword
from ...edits import DropArgument, Edit, Replace, ReplaceStatement
from ...finding import Finding
from ...rule import Rule
from ...symptoms import LIKELY

RULE = Rule("XLA130", "rng-state", behind={"initial weights": LIKELY, "same data": LIKELY})

_HOMES = ("torch.cuda", "torch.cuda.random")
_STATES = tuple(
    f"{home}.{name}"
    for home in _HOMES
    for name in ("get_rng_state", "set_rng_state", "get_rng_state_all", "set_rng_state_all")
)
_OF_DEVICES = "the function fails on XLA tensors: use `xla.get_rng_state` and `xla.set_rng_state`"
_MESSAGE = "the call uses the random state of CUDA, not of XLA: use `xla.{}`"


@RULE.call(*_STATES)
def rng_state(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    name = (script.dotted(call.func, scope) or "").rpartition(".")[2]
    edits: list[Edit] = [Replace(call.func, f"{script.xla}.{name}")]
    device: ast.expr | ast.keyword | None = next(
        (k for k in call.keywords if k.arg == "device"), None
    )
    at = 1 if name == "set_rng_state" else 0
    if device is None and not name.endswith("_all") and len(call.args) > at:
        device = call.args[at]
    if device is not None:
        value = device.value if isinstance(device, ast.keyword) else device
        spec = script.devices.spec(value)
        if spec is not None and isinstance(spec.ordinal, ast.expr):
            edits.append(Replace(value, "{0}", (spec.ordinal,)))  # each device has its own state
        elif script.devices.is_current(value) or spec is not None:
            edits.append(DropArgument(call, device))
    yield RULE.finding(script, call, _MESSAGE.format(name), *edits)


@RULE.reference(*_STATES)
def rng_state_itself(script: Script, node: ast.expr, scope: Scope) -> Iterator[Finding]:
    name = (script.dotted(node, scope) or "").rpartition(".")[2]
    yield RULE.finding(script, node, _MESSAGE.format(name), Replace(node, f"{script.xla}.{name}"))


@RULE.call("torch.utils.checkpoint.get_device_states")
def device_states(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    """It asks torch for a module of the device's kind, which XLA has none of."""
    text = f"[{script.xla}.xla_device()], [{script.xla}.get_rng_state()]"
    if not isinstance(script.parent(call), (ast.Assign, ast.Return)):
        text = f"({text})"
    yield RULE.finding(script, call, _OF_DEVICES, Replace(call, text))


@RULE.call("torch.utils.checkpoint.set_device_states")
def set_device_states(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    states = call.args[1] if len(call.args) > 1 else keyword(call, "states")
    if states is None or not script.is_statement(call):
        yield RULE.finding(script, call, _OF_DEVICES)
        return
    name = next(n for n in ("state", "saved", "_state") if scope.find(n) is None)
    text = f"for {name} in {{0}}:\n    {script.xla}.set_rng_state({name})"
    edit = ReplaceStatement(script.statement(call), text, (states,))
    yield RULE.finding(script, call, _OF_DEVICES, edit)


@RULE.call("torch.random.fork_rng")
def fork_rng(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    devices = call.args[0] if call.args else keyword(call, "devices")
    if isinstance(devices, (ast.List, ast.Tuple)) and not devices.elts:
        return
    kind = next((k for k in call.keywords if k.arg == "device_type"), None)
    if kind is not None and script.devices.spec(kind.value) is None:
        return
    if not (script.trains or script.runs_accelerated):
        return
    edits: list[Edit] = [Replace(call.func, f"{script.xla}.fork_rng")]
    if kind is not None:
        edits.append(DropArgument(call, kind))
    yield RULE.finding(script, call, _MESSAGE.format("fork_rng"), *edits)
