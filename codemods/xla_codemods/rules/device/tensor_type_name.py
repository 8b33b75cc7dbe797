"""A name for a CUDA tensor type, such as `Tensor`, fails on XLA.

## What it reports

A variable that stands for `torch.cuda.FloatTensor` or another CUDA tensor type, with its uses.

## Why it matters on XLA

CUDA tensor types fail without CUDA, and the script creates and converts tensors with the name in
many places.

## What to do

Fix: safe.

Let the name stand for the CPU type, and move each tensor that it creates to the device. If one
use cannot be rewritten, no use is changed and the rule reports the name.

## Example

```diff
 import torch
+from xla_migrate import runtime as xla

-cuda = True if torch.cuda.is_available() else False
+cuda = True if xla.is_available() else False
-Tensor = torch.cuda.FloatTensor if cuda else torch.FloatTensor
+Tensor = torch.FloatTensor

 def train(generator, images, noise):
-    valid = Tensor(images.size(0), 1).fill_(1.0)
+    valid = Tensor(images.size(0), 1).to(xla.xla_device()).fill_(1.0)
-    real = images.type(Tensor)
+    real = images.to(xla.xla_device(), torch.float32)
     generator(noise)
     return valid, real
```

A choice that depends on something else than availability moves to the uses of the name:

```diff
 import torch
+from xla_migrate import runtime as xla

 def zeros(args, n):
-    Long = torch.cuda.LongTensor if args.cuda else torch.LongTensor
+    Long = torch.LongTensor
-    return Long(n).zero_()
+    return Long(n).to(xla.xla_device() if args.cuda else "cpu").zero_()
```

`torch.Tensor` is the CPU's FloatTensor:

```diff
 import torch
+from xla_migrate import runtime as xla

 class Model:
     def __init__(self, opt):
-        self.Tensor = torch.cuda.FloatTensor if opt.gpu_ids else torch.Tensor
+        self.Tensor = torch.FloatTensor
-        self.input = self.Tensor(opt.batch, 3)
+        self.input = self.Tensor(opt.batch, 3).to(xla.xla_device() if opt.gpu_ids else "cpu")
```

A second name for the same type:

```diff
 import torch
+from xla_migrate import runtime as xla

-FloatTensor = torch.cuda.FloatTensor if torch.cuda.is_available() else torch.FloatTensor
+FloatTensor = torch.FloatTensor
 Tensor = FloatTensor
-state = Tensor([1.0])
+state = Tensor([1.0]).to(xla.xla_device())
-reward = FloatTensor([2.0])
+reward = FloatTensor([2.0]).to(xla.xla_device())
```

Names for CPU types are not reported:

```python
import torch

Tensor = torch.FloatTensor
ones = Tensor([1.0])
```

## See also

XLA108
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from ...analysis.devices.availability import asks_availability
from ...analysis.devices.tensor_types import CUDA_TYPES, TensorType, cuda_type, host_type
from ...analysis.scopes import Scope
from ...analysis.script import Script
from ...edits import Edit, Replace
from ...finding import MEDIUM, Finding
from ...rule import Rule

RULE = Rule("XLA116", "tensor-type-name")


class _Given(NamedTuple):
    """One assignment of a type to a name: on CUDA, or where `test` is true; None for the CPU's type alone."""

    value: ast.expr
    cuda: TensorType | None
    test: ast.expr | None


@RULE.reference(*CUDA_TYPES)
def tensor_type_name(script: Script, node: ast.expr, scope: Scope) -> Iterator[Finding]:
    statement = _assignment(script, node)
    if statement is None:
        return
    (target,) = statement.targets
    found = cuda_type(script, node)
    assert found is not None
    given = _all_given(script, ast.unparse(target), scope)
    first = next((g for g in given or () if g.cuda is not None), None)
    if first is None or first.cuda is None or first.cuda.node is not node:
        if given is None:
            yield _by_hand(script, node, found)
        return
    edits = _edits(script, target, given or [], found, scope)
    if edits is None:
        yield _by_hand(script, node, found)
    else:
        message = f"`{ast.unparse(target)}` names a CUDA tensor type, which fails on an XLA host: use a type of torch and a device"
        yield RULE.finding(script, node, message, *edits)


def _by_hand(script: Script, node: ast.expr, found: TensorType) -> Finding:
    message = f"`torch.cuda.{found.kind}` under another name fails on an XLA host: use `torch.{found.kind}`, and move the result to the device"
    return RULE.finding(script, node, message, effort=MEDIUM)


def _assignment(script: Script, node: ast.expr) -> ast.Assign | None:
    """The assignment that gives the type one name."""
    parent = script.parent(node)
    if isinstance(parent, ast.IfExp) and parent.test is not node:
        parent = script.parent(parent)
    match parent:
        case ast.Assign(targets=[ast.Name() | ast.Attribute()]):
            return parent
    return None


