"""A module of device functions that is chosen at run time does not exist for XLA.

## What it reports

`getattr(torch, device_type)` and `torch.get_device_module(device)`.

## Why it matters on XLA

Both fail on XLA, because PyTorch has no module `torch.xla` (fact 1.3).

## What to do

Fix: safe, or none.

Use `xla.device_module`. On XLA it gives the functions of `torch.cuda` that have an equivalent, such
as `synchronize`, `memory_allocated` and `set_rng_state`, and raises an error for the others.
Elsewhere it gives PyTorch's own module.

## Example

```diff
 import torch
+from xla_migrate import runtime as xla

 def synchronize(device):
-    torch.get_device_module(device).synchronize()
-    getattr(torch, device.type).empty_cache()
+    xla.device_module(device).synchronize()
+    xla.device_module(device.type).empty_cache()

 backend = "cuda"
-getattr(torch, backend).synchronize()
+xla.device_module(backend).synchronize()
```

`getattr(torch, "cuda")`, a choice with `torch.cuda` as its default, and a second name for the
module are rewritten to the runtime's functions:

```diff
 import torch
+from xla_migrate import runtime as xla

 cuda = torch.cuda
-print(cuda.is_available(), getattr(torch, "cuda").device_count())
+print(xla.is_available(), xla.device_count())

 def wait(device):
     module = getattr(torch, device.type, torch.cuda)
-    module.synchronize()
-    getattr(torch, device.type, torch.cuda).empty_cache()
+    xla.synchronize()
```

A module that is kept, returned or chosen is reported, because its uses may have no equivalent:

```python
import torch

modules = {"cuda": torch.cuda, "xpu": torch.xpu}  # XLA115

def module_of(device):
    if device.type == "npu":
        return torch.npu
    return torch.cuda  # XLA115
```

No object has a method named `xla`, as `getattr(x, device)()` requires:

```python
import torch
from xla_migrate import runtime as xla

kind = xla.device_type()

def backward(x):
    getattr(x.mean(), kind)().backward()  # XLA115
```

Other members of torch that are chosen by name are not reported:

```python
import torch

def activation(name, x):
    return getattr(torch, name)(x) + getattr(torch.nn.functional, "relu")(x)
```
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...analysis.devices.checks.origins import is_xla_or_renamed
from ...analysis.scopes import Scope
from ...analysis.script import Script
from ...analysis.syntax import is_literal
from ...edits import Replace
from ...finding import MEDIUM, Finding
from ...rule import Rule

RULE = Rule("XLA115", "device-module", effort=MEDIUM)

_METHOD = "the device's name selects the method, and no object has a method `xla`: use `.to(xla.xla_device())`"
_ABSENT = "torch has no module `torch.xla`: use `xla.device_module`"


@RULE.call("torch.get_device_module")
def get_device_module(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    given = [*call.args, *(argument.value for argument in call.keywords)]
    if any(isinstance(argument, ast.Starred) for argument in given) or len(given) > 1:
        yield RULE.finding(script, call, _ABSENT)
        return
    text = f"{script.xla}.device_module({{0}})" if given else f"{script.xla}.device_module()"
    yield RULE.finding(script, call, _ABSENT, Replace(call, text, tuple(given)))


@RULE.node(ast.Call, named=("getattr",))
def got_by_type(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    """`getattr(torch, device.type)`, `getattr(x, device.type)()`."""
    match call:
        case ast.Call(func=ast.Name(id="getattr"), args=[_, ast.Constant(), *_]):
            return
        case ast.Call(func=ast.Name(id="getattr"), args=[owner, name, *_]):
            if (dotted := script.dotted(owner, scope)) != "torch":
                if not dotted and script.source.mentions("cuda", "device_type"):
                    if is_xla_or_renamed(script, name):
                        yield RULE.finding(script, call, _METHOD)
                return
            base = name.value if isinstance(name, ast.Attribute) and name.attr == "type" else name
            named = script.devices.is_device(base) or _is_cuda(script, name)
            if named and not _is_followed(script, call, scope):
                edit = Replace(call, f"{script.xla}.device_module({{0}})", (name,))
                yield RULE.finding(script, call, _ABSENT, edit)


def _is_cuda(script: Script, name: ast.expr) -> bool:
    """True if `name` is a variable for "cuda"."""
    return any(is_literal(binding.value, "cuda") for binding in script.bindings(name))


def _is_followed(script: Script, call: ast.Call, scope: Scope) -> bool:
    """True if each use of the module was taken for one of torch.cuda, which it falls back to."""
    if script.dotted(call, scope) != "torch.cuda":
        return False
    match script.parent(call):
        case ast.Attribute():
            return True
        case ast.Assign(targets=[ast.Name(id=name)]):
            return scope.dotted(name) == "torch.cuda"
    return False


@RULE.reference("torch.cuda")
def module_itself(script: Script, node: ast.expr, scope: Scope) -> Iterator[Finding]:
    """The module kept, returned or chosen."""
    parent = script.parent(node)
    message = "torch has no device module for XLA, and some uses of the module could not be followed: use `xla.device_module`, or the runtime's functions"
    match parent:
        case ast.Assign(targets=[ast.Name(id=name)]) if scope.dotted(name) == "torch.cuda":
            return
        case ast.Assign() | ast.Return() | ast.Dict():
            yield RULE.finding(script, node, message)
        case ast.IfExp(test=test) if test is not node:
            yield RULE.finding(script, node, message)
