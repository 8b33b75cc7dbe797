"""Fused optimizer kernels do not exist for XLA.

## What it reports

`fused=True` of optimizers, also in dictionaries of options.

## Why it matters on XLA

`torch.optim.AdamW(..., fused=True)` raises an exception for XLA parameters (fact 3.26).

## What to do

Fix: safe.

Use `fused=xla.supports_fused()`. It is True on CUDA, so results there do not change.

## Example

```diff
 import torch
+from xla_migrate import runtime as xla

-optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
+optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=xla.supports_fused())
-momentum = torch.optim.SGD(model.parameters(), lr=0.1, fused=args.fused)
+momentum = torch.optim.SGD(model.parameters(), lr=0.1, fused=args.fused and xla.supports_fused())
```

In a dictionary:

```diff
 import inspect
 import torch
+from xla_migrate import runtime as xla

 def make(groups, use_fused):
-    extra_args = dict(fused=True) if use_fused else dict()
+    extra_args = dict(fused=xla.supports_fused()) if use_fused else dict()
     return torch.optim.AdamW(groups, lr=1e-3, **extra_args)
```

In a dictionary that is extended later, and in a nested one:

```diff
 import torch
+from xla_migrate import runtime as xla

-settings = {"adam": {"lr": 1e-3, "fused": True}}
+settings = {"adam": {"lr": 1e-3, "fused": xla.supports_fused()}}
 first = torch.optim.Adam(model.parameters(), **settings["adam"])
 options = {"lr": 1e-3}
-options.update(fused=True)
+options.update(fused=xla.supports_fused())
 second = torch.optim.Adam(model.parameters(), **options)
```

A value that depends on CUDA, for a function that may pass it to any optimizer:

```diff
 import torch
+from xla_migrate import runtime as xla

 def make(build, parameters, device):
-    options = {"fused": device.type == "cuda"}
+    options = {"fused": xla.is_accelerator(device) and xla.supports_fused()}
     return build(parameters, **options)
```

`fused=False`, and arguments of other functions, are not reported:

```python
import torch

optimizer = torch.optim.AdamW(model.parameters(), fused=False)
attention = Attention(dim=64, fused=True)
```
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from ...analysis.inference.library_types import RUNTIME
from ...analysis.inference.values import OPTIMIZER
from ...analysis.nodes import walk
from ...analysis.scopes import Scope
from ...analysis.script import Script
from ...analysis.syntax import is_literal, is_off
from ...edits import AddArgument, DropArgument, Edit, Replace
from ...finding import Finding
from ...flow.containers import held
from ...patterns import Pattern
from ...rule import Rule

RULE = Rule("XLA304", "fused-argument", words=("fused",))

_MESSAGE = "`fused=True` raises an exception for XLA parameters: use `fused=xla.supports_fused()`"
_OPTIMIZER_CLASS = Pattern(r"optim", re.IGNORECASE)
_OPTIMIZER_NAME = Pattern(r"(?:torch\.optim\.)?(?:[NR]?Adam(?:W|ax)?|SGD|Adagrad)", re.IGNORECASE)
_AVAILABLE = frozenset({"torch.cuda.is_available", "torch.accelerator.is_available"})
_MIGRATED = frozenset({f"{RUNTIME}.is_accelerator", f"{RUNTIME}.is_available"})


@RULE.node(ast.keyword, named=("fused", None))
def argument(script: Script, node: ast.keyword, scope: Scope) -> Iterator[Finding]:
    """`fused=...`, and what `**options` hold."""
    call = script.parent(node)
    if not isinstance(call, ast.Call) or not script.source.mentions("fused"):
        return
    if not _makes_an_optimizer(script, call, scope):
        if node.arg == "fused":
            yield from _kept_from_xla(script, node.value, scope)
        return
    if node.arg == "fused" and _asks_for_cuda(script, node.value, scope):
        # whose own rules would take it for a question about devices
        edits: list[Edit] = [
            DropArgument(call, node),
            AddArgument(call, f"fused={script.xla}.supports_fused()"),
        ]
        yield RULE.finding(script, node.value, _MESSAGE, *edits)
    elif node.arg == "fused":
        yield from _found(script, node.value)
    else:
        for value in held(script, node.value, "fused"):
            yield from _found(script, value)


@RULE.node(ast.Dict)
def entry(script: Script, node: ast.Dict, scope: Scope) -> Iterator[Finding]:
    """`{"fused": device.type == "cuda"}`, which goes to whoever; and `{"params": ..., "fused": True}`."""
    for key, value in zip(node.keys, node.values):
        if is_literal(key, "fused"):
            sure = _is_for_an_optimizer(script, node)
            yield from _found(script, value) if sure else _kept_from_xla(script, value, scope)


def _is_for_an_optimizer(script: Script, node: ast.Dict) -> bool:
    """A group of parameters, settings that name an optimizer (`"_target_": "torch.optim.AdamW"`) or stand under "optim"."""
    for key, value in zip(node.keys, node.values):
        if getattr(key, "value", None) == "params":
            return True
        if _names_one(value):
            return True
    match script.parent(node):
        case ast.Dict() as outer:
            of = next(k for k, v in zip(outer.keys, outer.values) if v is node)
            name = getattr(of, "value", None)
        case ast.keyword(arg=name):
            pass
        case _:
            return False
    return isinstance(name, str) and _OPTIMIZER_CLASS.search(name) is not None


@RULE.node(ast.Assign)
def put(script: Script, node: ast.Assign, scope: Scope) -> Iterator[Finding]:
    """`options["fused"] = device.type == "cuda"`."""
    for target in node.targets:
        if isinstance(target, ast.Subscript) and isinstance(target.slice, ast.Constant):
            if target.slice.value == "fused":
                of_group = _is_of_a_group(script, target.value)
                found = _found(script, node.value)
                yield from found if of_group else _kept_from_xla(script, node.value, scope)


def _names_one(value: ast.expr) -> bool:
    text = value.value if isinstance(value, ast.Constant) else None
    return isinstance(text, str) and _OPTIMIZER_NAME.fullmatch(text) is not None


def _is_of_a_group(script: Script, node: ast.expr) -> bool:
    """`optimizer.defaults`, `optimizer.param_groups[0]`, and `group` of `for group in optimizer.param_groups:`."""
    if isinstance(node, ast.Name):
        values = [b.value for b in script.bindings(node) if b.how == "for"]
        return any(getattr(value, "attr", "") == "param_groups" for value in values)
    owner = node.value if isinstance(node, ast.Subscript) else node
    return isinstance(owner, ast.Attribute) and owner.attr in {"defaults", "param_groups"}


def _kept_from_xla(script: Script, value: ast.expr, scope: Scope) -> Iterator[Finding]:
    """Report `fused` under a test for CUDA: it is CUDA's, and the test alone would let XLA in."""
    values = [value]
    if bindings := script.bindings(value):
        values = [b.value for b in bindings if isinstance(b.value, ast.expr)]
    if any(_mentions_cuda(script, part, scope) for node in values for part in walk(node)):
        yield from _found(script, value)


