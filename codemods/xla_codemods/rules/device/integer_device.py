"""An integer where a device is asked for means a CUDA device.

`.to(0)` and `.to(rank)` fail on XLA, where a device is no number. The number is handed on to the runtime: it
chooses among several CUDA devices, and means nothing where a process drives one XLA device.

```diff
 import torch
 import torch.distributed as dist
+from xla_migrate import runtime as xla

 def run(model, gpu):
     rank = dist.get_rank()
-    model = model.to(rank)
+    model = model.to(xla.xla_device(rank))
-    x = torch.zeros(2, device=gpu).to(0)
+    x = torch.zeros(2, device=xla.xla_device(gpu)).to(xla.xla_device())
-    y = torch.ones(2, device=x.get_device())
+    y = torch.ones(2, device=x.device)
-    return model(x + y), torch.device(rank)
+    return model(x + y), xla.xla_device(rank)
```

So is one that a name stands for that may be the host, too:

```diff
 import torch
+from xla_migrate import runtime as xla

 def run(model, rank, gpu, args):
-    device = rank if torch.cuda.is_available() else "cpu"
+    device = str(xla.xla_device(rank))
-    dev = gpu if args.use_gpu else "cpu"
+    dev = xla.xla_device(gpu) if args.use_gpu else "cpu"
     return model.to(device), model.to(dev)
```

Data types, devices, and `to` of other things stay:

```python
import torch

def convert(x, dtype, device, money, rank):
    return x.to(dtype), x.to(device), money.to("EUR"), print(rank, file=rank)
```
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...availability import asks_availability
from ...devices import Spec, device_argument, leaves, named_like_a_device
from ...edits import Replace
from ...findings import WARNING, Finding
from ...rule import Rule
from ...values import CLASS, DATASET, INSTANCE, MODULE, TENSOR

if TYPE_CHECKING:
    from ...names import Scope
    from ...script import Script

RULE = Rule("XLA106", "integer-device")

_MESSAGE = "a number is taken for a CUDA device"


@RULE.method("to", "to_empty")
def moved(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    assert isinstance(call.func, ast.Attribute)
    index = device_argument(call)
    if index is None or script.places.is_chosen(index) or not _brings_torch(script):
        return
    found = list(_numbered(script, index))
    if found:
        kinds = script.value(call.func.value, scope).kinds
        if not kinds & {INSTANCE, CLASS, DATASET} or kinds & {MODULE, TENSOR}:
            yield from found


@RULE.call("torch.device")
def torch_device(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    if len(call.args) != 1 or call.keywords or _is_said_to_be_text(script, call.args[0]):
        return
    if script.devices.is_index(call.args[0]):
        text, holes = script.devices.device(_spec(call.args[0]))
        yield RULE.at(script, call, _MESSAGE, Replace(call, text, holes))


def _is_said_to_be_text(script: Script, node: ast.expr) -> bool:
    """Whether `node` stands behind `if isinstance(node, str):`."""
    child: ast.AST = node
    asked = f"isinstance({ast.unparse(node)}, str)"
    for ancestor in script.ancestors(node):
        if isinstance(ancestor, ast.If) and child in ancestor.body:
            if ast.unparse(ancestor.test) == asked:
                return True
        child = ancestor
    return False


@RULE.node(ast.keyword, named=("device",))
def passed(script: Script, argument: ast.keyword, scope: Scope) -> Iterator[Finding]:
    """`device=rank`."""
    call = script.parent(argument)
    if not isinstance(call, ast.Call):
        return
    dotted = script.dotted(call.func, scope)
    if dotted is None:
        if isinstance(call.func, ast.Attribute) and call.func.attr.startswith("new_"):
            yield from _numbered(script, argument.value)
    elif dotted == "transformers.pipeline":
        yield from _of_pipeline(script, argument.value)
    elif dotted.startswith("torch.") and not dotted.startswith(("torch.cuda.", "torch.accel")):
        yield from _numbered(script, argument.value)


@RULE.node(ast.Assign)
def mixed(script: Script, assign: ast.Assign, scope: Scope) -> Iterator[Finding]:
    """`device = rank` in one branch, `device = "cpu"` in the other."""
    (target, *others) = assign.targets
    if others or not named_like_a_device(target) or script.places.is_chosen(assign.value):
        return
    parts = [
        p for p in leaves(assign.value) if isinstance(p, (ast.Name, ast.Attribute, ast.Constant))
    ]
    indices = [p for p in parts if script.devices.is_index(p)]
    if indices and any(
        _is_host(part) for value in _given(script, target, scope) for part in leaves(value)
    ):
        for index in indices:
            text, holes = script.devices.device(_spec(index))
            yield RULE.at(script, index, _MESSAGE, Replace(index, text, holes))


def _given(script: Script, target: ast.expr, scope: Scope) -> Iterator[ast.expr]:
    """What `target` is assigned anywhere."""
    text = ast.unparse(target)
    for assign, home in script.index.of(ast.Assign):
        if any(ast.unparse(t) == text for t in assign.targets):
            if isinstance(target, ast.Attribute) or home is scope:
                yield assign.value


def _is_host(node: ast.expr) -> bool:
    """`"cpu"`, `torch.device("cpu")`."""
    if isinstance(node, ast.Call) and len(node.args) == 1:
        node = node.args[0]
    return isinstance(node, ast.Constant) and node.value == "cpu"


def _of_pipeline(script: Script, index: ast.expr) -> Iterator[Finding]:
    """What `pipeline(device=...)` is given: to transformers, -1 is the CPU."""
    match index:
        case ast.IfExp(test=test, body=ast.Constant(value=int(number)), orelse=otherwise) if (
            asks_availability(script, test) and ast.unparse(otherwise) == "-1"
        ):
            text, holes = script.devices.device(Spec(index, number))
            yield RULE.at(script, index, _MESSAGE, Replace(index, text, holes))
        case ast.Constant():
            yield from _numbered(script, index)
        case _ if script.devices.is_index(index):
            yield RULE.at(script, index, _MESSAGE, severity=WARNING)


def _numbered(script: Script, index: ast.expr) -> Iterator[Finding]:
    match index:
        case ast.Call(func=ast.Attribute(value=owner, attr="get_device"), args=[], keywords=[]):
            if ".get_dtype(" in script.source.text:
                return  # nodes of a compiler's graph, whose `get_device` gives a torch.device
            yield RULE.at(script, index, _MESSAGE, Replace(index, "{0}.device", (owner,)))
            return
    if script.devices.is_index(index):
        text, holes = script.devices.device(_spec(index))
        yield RULE.at(script, index, _MESSAGE, Replace(index, text, holes))


def _spec(index: ast.expr) -> Spec:
    if isinstance(index, ast.Constant) and isinstance(index.value, int):
        return Spec(index, index.value)
    return Spec(index, index)


def _brings_torch(script: Script) -> bool:
    """Whether the file imports torch, so that `.to(0)` can be a tensor's."""
    return any(
        (script.module.dotted(name) or "").partition(".")[0] in {"torch", "transformers", "timm"}
        for name in script.module.bindings
    )
