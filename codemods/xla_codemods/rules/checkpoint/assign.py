"""`load_state_dict(assign=True)` leaves parameters on the CPU.

## What it reports

`load_state_dict(..., assign=True)` of a model on the device.

## Why it matters on XLA

The parameters become the tensors of the checkpoint, which are on the CPU. Nothing fails until the
next operation (fact 1.47).

## What to do

Fix: unsafe.

Remove `assign`, so that the values are copied into the parameters. They are converted to the
parameters' data type, so the fix is unsafe. A model on the meta device needs `assign`: move it
afterwards.

## Example

```diff
 import torch
+from xla_migrate import runtime as xla

 def resume(model, path, device):
     model.to(device)
-    model.load_state_dict(torch.load(path), assign=True)
+    model.load_state_dict(xla.load(path))
```

```python
import torch

def build(make, path, device):
    with torch.device("meta"):
        model = make()
    model.load_state_dict(torch.load(path, map_location="cpu"), assign=True)
    return model.to(device)
```

## See also

XLA702
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...analysis.inference.values import DTYPE, HOST
from ...analysis.scopes import Scope
from ...analysis.script import Script
from ...analysis.syntax import keyword
from ...edits import DropArgument
from ...finding import UNSAFE, WARNING, Finding
from ...rule import Rule

RULE = Rule("XLA704", "assign", severity=WARNING)

_META = ("meta", "init_empty_weights", "to_empty")


@RULE.method("load_state_dict")
def assign(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    for argument in call.keywords:
        if argument.arg != "assign" or not isinstance(argument.value, ast.Constant):
            continue
        if argument.value.value is not True or not script.accelerated:
            continue
        state = call.args[0] if call.args else keyword(call, "state_dict")
        if _is_moved_before(script, state, call):
            continue
        if not any(word in script.source.text for word in _META):
            message = "with `assign=True` the parameters are on the CPU, as the checkpoint is: remove the argument, or load to the device"
            yield RULE.finding(script, call, message, DropArgument(call, argument), safety=UNSAFE)


def _is_moved_before(script: Script, state: ast.expr | None, call: ast.Call) -> bool:
    """True if each entry of `state` has been put on a device: `state[k] = v.to(device)`, `{k: v.to(device) for ...}`."""
    if isinstance(state, ast.DictComp):
        return _is_move(script, state.value)
    if not isinstance(state, ast.Name):
        return False
    function = script.function(call)
    scope = script.index.scope(state)
    for store, home in script.index.of(ast.Assign):
        if script.function(store) is not function or store.lineno > call.lineno:
            continue
        match store.targets:
            case [ast.Subscript(value=ast.Name(id=name))] if name == state.id:
                if any(isinstance(a, ast.For) for a in script.ancestors(store)):
                    if home is scope and _is_move(script, store.value):
                        return True
            case [ast.Name(id=name)] if name == state.id and isinstance(store.value, ast.DictComp):
                if _is_move(script, store.value.value):
                    return True
    return False


def _is_move(script: Script, node: ast.expr) -> bool:
    """`v.to(device)`, of a device that is not known to be the host."""
    match node:
        case ast.Call(func=ast.Attribute(attr="cuda")):
            return True
        case ast.Call(func=ast.Attribute(attr="to"), args=args):
            device = args[0] if args else keyword(node, "device")
            return device is not None and not script.value(device).kinds & {DTYPE, HOST}
    return False
