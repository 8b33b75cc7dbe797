"""`torch.distributed.checkpoint.async_save` cannot copy XLA tensors.

## What it reports

`async_save` of a state that contains XLA tensors.

## Why it matters on XLA

It copies tensors to host memory through their storage, which XLA tensors do not have. The first
checkpoint fails, possibly after hours of training.

## What to do

Fix: safe, or none.

Use `save`, which writes the same files while training waits.

## Example

```diff
 import torch
 import torch.distributed.checkpoint as dcp
+from xla_migrate import runtime as xla

 def train(model, steps):
-    model.cuda()
+    model.to(xla.xla_device())
     for step in range(steps):
-        dcp.async_save({"model": model.state_dict()}, checkpoint_id=f"out/{step}")
+        dcp.save({"model": model.state_dict()}, checkpoint_id=f"out/{step}")
```

If the script keeps the future or passes options, the call is reported without a fix. Tensors on
the CPU are saved in the background as before:

```python
import torch.distributed.checkpoint as dcp
from xla_migrate import runtime as xla

def keep(model, path):
    model.to(xla.xla_device())
    future = dcp.async_save({"model": model.state_dict()}, checkpoint_id=path)  # XLA709
    on_host = {name: tensor.cpu() for name, tensor in model.state_dict().items()}
    dcp.async_save(on_host, checkpoint_id=path)
    return future
```
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...analysis.scopes import Scope
from ...analysis.script import Script
from ...analysis.syntax import keyword
from ...edits import Replace
from ...finding import Finding
from ...patterns import Pattern
from ...rule import Rule

RULE = Rule("XLA709", "async-save")

_MODULE = "torch.distributed.checkpoint"
_SHARED = frozenset(
    {
        "state_dict",
        "checkpoint_id",
        "storage_writer",
        "planner",
        "process_group",
        "no_dist",
        "use_collectives",
    }
)
_TO_HOST = Pattern(r"""\.cpu\(|cpu_offload=True|\.to\(\s*(?:device=)?["']cpu""")
_MESSAGE = "`async_save` fails on XLA tensors at the first checkpoint: use `save`, or move the state dict to the CPU first"


@RULE.call(
    "torch.distributed.checkpoint.async_save",
    "torch.distributed.checkpoint.state_dict_saver.async_save",
)
def async_save(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    if _goes_to_the_host(script, call):
        return
    edit = None
    if script.is_statement(call) and all(k.arg in _SHARED for k in call.keywords):
        edit = _as_save(script, call.func, scope)
    yield RULE.finding(script, call, _MESSAGE, *([edit] if edit else []))


def _as_save(script: Script, func: ast.expr, scope: Scope) -> Replace | None:
    """Return `save` in place of `func`; None if the file does not import its module by a name, which `import torch` does not provide."""
    if isinstance(func, ast.Attribute) and script.dotted(func.value, scope) == _MODULE:
        return Replace(func, "{0}.save", (func.value,))
    written = script.spell(f"{_MODULE}.save", scope)
    if written == f"{_MODULE}.save":
        script.needed.add(_MODULE)
    elif "checkpoint." in written:
        return None
    return Replace(func, written)


def _goes_to_the_host(script: Script, call: ast.Call) -> bool:
    """True if the text of the state dict, or of what its name is bound to, moves the tensors to the CPU."""
    state = call.args[0] if call.args else keyword(call, "state_dict")
    if state is None:
        return False
    written = [state, *(b.value for b in script.bindings(state) if b.value is not None)]
    return any(_TO_HOST.search(script.segment(node)) for node in written)
