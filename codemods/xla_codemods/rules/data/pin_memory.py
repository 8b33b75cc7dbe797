"""`pin_memory()` fails without a CUDA driver.

## What it reports

A tensor's `pin_memory()`, `pin_memory=True` of functions that create tensors, and `pin_memory=True`
of loaders that a device loader replaces.

## Why it matters on XLA

Pinned host memory exists only with CUDA. The method and the argument of the functions raise an
exception on XLA. `DataLoader(pin_memory=True)` only warns.

## What to do

Fix: safe.

Pin only if there is CUDA. Where a device loader replaces the argument, remove it: the device loader
pins memory on CUDA.

## Example

```diff
 import torch

 def make():
-    buffer = torch.empty(4, pin_memory=True)
-    buffer = buffer.pin_memory()
+    buffer = torch.empty(4, pin_memory=torch.cuda.is_available())
+    buffer = buffer.pin_memory() if torch.cuda.is_available() else buffer
     return buffer
```

A loader whose batches a device loader moves:

```diff
 from torch.utils.data import DataLoader
+from xla_migrate import runtime as xla

 def train(model, optimizer, dataset):
-    options = {"num_workers": 1, "pin_memory": True}
+    options = {"num_workers": 1}
     loader = DataLoader(dataset, **options)
-    for images in loader:
+    for images in xla.MpDeviceLoader(loader):
-        model(images.cuda()).sum().backward()
+        model(images.to(xla.xla_device())).sum().backward()
-        optimizer.step()
+        xla.optimizer_step(optimizer)
         optimizer.zero_grad()
```

Functions of other packages, of which nothing is known, ask for CUDA too:

```diff
 import torch
 from torchrl.data import TensorDictReplayBuffer

 def make(storage):
-    return TensorDictReplayBuffer(storage=storage, pin_memory=True)
+    return TensorDictReplayBuffer(storage=storage, pin_memory=torch.cuda.is_available())
```

Code under a test for CUDA keeps it:

```python
import torch

class Buffer:
    def __init__(self, size, pin=True):
        self.pins = torch.cuda.is_available() and pin
        self.x = torch.zeros(size)
        if self.pins:
            self.x = self.x.pin_memory()
```

A function of the script that creates the loader keeps its parameter, and its callers their arguments:

```diff
 from torch.utils.data import DataLoader
+from xla_migrate import runtime as xla

 def create_loader(dataset, pin_memory):
     return DataLoader(dataset, pin_memory=pin_memory)

 def train(model, optimizer, dataset):
-    for images in create_loader(dataset, pin_memory=True):
+    for images in xla.MpDeviceLoader(create_loader(dataset, pin_memory=True)):
-        model(images.cuda()).sum().backward()
+        model(images.to(xla.xla_device())).sum().backward()
-        optimizer.step()
+        xla.optimizer_step(optimizer)
         optimizer.zero_grad()
```

Other loaders keep `pin_memory=True`, which makes copies faster on CUDA. Methods of the same name of
other classes are not reported:

```python
from torch.utils.data import DataLoader

class Buffer:
    def pin_memory(self):
        return self

DataLoader(Buffer().pin_memory(), pin_memory=True)
```
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...analysis.frameworks.accelerator import uses_accelerate
from ...analysis.inference import library_types
from ...analysis.inference.values import LOADER, TENSOR
from ...analysis.nodes import walk
from ...analysis.scopes import Scope
from ...analysis.script import Script
from ...edits import DropArgument, DropEntry, Edit, Replace, remove
from ...finding import ERROR, WARNING, Finding
from ...flow.calls import called, class_named
from ...rule import MethodCall, Rule

RULE = Rule("XLA402", "pin-memory", of_what_runs=True, severity=WARNING, words=("pin_memory",))

_ONLY_ON_CUDA = "pinning memory fails without CUDA: pin only if there is CUDA"
_ARGUMENTS = frozenset({"pin_memory", "pin_memory_device"})
# Other arguments of a data loader: a dict that holds one of them beside `pin_memory` is its arguments.
_LOADER_ARGUMENTS = frozenset(
    (
        "batch_size shuffle num_workers drop_last persistent_workers prefetch_factor "
        "collate_fn sampler timeout worker_init_fn batch_sampler"
    ).split()
)


@RULE.method("pin_memory")
def pinned_tensor(script: Script, call: MethodCall, scope: Scope) -> Iterator[Finding]:
    owner = call.func.value
    if script.defines(owner, "pin_memory") or script.is_neither_tensor_nor_module(owner):
        return
    function = script.function(call)
    if function is not None and function.name == "pin_memory":
        return  # data loaders call it on hosts whose memory can be pinned
    if script.is_statement(call) or not isinstance(owner, (ast.Name, ast.Attribute)):
        message = "pinned memory has no use on XLA, and fails without CUDA: remove it"
        edit: Edit = (
            remove(script.statement(call))
            if script.is_statement(call)
            else Replace(call, "{0}", (owner,))
        )
    else:
        message, edit = _ONLY_ON_CUDA, _where_it_can(script, call, owner, scope)
    yield RULE.finding(script, call, message, edit, severity=ERROR)


def _where_it_can(script: Script, call: ast.Call, owner: ast.expr, scope: Scope) -> Edit:
    """`x.pin_memory() if torch.cuda.is_available() else x`; a choice that stands there asks for CUDA, too."""
    has_cuda = f"{script.spell('torch.cuda.is_available', scope)}()"
    match script.parent(call):
        case ast.IfExp(test=test, body=body, orelse=other) if call is not test:
            if ast.unparse(other if call is body else body) == ast.unparse(owner):
                text = f"{{0}} and {has_cuda}" if call is body else f"{{0}} or not {has_cuda}"
                return Replace(test, text, (test,))
    return Replace(call, f"{{0}}.pin_memory() if {has_cuda} else {{0}}", (owner,))


@RULE.node(ast.keyword, named=_ARGUMENTS)
def pinning_argument(script: Script, argument: ast.keyword, scope: Scope) -> Iterator[Finding]:
    call = script.parent(argument)
    if isinstance(call, ast.Call) and not (_is_off(argument.value) or _is_own(script, call, scope)):
        if _asks_for_cuda(script, argument.value):
            return
        if _takes_pinning(script, call, scope):
            if argument.arg == "pin_memory" and _is_harmless(script, call, argument.value, scope):
                return
            if script.value(call, scope).has(TENSOR):
                yield _only_on_cuda(script, argument, scope)._replace(severity=ERROR)
            else:
                message = f"`{argument.arg}` is for CUDA and has no use on XLA: remove it"
                yield RULE.finding(script, argument, message, DropArgument(call, argument))
        elif argument.arg == "pin_memory" and _is_of_a_library(script, call, scope):
            if _is_made_by_a_library(script, argument.value, scope):
                return  # `given(pin_memory=booleans())`: not a choice between True and False
            yield _only_on_cuda(script, argument, scope)


def _only_on_cuda(script: Script, argument: ast.keyword, scope: Scope) -> Finding:
    """The argument asks whether there is CUDA, so that the memory is still pinned there."""
    has_cuda, value = f"{script.spell('torch.cuda.is_available', scope)}()", argument.value
    text = has_cuda if isinstance(value, ast.Constant) else f"{{0}} and {has_cuda}"
    return RULE.finding(script, argument, _ONLY_ON_CUDA, Replace(value, text, (value,)))


@RULE.node(ast.Dict)
def pinning_entry(script: Script, node: ast.Dict, scope: Scope) -> Iterator[Finding]:
    keys = {k.value for k in node.keys if isinstance(k, ast.Constant)}
    if not keys & _ARGUMENTS or not (keys & _LOADER_ARGUMENTS or _is_spread(script, node)):
        return
    if not _has_device_loader(script):
        return
    for key, value in zip(node.keys, node.values):
        if isinstance(key, ast.Constant) and key.value in _ARGUMENTS and not _is_off(value):
            yield RULE.finding(
                script,
                key,
                f"`{key.value}` is for CUDA and has no use on XLA: remove it",
                DropEntry(node, key),
            )


@RULE.node(ast.Assign)
def pinning_item(script: Script, node: ast.Assign, scope: Scope) -> Iterator[Finding]:
    """`options["pin_memory"] = True`."""
    match node.targets:
        case [ast.Subscript(slice=ast.Constant(value=str(key)))] if (
            key in _ARGUMENTS and not _is_off(node.value) and _has_device_loader(script)
        ):
            yield RULE.finding(
                script,
                node,
                f"`{key}` is for CUDA and has no use on XLA: remove it",
                remove(node),
            )


def _asks_for_cuda(script: Script, value: ast.expr) -> bool:
    calls = (node.func for node in walk(value) if isinstance(node, ast.Call))
    return any(script.dotted(func) == "torch.cuda.is_available" for func in calls)


def _is_off(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value in (False, None, "")


def _is_harmless(script: Script, call: ast.Call, value: ast.expr, scope: Scope) -> bool:
    """Return True if `call` makes a loader, which only warns, and no device loader replaces it.

    The same holds for a loader that gets the argument from the caller of the function around it.
    """
    if script.value(call, scope).has(TENSOR):
        return False
    if _is_parameter(script, value):
        return True
    parent = script.parent(call)
    names = [ast.unparse(t) for t in parent.targets] if isinstance(parent, ast.Assign) else []
    for loop in script.training.loops:
        if any(ast.unparse(driver.node) in names for driver in loop.drivers) and not loop.fed:
            return True
    return not _has_device_loader(script)


def _is_own(script: Script, call: ast.Call, scope: Scope) -> bool:
    """Return True if `call` runs a function, or makes an object of a class, of the script or its project."""
    if isinstance(call.func, ast.Attribute) and call.func.attr == "__init__":
        return False  # of a loader's base
    if called(script, call) is not None or class_named(script, call.func) is not None:
        return True
    dotted = script.dotted(call.func, scope)
    return dotted is not None and script.project.has(dotted)


def _is_parameter(script: Script, value: ast.expr) -> bool:
    if not isinstance(value, ast.Name):
        return False
    return any(binding.how == "parameter" for binding in script.reaching(value))


def _has_device_loader(script: Script) -> bool:
    """Return True if device loaders feed loops; a loader that accelerate prepares does not pin by itself."""
    return not uses_accelerate(script) and any(loop.fed for loop in script.training.loops)


def _takes_pinning(script: Script, call: ast.Call, scope: Scope) -> bool:
    """A loader's constructor, `super().__init__` of one, a torch factory, or `dict(...)` of their arguments."""
    if script.value(call, scope).kinds & {LOADER, TENSOR}:
        return True
    func = call.func
    if isinstance(func, ast.Attribute) and func.attr == "__init__":
        return script.value(func.value, scope).has(LOADER)
    names = {argument.arg for argument in call.keywords}
    if (isinstance(func, ast.Name) and func.id == "dict") or getattr(func, "attr", "") in {
        "update",
        "setdefault",
    }:
        return bool(names & _LOADER_ARGUMENTS) or names <= _ARGUMENTS
    return False


def _is_of_a_library(script: Script, call: ast.Call, scope: Scope) -> bool:
    """True for a call of what another package has, and of which no more is known: torchrl's replay buffers, dgl's loaders."""
    dotted = script.dotted(call.func, scope)
    root = (dotted or "").partition(".")[0]
    if dotted is None or not root or root in {"torch", library_types.RUNTIME.partition(".")[0]}:
        return False
    return not script.project.has(dotted)


def _is_made_by_a_library(script: Script, value: ast.expr, scope: Scope) -> bool:
    """Return True if `value` is an object that a function of another package returns."""
    return isinstance(value, ast.Call) and _is_of_a_library(script, value, scope)


def _is_spread(script: Script, node: ast.Dict) -> bool:
    """`DataLoader(dataset, **{"pin_memory": True})` and `options.update({"pin_memory": True})`."""
    parent = script.parent(node)
    if isinstance(parent, ast.keyword):
        return parent.arg is None
    return isinstance(parent, ast.Call) and getattr(parent.func, "attr", "") == "update"