def _mentions_cuda(script: Script, part: ast.AST, scope: Scope) -> bool:
    if isinstance(part, ast.Attribute):
        return part.attr == "is_cuda"
    if isinstance(part, ast.Call) and script.dotted(part.func, scope) in _MIGRATED:
        return True
    return isinstance(part, ast.expr) and _asks_for_cuda(script, part, scope)


def _makes_an_optimizer(script: Script, call: ast.Call, scope: Scope) -> bool:
    if script.value(call, scope).has(OPTIMIZER):
        return True
    func = call.func
    dotted = script.dotted(func, scope)
    if dotted in _PARTIAL and call.args:
        return _is_of_an_optimizer(script, call.args[0], scope)
    if ast.unparse(func) == "super().__init__":
        owner = script.class_around(call)
        return isinstance(owner, ast.ClassDef) and any(
            _is_of_an_optimizer(script, base, script.index.scope(owner)) for base in owner.bases
        )
    if isinstance(func, ast.Name) and func.id == "dict" and dotted is None:
        if any(k.arg == "params" or _names_one(k.value) for k in call.keywords):
            return True  # a group of parameters, `dict(type="AdamW", fused=True)`
    if dotted is not None or script.value(func, scope).definition is not None:
        return False
    return _is_of_an_optimizer(script, func, scope)


_PARTIAL = frozenset({"functools.partial", "functools.partialmethod"})


def _is_of_an_optimizer(script: Script, func: ast.expr, scope: Scope) -> bool:
    """`torch.optim.Adam`, `getattr(torch.optim, name)`, `OPTIMIZERS[name]`, or a name for one of these."""
    if (script.dotted(func, scope) or "").startswith("torch.optim."):
        return True
    match func:
        case ast.Subscript(value=ast.Name() as table):
            return _is_of_an_optimizer(script, table, scope)
        case ast.Attribute(attr=last):
            return _OPTIMIZER_CLASS.search(last) is not None
    if not isinstance(func, ast.Name):
        return _OPTIMIZER_CLASS.search(ast.unparse(func)) is not None
    if _OPTIMIZER_CLASS.search(func.id):
        return True
    return any(
        isinstance(binding.value, (*_CHOICES, ast.Attribute))
        and _OPTIMIZER_CLASS.search(ast.unparse(binding.value)) is not None
        for binding in script.bindings(func)
        if binding.how in {"assign", "for", "comprehension"}
    )


# What a name for one of several optimizers is bound to.
_CHOICES = (ast.Call, ast.Dict, ast.IfExp, ast.Lambda, ast.List, ast.Subscript, ast.Tuple)


def _found(script: Script, value: ast.expr) -> Iterator[Finding]:
    if is_off(value):
        return
    if "supports_fused" in script.segment(value):
        return
    supported = f"{script.xla}.supports_fused()"
    if isinstance(value, ast.Constant):
        edit = Replace(value, supported)
    else:
        edit = Replace(value, f"{{0}} and {supported}", (value,))
    yield RULE.finding(script, value, _MESSAGE, edit)


def _asks_for_cuda(script: Script, value: ast.expr, scope: Scope) -> bool:
    if isinstance(value, ast.Call):
        return script.dotted(value.func, scope) in _AVAILABLE
    return isinstance(value, ast.Compare) and any(is_literal(n, "cuda") for n in walk(value))
