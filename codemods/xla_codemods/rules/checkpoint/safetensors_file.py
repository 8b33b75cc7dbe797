"""safetensors writes only CPU tensors.

## What it reports

`save_file` with tensors on the device, and `load_file` with a CUDA device.

## Why it matters on XLA

`save_file` needs the address of each tensor, which XLA tensors do not have. A CUDA device does
not exist on an XLA host.

## What to do

Fix: safe.

Save copies on the CPU. Load with `device=xla.device_type()`.

## Example

```diff
 import torch
 from safetensors.torch import load_file, save_file
+from xla_migrate import runtime as xla

 def keep(model, path, device):
-    save_file(model.state_dict(), path)
+    save_file({k: v.cpu() for k, v in model.state_dict().items()}, path)
-    return load_file(path, device="cuda")
+    return load_file(path, device=xla.device_type())
```

```python
import torch
from safetensors.torch import load_file, save_file

def keep(tensors, path, device):
    save_file({name: tensor.cpu() for name, tensor in tensors.items()}, path)
    return load_file(path, device="cpu")
```
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...analysis.scopes import Scope
from ...analysis.script import Script
from ...analysis.syntax import keyword
from ...edits import Replace
from ...finding import MEDIUM, Finding
from ...patterns import Pattern
from ...rule import Rule

RULE = Rule("XLA707", "safetensors-file")


@RULE.call("safetensors.torch.save_file", "safetensors.torch.save")
def save_file(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    tensors = call.args[0] if call.args else keyword(call, "tensors")
    if tensors is None or not script.accelerated or ".cpu()" in script.segment(tensors):
        return
    on_host = isinstance(tensors, ast.Name) and _has_host_copy(script, tensors)
    named = isinstance(tensors, ast.Name) and not on_host
    if named or _is_state_dict(tensors) or _is_made_of_states(script, tensors):
        edit = Replace(tensors, "{{k: v.cpu() for k, v in {0}.items()}}", (tensors,))
        yield RULE.finding(
            script, call, "safetensors fails on XLA tensors: move them to the CPU first", edit
        )


@RULE.call("safetensors.torch.save_model", "safetensors.torch.load_model")
def whole_model(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    if script.accelerated:
        message = "safetensors fails on XLA tensors: use save_file and load_file with a state dict on the CPU"
        yield RULE.finding(script, call, message, effort=MEDIUM)


@RULE.call("safetensors.torch.load_file", "safetensors.safe_open")
def load_file(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    device = keyword(call, "device")
    if device is None and len(call.args) > 1:
        device = call.args[-1]
    branches = [device.body, device.orelse] if isinstance(device, ast.IfExp) else [device]
    for branch in branches:
        if branch is not None and script.devices.spec(branch) is not None:
            edit = Replace(branch, f"{script.xla}.device_type()")
            yield RULE.finding(
                script, branch, "a CUDA device fails on an XLA host: load to the CPU", edit
            )


def _is_state_dict(node: ast.expr) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "state_dict"
    )


def _is_made_of_states(script: Script, node: ast.expr) -> bool:
    """`{k: v.contiguous() for k, v in model.state_dict().items()}`, `{"head": model.head.weight}`."""
    written = isinstance(node, (ast.Dict, ast.DictComp)) or (
        isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "dict"
    )
    text = script.segment(node)
    return written and _OF_STATES.search(text) is not None and ".cpu()" not in text


_OF_STATES = Pattern(r"\.(?:state_dict|(?:named_)?parameters)\(|\.(?:weight|bias)\b")


def _has_host_copy(script: Script, node: ast.Name) -> bool:
    """True if the name is bound to something that already went to the CPU, or to nothing that is seen."""
    values = [b.value for b in script.bindings(node) if b.value is not None]
    return not values or any(
        ".cpu()" in script.segment(value)
        or not (_is_state_dict(value) or _is_made_of_states(script, value))
        for value in values
    )
