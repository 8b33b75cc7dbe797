"""PyTorch's activation checkpointing fails on XLA.

## What it reports

`torch.utils.checkpoint`, `gradient_checkpointing_enable()` of transformers and
`enable_gradient_checkpointing()` of diffusers.

## Why it matters on XLA

`torch.utils.checkpoint` needs a module `torch.xla`, which does not exist (fact 1.101). With a
substitute for that module, gradients through dropout are silently wrong (fact 1.102).

## What to do

Fix: safe.

Use `xla.checkpoint`, which recomputes with the same dropout masks on each backend.

## Example

```diff
 import torch
-from torch.utils.checkpoint import checkpoint, checkpoint_sequential
+from xla_migrate import runtime as xla

 class Block(torch.nn.Module):
     def forward(self, x):
-        x = checkpoint(self.attention, x, use_reentrant=False)
+        x = xla.checkpoint(self.attention, x, use_reentrant=False)
-        return checkpoint_sequential(self.layers, 2, x)
+        return xla.checkpoint_sequential(self.layers, 2, x)
```

Models of transformers use the function that their module imports:

```diff
 from transformers import AutoModel
+from xla_migrate import runtime as xla

 model = AutoModel.from_pretrained("bert-base-uncased")
+from transformers import modeling_utils
+# PyTorch's activation checkpointing fails on XLA.
+modeling_utils.checkpoint = xla.checkpoint
 model.gradient_checkpointing_enable()
```

Models of diffusers accept the function (from version 0.32):

```diff
 import torch
 from diffusers import UNet2DModel
+from xla_migrate import runtime as xla

-unet = UNet2DModel.from_pretrained(name).cuda()
+unet = UNet2DModel.from_pretrained(name).to(xla.xla_device())
-unet.enable_gradient_checkpointing()
+unet.enable_gradient_checkpointing(lambda module, *args: xla.checkpoint(module, *args, use_reentrant=False))
```

A model of the program that has a method of this name calls `torch.utils.checkpoint` in its own
code, and that call is rewritten:

```python
import torch
from xla_migrate import runtime as xla

class Net(torch.nn.Module):
    def gradient_checkpointing_enable(self):
        self.is_checkpointed = True

    def forward(self, x):
        return xla.checkpoint(self.fc, x) if self.is_checkpointed else self.fc(x)

model = Net().to(xla.xla_device())
model.gradient_checkpointing_enable()
```

Other functions named `checkpoint` are not reported:

```python
import torch
from mylib import checkpoint

class Block(torch.nn.Module):
    def forward(self, x):
        return checkpoint(self.attention, x)
```
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...analysis.devices.owners import own_methods
from ...analysis.frameworks.accelerator import uses_accelerate
from ...analysis.frameworks.transformers_checkpointing import is_enabled_before, is_patched, patch
from ...analysis.nodes import walk
from ...analysis.scopes import Scope
from ...analysis.script import Script
from ...analysis.syntax import is_handed_on, keyword, root_of
from ...edits import AddArgument, InsertBefore, Replace
from ...finding import MEDIUM, Finding
from ...rule import MethodCall, Rule

RULE = Rule("XLA509", "activation-checkpoint", of_what_runs=True)

_CHECKPOINTS = {
    f"torch.utils.checkpoint.{name}": name for name in ("checkpoint", "checkpoint_sequential")
}
_MESSAGE = "PyTorch's activation checkpointing fails on XLA: use `xla.checkpoint`"
_WRAPPERS = "torch.distributed.algorithms._checkpoint.checkpoint_wrapper"
_WRAPPER = f"{_WRAPPERS}.checkpoint_wrapper"


@RULE.call(*_CHECKPOINTS)
def called(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    yield _replaced(script, call.func, scope)


@RULE.reference(*_CHECKPOINTS)
def referred_to(script: Script, node: ast.expr, scope: Scope) -> Iterator[Finding]:
    """`partial(checkpoint, use_reentrant=False)`, `self.run = checkpoint`."""
    if is_handed_on(node, script.parents):
        yield _replaced(script, node, scope)


def _replaced(script: Script, node: ast.expr, scope: Scope) -> Finding:
    name = _CHECKPOINTS[script.dotted(node, scope) or ""]
    return RULE.finding(script, node, _MESSAGE, Replace(node, f"{script.xla}.{name}"))


@RULE.call(_WRAPPER)
def wrapper(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    """`checkpoint_wrapper(module)`, which takes the function to checkpoint with."""
    if keyword(call, "checkpoint_fn") is None:
        edit = AddArgument(call, f"checkpoint_fn={script.xla}.checkpoint")
        yield RULE.finding(script, call, _MESSAGE, edit)


@RULE.reference(_WRAPPER)
def wrapper_handed_on(script: Script, node: ast.expr, scope: Scope) -> Iterator[Finding]:
    """`checkpoint_wrapper_fn=checkpoint_wrapper`."""
    parent = script.parent(node)
    is_partial = isinstance(parent, ast.Call) and script.dotted(parent.func) == "functools.partial"
    if is_handed_on(node, script.parents) and not is_partial:
        advice = f"PyTorch's activation checkpointing fails on XLA: pass checkpoint_fn={script.xla}.checkpoint with functools.partial"
        yield RULE.finding(script, node, f"{_MESSAGE}: {advice}", effort=MEDIUM)


@RULE.call(f"{_WRAPPERS}.apply_activation_checkpointing")
def applied(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    if keyword(call, "checkpoint_wrapper_fn") is None and len(call.args) < 2:
        advice = f"PyTorch's activation checkpointing fails on XLA: pass a checkpoint_wrapper_fn with checkpoint_fn={script.xla}.checkpoint"
        yield RULE.finding(script, call, f"{_MESSAGE}: {advice}", effort=MEDIUM)


@RULE.call("functools.partial")
def partial_wrapper(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    if call.args and script.dotted(call.args[0], scope) == _WRAPPER:
        yield from wrapper(script, call, scope)


@RULE.method("gradient_checkpointing_enable")
def of_transformers(script: Script, call: MethodCall, scope: Scope) -> Iterator[Finding]:
    statement = script.parent(call)
    if is_patched(script) or _is_self(call.func.value) or _is_own(script, call.func):
        return
    if not isinstance(statement, ast.Expr):
        yield RULE.finding(script, call, _MESSAGE, effort=MEDIUM)
        return
    if is_enabled_before(script, statement):
        return
    yield RULE.finding(script, call, _MESSAGE, InsertBefore(statement, patch(script)))


def _is_self(node: ast.expr) -> bool:
    """`self`, or a part of it: a model's own code, which follows its arguments."""
    root = root_of(node)
    return isinstance(root, ast.Name) and root.id in {"self", "cls"}