def _all_given(script: Script, name: str, scope: Scope) -> list[_Given] | None:
    """Return all values assigned to `name`; None if one is not such a type."""
    found: list[_Given] = []
    for statement, other in script.index.assignments(name):
        if "." not in name and not _same(name, other, scope):
            continue
        given = _given(script, statement)
        if given is None:
            return None
        found.append(given)
    kinds = {g.cuda.kind for g in found if g.cuda is not None}
    return found if len(kinds) == 1 else None


def _given(script: Script, statement: ast.Assign) -> _Given | None:
    value = statement.value
    cuda = cuda_type(script, value)
    if cuda is not None:
        parent = script.parent(statement)
        test = parent.test if isinstance(parent, ast.If) and statement in parent.body else None
        return _Given(value, cuda, test)
    if host_type(script, value) is not None:
        return _Given(value, None, None)
    if isinstance(value, ast.IfExp):
        cuda, host = cuda_type(script, value.body), host_type(script, value.orelse)
        if cuda is not None and host is not None and cuda.kind == host.kind:
            return _Given(value, cuda, value.test)
        cuda, host = cuda_type(script, value.orelse), host_type(script, value.body)
        if cuda is not None and host is not None and cuda.kind == host.kind:
            return _Given(value, cuda, ast.UnaryOp(ast.Not(), value.test))
    return None


def _same(name: str, one: Scope, other: Scope) -> bool:
    """True if `name` is the same variable in both scopes."""
    a, b = one.find(name), other.find(name)
    return a is not None and b is not None and a[0] is b[0]


def _edits(
    script: Script, target: ast.expr, given: list[_Given], found: TensorType, scope: Scope
) -> list[Edit] | None:
    """Rename to the CPU's type at every use; None if a use is neither a constructor nor `.type(name)`."""
    test = next((g.test for g in given if g.test is not None), None)
    if test is not None and asks_availability(script, test):
        test = None
    device = _device(script, test)
    if device is None:
        return None
    torch = script.spell("torch", scope)
    edits: list[Edit] = [
        Replace(g.value, f"{torch}.{found.kind}") for g in given if g.cuda is not None
    ]
    uses = list(_uses(script, target, scope))
    for use in uses:
        parent = script.parent(use)
        match parent:
            case ast.Assign(targets=[ast.Name() as other], value=value) if value is use:
                more = _only_name(script, other, use)  # `Tensor = FloatTensor`
                if more is None:
                    return None
                uses += more
            case ast.Call(func=func) if func is use:
                edits.append(Replace(parent, f"{{0}}.to({device})", (parent,)))
            case ast.Call(func=ast.Attribute(value=x, attr="type"), args=[kind]) if kind is use:
                text = f"{{0}}.to({device}, {torch}.{found.dtype})"
                edits.append(Replace(parent, text, (x,)))
            case _:
                return None
    return edits if uses else None


def _device(script: Script, test: ast.expr | None) -> str | None:
    """Return the device of tensors that have the CUDA type if `test` holds; None if that may change meanwhile."""
    match test:
        case None:
            return f"{script.xla}.xla_device()"
        case ast.Compare(
            left=ast.Attribute(value=(ast.Name() | ast.Attribute()) as device, attr="type"),
            ops=[ast.Eq()],
            comparators=[ast.Constant(value="cuda")],
        ):
            return ast.unparse(device)
    text = _on_xla(script, test)
    return f'{script.xla}.xla_device() if {text} else "cpu"' if text is not None else None


def _on_xla(script: Script, test: ast.expr) -> str | None:
    """Return the text of `test` if it means on XLA what it meant on CUDA; None if that may change meanwhile."""
    match test:
        case (
            ast.Compare(left=ast.Constant(value="cuda"), ops=[ast.In()], comparators=[device])
            | ast.Compare(left=device, ops=[ast.Eq()], comparators=[ast.Constant(value="cuda")])
        ):
            return f"{script.xla}.is_accelerator({ast.unparse(device)})"
    if all(isinstance(node, _STEADY) or _is_text_of(node) for node in ast.walk(test)):
        text = ast.unparse(test)
        return text if "cuda'" not in text and "cuda:" not in text else None
    return None


_STEADY = (
    *(ast.Name, ast.Attribute, ast.Constant, ast.Compare, ast.BoolOp, ast.UnaryOp),
    *(ast.expr_context, ast.cmpop, ast.boolop, ast.unaryop),
)


def _is_text_of(node: ast.AST) -> bool:
    """`str(device)`."""
    return isinstance(node, ast.Call) and getattr(node.func, "id", "") == "str"


def _only_name(script: Script, target: ast.Name, value: ast.expr) -> list[ast.expr] | None:
    """Return the uses of `target`, another name for the type `value`; None if it may be something else."""
    scope = script.index.scope(target)
    found = scope.find(target.id)
    if found is None or [binding.value for binding in found[1]] != [value]:
        return None
    return list(_uses(script, target, scope))


def _uses(script: Script, target: ast.expr, scope: Scope) -> Iterator[ast.expr]:
    for node in script.index.spelled(target):
        if isinstance(getattr(node, "ctx", None), ast.Load):
            if not isinstance(target, ast.Name) or _same(
                target.id, script.index.scope(node), scope
            ):
                yield node
