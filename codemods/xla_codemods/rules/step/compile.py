"""`torch.compile` fails on XLA tensors.

## What it reports

`torch.compile` as a function or a decorator, and `model.compile()`, for code that runs on the
device.

## Why it matters on XLA

Inductor fails on XLA tensors (fact 1.100). The openxla backend launches four graphs per training
step instead of one. XLA compiles the step without `torch.compile`.

## What to do

Fix: safe.

Use `xla.compile`. It calls `torch.compile` on other devices, and returns its argument on XLA.

## Example

```diff
 import torch
+from xla_migrate import runtime as xla

 def main(args, model):
-    model = model.cuda()
+    model = model.to(xla.xla_device())
     if args.compile:
-        model = torch.compile(model, mode="max-autotune")
+        model = xla.compile(model, mode="max-autotune")
     return model

-@torch.compile(dynamic=False)
+@xla.compile(dynamic=False)
 def gelu(x):
     return 0.5 * x * (1.0 + torch.erf(x / 1.41421))
```

A module that compiles itself in place keeps the call on other devices:

```diff
 import torch
 from torch import nn
+from xla_migrate import runtime as xla

-model = nn.Linear(4, 2).cuda()
-model.compile(mode="reduce-overhead")
+model = nn.Linear(4, 2).to(xla.xla_device())
+if xla.device_type() != "xla":
+    model.compile(mode="reduce-overhead")
```

Parts of a model are recognised by torch's arguments:

```diff
 import torch
+from xla_migrate import runtime as xla

 def prepare(model, compiled):
     for block in model.layers.values():
-        block.compile(fullgraph=True)
+        if xla.device_type() != "xla":
+            block.compile(fullgraph=True)
         compiled.compile(mode="fast")
-    return model.cuda()
+    return model.to(xla.xla_device())
```

Other functions named `compile`, and compilation for XLA, are not reported:

```python
import re
import torch
from xla_migrate import runtime as xla

pattern = re.compile("x")
model = torch.compile(torch.nn.Linear(4, 2).to(xla.xla_device()), backend="openxla")
```
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...analysis.frameworks.arguments import has_a_trainer
from ...analysis.inference.values import MODULE
from ...analysis.scopes import Scope
from ...analysis.script import Script
from ...analysis.syntax import is_handed_on, keyword
from ...edits import Replace, ReplaceStatement
from ...finding import Finding
from ...flow.conditions import conditions
from ...rule import MethodCall, Rule

RULE = Rule("XLA508", "compile", of_what_runs=True)

_MESSAGE = "`torch.compile` fails on XLA tensors: use `xla.compile`, which returns the function unchanged on XLA"
_OPTIONS = frozenset({"backend", "disable", "dynamic", "fullgraph", "mode", "options"})
_MODES = frozenset({"default", "max-autotune", "max-autotune-no-cudagraphs", "reduce-overhead"})
_OF_XLA = frozenset({"openxla", "openxla_eval", "torchxla_trace_once"})


@RULE.call("torch.compile")
def called(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    backend = keyword(call, "backend")
    if isinstance(backend, ast.Constant) and backend.value in _OF_XLA:
        return
    yield from _finding(script, call.func)


@RULE.reference("torch.compile")
def referred_to(script: Script, node: ast.expr, scope: Scope) -> Iterator[Finding]:
    """`@torch.compile` without a call, `wrap = torch.compile if fast else identity`."""
    is_replaced = script.index.stores("compile")  # `torch.compile = ...`: the original is kept
    if is_handed_on(node, script.parents) and not is_replaced:
        yield from _finding(script, node)


@RULE.method("compile")
def in_place(script: Script, call: MethodCall, scope: Scope) -> Iterator[Finding]:
    """`model.compile(...)` of an nn.Module."""
    statement, value = script.parent(call), script.value(call.func.value, scope)
    is_module = script.is_module(call.func.value) and value.has(MODULE)
    is_torchs = is_module or (not value.kinds and _has_options_of_torch(call))
    if not is_torchs or not isinstance(statement, ast.Expr):
        return
    if isinstance(value.definition, ast.ClassDef) and script.inference.method(
        value.definition, "compile"
    ):
        return
    if not _is_guarded(script, statement):
        text = f'if {script.xla}.device_type() != "xla":\n    {{0}}'
        yield RULE.finding(script, call, _MESSAGE, ReplaceStatement(statement, text, (call,)))


def _has_options_of_torch(call: ast.Call) -> bool:
    """Return True for `layer.compile(fullgraph=True)`, whose arguments are only torch's."""
    given = {k.arg for k in call.keywords}
    is_mode = isinstance(mode := keyword(call, "mode"), ast.Constant) and mode.value in _MODES
    is_sure = is_mode or not given.isdisjoint({"dynamic", "fullgraph"})
    return is_sure and not call.args and given <= _OPTIONS


def _is_guarded(script: Script, statement: ast.stmt) -> bool:
    return any("device_type()" in ast.unparse(test) for test, _ in conditions(script, statement))


def _finding(script: Script, node: ast.expr) -> Iterator[Finding]:
    trains = script.trains or script.accelerated or has_a_trainer(script)
    if trains or script.is_in_a_module(node):
        yield RULE.finding(script, node, _MESSAGE, Replace(node, f"{script.xla}.compile"))