def _is_own(script: Script, method: ast.Attribute) -> bool:
    """Return True if the program defines `method`, and the definition does not pass the call on to a library's model."""
    definitions = list(own_methods(script, method.value, method.attr))
    return bool(definitions) and not any(
        isinstance(node, ast.Attribute) and node.attr in _OF_LIBRARIES
        for definition in definitions
        for node in walk(definition)
    )


_OF_LIBRARIES = frozenset(
    {"gradient_checkpointing_enable", "enable_gradient_checkpointing", "set_grad_checkpointing"}
)


@RULE.method("enable_gradient_checkpointing", "set_grad_checkpointing")
def of_others(script: Script, call: MethodCall, scope: Scope) -> Iterator[Finding]:
    """Models of diffusers and timm, which import torch's function for themselves."""
    given = call.args[0] if call.args else keyword(call, "enable")
    on = given is None or (isinstance(given, ast.Constant) and bool(given.value))
    if not (script.accelerated or uses_accelerate(script)) or not on or _is_self(call.func.value):
        return
    if _is_own(script, call.func):
        return
    is_diffusers = call.func.attr.startswith("enable") and script.source.mentions("diffusers")
    if is_diffusers and not script.defines(call.func.value, call.func.attr) and not call.keywords:
        function = (
            f"lambda module, *args: {script.xla}.checkpoint(module, *args, use_reentrant=False)"
        )
        yield RULE.finding(script, call, _MESSAGE, AddArgument(call, function))
    elif not call.keywords or keyword(call, "enable") is not None:
        message = (
            "the library uses PyTorch's activation checkpointing, which fails on XLA: switch it off"
        )
        yield RULE.finding(script, call, message, effort=MEDIUM)
