"""Fused optimizer kernels do not exist for XLA.

`torch.optim.AdamW(..., fused=True)` raises on XLA parameters (fact 3.26). `xla.supports_fused()` is True where the
kernels are, on CUDA, which so stays bit for bit what it was.

```diff
 import torch
+from xla_migrate import runtime as xla

-optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
+optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=xla.supports_fused())
-momentum = torch.optim.SGD(model.parameters(), lr=0.1, fused=args.fused)
+momentum = torch.optim.SGD(model.parameters(), lr=0.1, fused=args.fused and xla.supports_fused())
```

It is found in the dict that is handed on:

```diff
 import inspect
 import torch
+from xla_migrate import runtime as xla

 def make(groups, use_fused):
-    extra_args = dict(fused=True) if use_fused else dict()
+    extra_args = dict(fused=xla.supports_fused()) if use_fused else dict()
     return torch.optim.AdamW(groups, lr=1e-3, **extra_args)
```

`fused=False` stays, and what is no optimizer's:

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
from typing import TYPE_CHECKING

from ...analysis.inference.values import OPTIMIZER
from ...analysis.nodes import walk
from ...edits import AddArgument, DropArgument, Edit, Replace
from ...finding import Finding
from ...patterns import Pattern
from ...rule import Rule

if TYPE_CHECKING:
    from ...analysis.scopes import Scope
    from ...analysis.script import Script

RULE = Rule("XLA304", "fused-argument")

_MESSAGE = "`fused=True` raises on XLA parameters: use `fused=xla.supports_fused()`"
_OPTIMIZER_CLASS = Pattern(r"optim", re.IGNORECASE)
_AVAILABLE = frozenset({"torch.cuda.is_available", "torch.accelerator.is_available"})
_DEPTH = 4


@RULE.node(ast.keyword, named=("fused", None))
def argument(script: Script, node: ast.keyword, scope: Scope) -> Iterator[Finding]:
    """`fused=...`, and what `**options` hold."""
    call = script.parent(node)
    if not isinstance(call, ast.Call) or not script.source.mentions("fused"):
        return
    if not _makes_an_optimizer(script, call, scope):
        return
    if node.arg == "fused" and _asks_for_cuda(script, node.value, scope):
        # whose own rules would take it for a question about devices
        edits: list[Edit] = [
            DropArgument(call, node),
            AddArgument(call, f"fused={script.xla}.supports_fused()"),
        ]
        yield RULE.finding(script, node.value, _MESSAGE, *edits)
    elif node.arg == "fused":
        yield from _found(script, node.value, scope)
    else:
        for value, home in _entries(script, node.value, scope, 0):
            yield from _found(script, value, home)


def _makes_an_optimizer(script: Script, call: ast.Call, scope: Scope) -> bool:
    if script.value(call, scope).has(OPTIMIZER):
        return True
    func = call.func
    last = func.attr if isinstance(func, ast.Attribute) else getattr(func, "id", "")
    if script.dotted(func, scope) is not None or script.value(func, scope).definition is not None:
        return False
    return _OPTIMIZER_CLASS.search(last) is not None


def _entries(
    script: Script, node: ast.expr, scope: Scope, depth: int
) -> Iterator[tuple[ast.expr, Scope]]:
    """The values under "fused" in the dicts that `node` may be."""
    if depth > _DEPTH:
        return
    if isinstance(node, ast.IfExp):
        for branch in (node.body, node.orelse):
            yield from _entries(script, branch, scope, depth + 1)
    elif isinstance(node, ast.Dict):
        for key, value in zip(node.keys, node.values):
            if isinstance(key, ast.Constant) and key.value == "fused":
                yield value, scope
    elif isinstance(node, ast.Call) and getattr(node.func, "id", "") == "dict":
        yield from ((k.value, scope) for k in node.keywords if k.arg == "fused")
    elif isinstance(node, ast.Name):
        yield from _of_a_name(script, node, scope, depth)


def _of_a_name(
    script: Script, node: ast.Name, scope: Scope, depth: int
) -> Iterator[tuple[ast.expr, Scope]]:
    found = scope.find(node.id)
    if found is None:
        return
    home, bindings = found
    for binding in bindings:
        if binding.how == "assign" and binding.value is not None and not binding.path:
            yield from _entries(script, binding.value, home, depth + 1)
    for statement, inside in script.index.of(ast.Assign):  # `options["fused"] = True`
        match statement.targets:
            case [ast.Subscript(value=ast.Name(id=name), slice=ast.Constant(value="fused"))]:
                if name == node.id and (inside.find(name) or (None,))[0] is home:
                    yield statement.value, inside


def _found(script: Script, value: ast.expr, scope: Scope) -> Iterator[Finding]:
    if isinstance(value, ast.Constant) and not value.value:
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
    return isinstance(value, ast.Compare) and any(
        isinstance(n, ast.Constant) and n.value == "cuda" for n in walk(value)
    )
