"""`.cuda()` moves to a CUDA device, which an XLA host does not have.

## What it reports

Calls of `.cuda()` on tensors and modules, uses of `torch.Tensor.cuda` and `torch.nn.Module.cuda`
as functions, and methods that pass a call to `super().cuda()`.

## Why it matters on XLA

`.cuda()` raises an exception on a host without CUDA.

## What to do

Fix: safe, or none.

Use `.to(xla.xla_device())`, which moves to the accelerator of the host. The index of `.cuda(3)`
becomes an argument of `xla.xla_device`: it selects a device on a host with several CUDA devices
and has no effect if a process drives one XLA device.

## Example

```diff
 import torch
 from torch import nn
+from xla_migrate import runtime as xla

-model = nn.Linear(4, 2).cuda()
+model = nn.Linear(4, 2).to(xla.xla_device())
```

```diff
 from torch.utils.data import DataLoader
+from xla_migrate import runtime as xla

 def run(model, rank, dataset):
-    model.cuda(rank)
+    model.to(xla.xla_device(rank))
-    for images, labels in DataLoader(dataset):
+    for images, labels in xla.MpDeviceLoader(DataLoader(dataset)):
-        images = images.cuda(non_blocking=True)
+        images = images.to(xla.xla_device())
         model(images)
```

`torch.Tensor.cuda` as a function:

```diff
 import torch
 from functools import partial
+from xla_migrate import runtime as xla

-move = partial(torch.Tensor.cuda, non_blocking=True)
+move = partial(torch.Tensor.to, device=xla.xla_device())
-moved = list(map(torch.Tensor.cuda, [torch.ones(2), torch.zeros(2)]))
+moved = list(map(lambda x: x.to(xla.xla_device()), [torch.ones(2), torch.zeros(2)]))
-torch.nn.Module.cuda(torch.nn.Linear(4, 2))
+torch.nn.Linear(4, 2).to(xla.xla_device())
```

A module with a method `cuda` that calls `nn.Module.cuda`:

```diff
 import torch
 from torch import nn
+from xla_migrate import runtime as xla

 class Net(nn.Module):
     def cuda(self, device=None):
-        self.cache = self.cache.cuda(device)
+        self.cache = self.cache.to(xla.xla_device(device))
-        return super().cuda(device)
+        return super().to(xla.xla_device(device))
```

A bound method that is not called here is reported without a fix, because its arguments are not
known:

```python
import torch

net = torch.nn.Linear(2, 2)
move = net.cuda if torch.version.cuda else net.cpu  # XLA101
```

If a class of the file defines `cuda`, a call on an object of an unknown class is reported without a
fix. So is a call with arguments if the class is in another module of the program and its method has
parameters of its own:

```python
import torch

class Video:
    def cuda(self, stream):
        return self

def play(videos, load):
    videos["intro"].cuda(2)  # XLA101
    for video in videos.each():
        video.cuda(1)  # XLA101
    load().cuda(1)  # XLA101
```

A class's own `cuda` method and attributes named `cuda` are not reported:

```python
import torch

class Wheel:
    def cuda(self):
        return self

print(Wheel().cuda(), torch.version.cuda)
```
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...analysis.devices.own_cuda import classes_with_their_own, is_used_as_its_own
from ...analysis.devices.owners import has_own_method
from ...analysis.devices.specs import device_argument
from ...analysis.inference.library_types import RUNTIME
from ...analysis.inference.values import MODULE, TENSOR
from ...analysis.projects.callees import callees_of
from ...analysis.scopes import Scope
from ...analysis.script import Script
from ...analysis.syntax import keyword, unparsed
from ...edits import AddArgument, DropArgument, Replace
from ...finding import Finding
from ...rule import MethodCall, Rule

RULE = Rule("XLA101", "cuda-method", of_what_runs=True)

_FUNCTIONS = ("torch.Tensor.cuda", "torch.nn.Module.cuda")
_DEVICES = frozenset({"torch.device", f"{RUNTIME}.xla_device"})
_AMBIGUOUS = (
    "`.cuda()` fails on an XLA host: use `.to(xla.xla_device())` if the object is a tensor or a module"
    " (not rewritten: {} defines `cuda`, too, and the class of the object is unknown)"
)
_FUNCTION = (
    "`cuda` moves to a CUDA device, which an XLA host does not have: use `.to(xla.xla_device())`"
)


@RULE.method("cuda")
def cuda_method(script: Script, call: MethodCall, scope: Scope) -> Iterator[Finding]:
    owner = call.func.value
    if _has_its_own(script, owner, scope) or call in script.training.moves_left_to_loops:
        return  # XLA405 reports the second case: the move does not belong there at all
    if not _takes_torchs_arguments(call):
        if _hands_on(call):
            yield RULE.finding(script, call, _FUNCTION)
        return
    if _is_storage(script, owner, scope):
        return  # `xla.load` calls the function, and takes the exception for the accelerator
    if is_used_as_its_own(script, owner, call):
        return
    if owners := classes_with_their_own(script, owner, call):
        yield RULE.finding(script, call, _AMBIGUOUS.format(owners))
        return
    given = device_argument(call)
    text, holes = script.devices.given(given)
    text = text.replace("{0}", "{1}")
    more, values = _how_it_copies(script, call, 1 + len(holes))
    is_device = given is not None and _is_converted(script, given, scope)
    device = text if is_device and holes else script.devices.placed(call, text)
    edit = Replace(call, f"{{0}}.to({device}{more})", (owner, *holes, *values))
    yield RULE.finding(
        script, call, "`.cuda()` fails on an XLA host: use `.to(xla.xla_device())`", edit
    )


@RULE.node(ast.Attribute, named=("cuda",))
def bound_method(script: Script, node: ast.Attribute, scope: Scope) -> Iterator[Finding]:
    """`move = model.cuda`, which is called elsewhere."""
    parent = script.parent(node)
    if not isinstance(node.ctx, ast.Load) or (isinstance(parent, ast.Call) and parent.func is node):
        return
    value = script.value(node.value, scope)
    if value.has(TENSOR) or value.has(MODULE):
        if not _has_its_own(script, node.value, scope):
            yield RULE.finding(script, node, _FUNCTION)


@RULE.reference(*_FUNCTIONS)
def cuda_function(script: Script, node: ast.expr, scope: Scope) -> Iterator[Finding]:
    """`partial(torch.Tensor.cuda, ...)`, `map(torch.Tensor.cuda, batch)`, `move = torch.Tensor.cuda`."""
    if not isinstance(getattr(node, "ctx", None), ast.Load) or _is_asked_about(script, node):
        return
    parent = script.parent(node)
    if isinstance(parent, ast.Call) and script.dotted(parent.func, scope) == "functools.partial":
        yield from _partial(script, parent, node)
        return
    text = f"lambda x: x.to({script.xla}.xla_device())"
    alone = isinstance(parent, (ast.Call, ast.keyword, ast.Assign, ast.Return))
    if not alone or _is_called_with_more(script, parent):
        yield RULE.finding(script, node, _FUNCTION)
    else:
        yield RULE.finding(script, node, _FUNCTION, Replace(node, text))


def _partial(script: Script, call: ast.Call, node: ast.expr) -> Iterator[Finding]:
    """Bound arguments other than `non_blocking` need a manual change."""
    if call.args != [node] or any(k.arg != "non_blocking" for k in call.keywords):
        yield RULE.finding(script, node, _FUNCTION)
        return
    to = f"{script.segment(node).rpartition('.')[0]}.to"
    edits = [DropArgument(call, k) for k in call.keywords]
    device = AddArgument(call, f"device={script.xla}.xla_device()")
    yield RULE.finding(script, node, _FUNCTION, Replace(node, to), *edits, device)


def _is_called_with_more(script: Script, parent: ast.AST | None) -> bool:
    """True if what the function is bound to is called with more than what it moves."""
    if not isinstance(parent, ast.Assign):
        return False
    names = {unparsed(target) for target in parent.targets}
    calls = [call for name in names for call in script.index.calls_spelled(name)]
    return not calls or any(len(c.args) != 1 or c.keywords for c in calls)


def _is_asked_about(script: Script, node: ast.expr) -> bool:
    """Return True if code inspects the function itself: its documentation, or whether it is another function."""
    parent = script.parent(node)
    return isinstance(parent, (ast.Attribute, ast.Compare, ast.Delete))


@RULE.node(ast.Call, named=("getattr",))
def fetched(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    """`getattr(x, "cuda")()`; without the call it may be a flag of that name."""
    around = script.parent(call)
    match call:
        case ast.Call(args=[owner, ast.Constant(value="cuda")], keywords=[]) if (
            isinstance(around, ast.Call) and around.func is call
        ):
            if script.dotted(owner, scope) or _has_its_own(script, owner, scope):
                return
            if not _takes_torchs_arguments(around):
                yield RULE.finding(script, around, _FUNCTION)
                return
            if owners := classes_with_their_own(script, owner, around):
                yield RULE.finding(script, around, _AMBIGUOUS.format(owners))
                return
            text, holes = script.devices.given(device_argument(around))
            text = text.replace("{0}", "{1}")
            more, values = _how_it_copies(script, around, 1 + len(holes))
            moved = f"{{0}}.to({script.xla}.xla_device({text}){more})"
            edit = Replace(around, moved, (owner, *holes, *values))
            yield RULE.finding(script, around, _FUNCTION, edit)


@RULE.call("operator.methodcaller")
def named(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    """`methodcaller("cuda", non_blocking=True)`."""
    match call.args:
        case [ast.Constant(value="cuda")] if _takes_torchs_arguments(call):
            text = f"lambda x: x.to({script.xla}.xla_device())"
            yield RULE.finding(script, call, _FUNCTION, Replace(call, text))
        case [ast.Constant(value="cuda"), *_]:
            yield RULE.finding(script, call, _FUNCTION)


@RULE.call(*_FUNCTIONS)
def called(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    """`torch.Tensor.cuda(x)`."""
    if len(call.args) != 1 or not _takes_torchs_arguments(call):
        yield RULE.finding(script, call, _FUNCTION)
        return
    text, holes = script.devices.given(keyword(call, "device"))
    text = text.replace("{0}", "{1}")
    edit = Replace(call, f"{{0}}.to({script.xla}.xla_device({text}))", (call.args[0], *holes))
    yield RULE.finding(script, call, _FUNCTION, edit)


def _is_converted(script: Script, node: ast.expr, scope: Scope) -> bool:
    """Return True if `node` is a name for devices that the script makes, and that are converted there."""
    found = scope.find(node.id) if isinstance(node, ast.Name) else None
    return found is not None and all(
        isinstance(binding.whole, ast.Call)
        and script.dotted(binding.whole.func, found[0]) in _DEVICES
        for binding in found[1]
    )


def _how_it_copies(script: Script, call: ast.Call, index: int) -> tuple[str, tuple[ast.expr, ...]]:
    """Return the arguments of `x.cuda(...)` besides the device, with holes from `index` on."""
    given = {k.arg: k.value for k in call.keywords if k.arg in {"non_blocking", "memory_format"}}
    if len(call.args) > 1:
        given["non_blocking"] = call.args[1]
    if call in script.training.moves_of_device_loaders:
        given.pop("non_blocking", None)
    text = "".join(f", {name}={{{index + k}}}" for k, name in enumerate(given))
    return text, tuple(given.values())


def _is_storage(script: Script, owner: ast.expr, scope: Scope) -> bool:
    """Return True for the `storage` of `map_location=lambda storage, location: storage.cuda()`."""
    function = scope.node
    if not isinstance(owner, ast.Name) or not isinstance(function, (ast.Lambda, ast.FunctionDef)):
        return False
    names = [argument.arg for argument in function.args.args]
    names = names[1:] if names[:1] == ["self"] else names
    if len(names) != 2 or names[0] != owner.id or not script.source.mentions("map_location"):
        return False
    around = script.parent(function)
    located = isinstance(around, ast.keyword) and around.arg == "map_location"
    return located or "storage" in names[0] or (names[0] == "s" and names[1].startswith("l"))


def _has_its_own(script: Script, owner: ast.expr, scope: Scope) -> bool:
    """True if `owner` is of a local class that is no tensor, no module, or defines `cuda` on its own."""
    value = script.value(owner, scope)
    if isinstance(owner, ast.Call) and getattr(owner.func, "id", "") == "super":
        return _inherits_it(script, value.definition, value.has(MODULE))
    return has_own_method(script, owner, "cuda") or script.is_neither_tensor_nor_module(owner)


def _inherits_it(script: Script, definition: ast.AST | None, is_module: bool) -> bool:
    """Return True if `super().cuda()` calls another method than that of `nn.Module`."""
    if not isinstance(definition, ast.ClassDef):
        return True
    callees = callees_of(script)
    for index, base in callees.lineage(callees.home, definition)[1:]:
        if any(isinstance(n, ast.FunctionDef) and n.name == "cuda" for n in base.body):
            return True
        is_module = is_module or MODULE in index.inference.base_kind(base, index.scope(base))
    return not is_module


def _hands_on(call: ast.Call) -> bool:
    """`self.network.cuda(*args, **kwargs)`: whoever calls the function says where to."""
    starred = any(isinstance(a, ast.Starred) for a in call.args)
    return (starred or any(k.arg is None for k in call.keywords)) and len(call.args) <= 1


def _takes_torchs_arguments(call: ast.Call) -> bool:
    """True if `call` is given what torch's `cuda` takes: a device, `non_blocking`, `memory_format`."""
    if len(call.args) > 2 or any(isinstance(a, ast.Starred) for a in call.args):
        return False
    return all(k.arg in {"device", "non_blocking", "memory_format"} for k in call.keywords)
