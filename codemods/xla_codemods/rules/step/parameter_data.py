"""`p.data = ...` does not accept a tensor of another device on XLA.

## What it reports

Assignments to a parameter's `.data` that move it to the accelerator.

## Why it matters on XLA

On CUDA the assignment moves the parameter. On XLA it raises an exception, unless the parameter is
on the device already (fact 3.50).

## What to do

Fix: none.

Move the module with `.to()`. The runtime keeps the parameter objects, so optimizers and tied
weights stay valid.

## Example

```diff
 import torch
+from xla_migrate import runtime as xla

 def move(model):
-    model.cuda()
+    model.to(xla.xla_device())
     for p in model.parameters():
-        p.data = p.data.cuda()  # XLA516
+        p.data = p.data.to(xla.xla_device())  # XLA516
```

A class of tensors whose objects move:

```python
import torch
from xla_migrate import runtime as xla

class Noise(torch.Tensor):
    def to(self, *args, **kwargs):
        moved = Noise(self)
        moved.data = super().to(*args, **kwargs)  # XLA516
        return moved

noise = Noise(torch.ones(2)).to(xla.xla_device())
```

Other assignments to `.data` are not reported:

```python
import torch
from xla_migrate import runtime as xla

def shrink(model):
    for p in model.to(xla.xla_device()).parameters():
        p.data = p.data * 0.5

def fuse(layer, delta):
    dtype, device = layer.weight.data.dtype, layer.weight.data.device
    fused = layer.weight.data.float() + delta
    layer.weight.data = fused.to(device=device, dtype=dtype)

class Corpus:
    def __init__(self, data, device):
        self.data = data.to(device)
```
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...analysis import flow
from ...analysis.inference.values import DTYPE
from ...analysis.scopes import Scope
from ...analysis.script import Script
from ...analysis.syntax import keyword
from ...finding import MEDIUM, WARNING, Finding
from ...patterns import Pattern
from ...rule import Rule

RULE = Rule("XLA516", "parameter-data", of_what_runs=True, severity=WARNING, effort=MEDIUM)


_TENSORS = Pattern(r"Tensor|Parameter")
# What goes through an optimizer's states.
_STATES = Pattern(r"\.state(?:\[|\.values\(|\.items\()")


@RULE.node(ast.Assign)
def parameter_data(script: Script, statement: ast.Assign, scope: Scope) -> Iterator[Finding]:
    match statement.targets:
        case [ast.Attribute(attr="data") as target] if _is_move(
            script, statement.value, target, scope
        ) and not _is_of_an_object(script, target.value):
            # Where modules are made on the device there is nothing to be moved to it.
            if script.accelerated and "set_default_device" not in script.source.text:
                advice = "move the module with `.to()`"
                if _STATES.search(script.segment(script.function(target) or statement)):
                    advice = "put the new tensor in its place"
                elif _is_its_class_s(statement.value):
                    advice = "make the object of the moved tensor"
                message = f"on XLA `.data` cannot be set to a tensor of another device: {advice}"
                yield RULE.finding(script, target, message)


def _is_move(script: Script, node: ast.expr, data: ast.Attribute, scope: Scope) -> bool:
    """`p.data.to(device)`, `p.data.cuda()`, `p.data.cpu()`."""
    match node:
        case ast.Call(func=ast.Attribute(attr="cuda" | "cpu")):
            return True
        case ast.Call(args=[ast.Starred(), *_]):
            return _is_its_class_s(node)
        case ast.Call(func=ast.Attribute(attr="to"), args=args):
            target = args[0] if args else keyword(node, "device")
            if target is None or script.value(target).has(DTYPE):
                return False
            if _is_its_own(script, target, data, scope):
                return False
            return script.devices.is_device(target) or script.devices.spec(target) is not None
    return False


def _is_its_class_s(node: ast.expr) -> bool:
    """Return True for `super().to(...)`, of a class that derives from the tensor's."""
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Call(func=ast.Name(id="super")), attr="to")):
            return True
    return False


def _is_of_an_object(script: Script, owner: ast.expr) -> bool:
    """True if `owner` is of a class of this program that is no tensor: its `data` is what it likes."""
    value = script.value(owner)
    if not isinstance(value.definition, ast.ClassDef) or script.inherits_unknown(value):
        return False
    lineage = script.inference.lineage(value.definition)
    return not any(_TENSORS.search(ast.unparse(base)) for c in lineage for base in c.bases)


def _is_its_own(script: Script, device: ast.expr, data: ast.Attribute, scope: Scope) -> bool:
    """Return True if `device` is the parameter's own device: `p.device`, or a name that is bound to it."""
    if isinstance(device, ast.Name) and (found := scope.find(device.id)) is not None:
        home, bindings = found
        reaching = flow.reaching(bindings, device, home, script.parents)
        values = [b.whole for b in reaching]
    else:
        values = [device]
    own = {f"{owner}.device" for owner in (ast.unparse(data), ast.unparse(data.value))}
    return bool(values) and all(v is not None and ast.unparse(v) in own for v in values)
