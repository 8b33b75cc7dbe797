"""`nn.DataParallel` passes inputs on the CPU to a module on the XLA device.

## What it reports

`nn.DataParallel` and `nn.parallel.data_parallel`.

## Why it matters on XLA

On CUDA, the class splits each batch over the devices of one process. On XLA it passes the batch
to its module without moving it, which fails if the batch is still on the CPU.

## What to do

Fix: safe.

Use `xla.DataParallel`, which moves inputs to the module's device. On CUDA it is PyTorch's class.
It uses one XLA device. To use several, wrap with `DistributedDataParallel` and start one process
per device (`xla.launch` or `torchrun`), or migrate with `--parallel spmd`.

## Example

```diff
 import torch
 from torch import nn
+from xla_migrate import runtime as xla

-model = nn.DataParallel(nn.Linear(4, 2)).cuda()
+model = xla.DataParallel(nn.Linear(4, 2)).to(xla.xla_device())
-torch.save(model.module.state_dict(), "model.pt")
+xla.save(model.module.state_dict(), "model.pt")
```

A test of the exact type becomes an `isinstance` test, because the runtime's class derives from
PyTorch's:

```diff
 import torch
 from torch import nn

 def unwrap(model):
-    return model.module if type(model) in (nn.DataParallel, nn.parallel.DistributedDataParallel) else model
+    return model.module if isinstance(model, (nn.DataParallel, nn.parallel.DistributedDataParallel)) else model

 def unwrap_one(model):
     return model.module if isinstance(model, nn.DataParallel) else model
```

The function `data_parallel`:

```diff
 import torch
-from torch import nn
+from xla_migrate import runtime as xla

 def forward(main, input, ngpu):
     if input.size(0) > 1:
-        return nn.parallel.data_parallel(main, input, range(ngpu))
+        return xla.DataParallel(main)(input)
     return main(input)
```

A class that derives from it. Its methods `scatter`, `replicate`, `parallel_apply` and `gather`
then use the one device:

```diff
-from torch import nn
+from xla_migrate import runtime as xla

-class Balanced(nn.DataParallel):
+class Balanced(xla.DataParallel):
     def train_step(self, *inputs, **kwargs):
         if not self.device_ids:
             return self.module.train_step(*inputs, **kwargs)
         inputs, kwargs = self.scatter(inputs, kwargs, self.device_ids)
         return self.module.train_step(*inputs[0], **kwargs[0])
```

Classes from other packages are not reported:

```python
from mylib import DataParallel

model = DataParallel(net, device_ids=[0, 1])
```

## Limits

A call of `data_parallel` whose inputs may be one tensor or several, and one with keyword
arguments, is reported without a fix. So is a class that derives from it and reads
`self.device_ids[0]`.

## See also

XLA603, XLA612
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...analysis.inference.values import TENSOR
from ...analysis.scopes import Scope
from ...analysis.script import Script
from ...analysis.syntax import is_handed_on
from ...analysis.type_tests import exact_type_test, is_about_types
from ...edits import Replace
from ...finding import HIGH, MEDIUM, Finding
from ...rule import Rule

RULE = Rule("XLA605", "single-process-data-parallel")

_CLASSES = (
    "torch.nn.DataParallel",
    "torch.nn.parallel.DataParallel",
    "torch.nn.parallel.data_parallel.DataParallel",
)
_MESSAGE = "`DataParallel` leaves inputs on the CPU and uses one XLA device: use `xla.DataParallel`, or DistributedDataParallel for several devices"


@RULE.call(*_CLASSES)
def data_parallel(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    yield RULE.finding(script, call, _MESSAGE, Replace(call.func, f"{script.xla}.DataParallel"))


@RULE.reference(*_CLASSES)
def handed_on(script: Script, node: ast.expr, scope: Scope) -> Iterator[Finding]:
    """`wrap = nn.DataParallel`; `isinstance(model, nn.DataParallel)` stays true."""
    if is_about_types(script, node, scope):
        return
    if is_handed_on(node, script.parents) or _is_compared(script, node):
        yield RULE.finding(script, node, _MESSAGE, Replace(node, f"{script.xla}.DataParallel"))


@RULE.node(ast.ClassDef)
def derived(script: Script, definition: ast.ClassDef, scope: Scope) -> Iterator[Finding]:
    """`class Balanced(nn.DataParallel)`."""
    for base in definition.bases:
        if script.dotted(base, scope) in _CLASSES:
            if any(_is_a_device_of_self(node) for node in ast.walk(definition)):
                message = f"{_MESSAGE} (not rewritten, since `{definition.name}` takes a device from `self.device_ids`, which is empty on XLA)"
                yield RULE.finding(script, base, message, effort=MEDIUM)
            else:
                yield RULE.finding(
                    script, base, _MESSAGE, Replace(base, f"{script.xla}.DataParallel")
                )


def _is_a_device_of_self(node: ast.AST) -> bool:
    """Return True for `self.device_ids[0]`."""
    match node:
        case ast.Subscript(
            value=ast.Attribute(value=ast.Name(id="self"), attr="device_ids"), slice=index
        ):
            return not isinstance(index, ast.Slice)
    return False


def _is_compared(script: Script, node: ast.expr) -> bool:
    """`wrapper is nn.DataParallel`, `type(model) in CLASSES` where that cannot be `isinstance`."""
    parent = script.parent(node)
    if isinstance(parent, (ast.Tuple, ast.List, ast.Set)):
        parent = script.parent(parent)
    return isinstance(parent, ast.Compare) and exact_type_test(parent) is None


@RULE.call("torch.nn.parallel.data_parallel", "torch.nn.parallel.data_parallel.data_parallel")
def function(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    message = "`data_parallel` fails without CUDA: call `xla.DataParallel` of the module"
    yield RULE.finding(script, call, message, *_called_at_once(script, call, scope))


def _called_at_once(script: Script, call: ast.Call, scope: Scope) -> Iterator[Replace]:
    """`xla.DataParallel(module)(inputs)`."""
    named = {k.arg for k in call.keywords} - {"device_ids", "output_device", "dim"}
    if len(call.args) < 2 or named or any(isinstance(a, ast.Starred) for a in call.args):
        return
    module, inputs = call.args[:2]
    if isinstance(inputs, ast.Tuple):
        holes = ", ".join(f"{{{k + 1}}}" for k in range(len(inputs.elts)))
        yield Replace(call, f"{script.xla}.DataParallel({{0}})({holes})", (module, *inputs.elts))
    elif script.value(inputs, scope).has(TENSOR) or _is_asked_as_a_tensor(script, inputs):
        yield Replace(call, f"{script.xla}.DataParallel({{0}})({{1}})", (module, inputs))


def _is_asked_as_a_tensor(script: Script, node: ast.expr) -> bool:
    """Return True if the same function uses `node` as only tensors can be used: `input.is_cuda`."""
    if not isinstance(node, ast.Name):
        return False
    function = script.function(node)
    return any(
        other.attr in _OF_TENSORS
        and isinstance(other.value, ast.Name)
        and other.value.id == node.id
        and script.function(other) is function
        for other, _ in script.index.of(ast.Attribute)
    )


_OF_TENSORS = frozenset({"data", "dim", "dtype", "is_cuda", "ndim", "shape", "size", "view"})


_PIECES = (
    "replicate",
    "replicate.replicate",
    "parallel_apply",
    "parallel_apply.parallel_apply",
    "scatter",
    "scatter_gather.scatter",
    "scatter_gather.scatter_kwargs",
    "gather",
    "scatter_gather.gather",
    "_functions.Scatter.apply",
    "_functions.Gather.apply",
    "_functions.Broadcast.apply",
)


@RULE.call(*(f"torch.nn.parallel.{name}" for name in _PIECES))
def pieces(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    """`DataParallel` by hand."""
    dotted = script.dotted(call.func, scope) or ""
    name = dotted.removesuffix(".apply").rpartition(".")[2]
    message = (
        f"`{name}` works on several CUDA devices of one process, and an XLA process has one: call the module itself, "
        "or use DistributedDataParallel"
    )
    yield RULE.finding(script, call, message, effort=HIGH)
