"""A slice that starts before the beginning of its tensor raises an exception on XLA.

## What it reports

Slices with a negative start, such as `ids[:, -block_size:]`, of a tensor that may be shorter.

## Why it matters on XLA

On the CPU and on CUDA, such a slice returns the whole tensor. torch_xla 2.9 raises "Value out of
range". Text that is generated token by token begins short.

## What to do

Fix: safe.

Limit the start to 0.

## Example

```diff
 import torch
+from xla_migrate import runtime as xla

 @torch.no_grad()
 def generate(model, steps, block_size):
-    ids = torch.zeros(1, 1, device="cuda")
+    ids = torch.zeros(1, 1, device=xla.xla_device())
     for _ in range(steps):
-        logits = model(ids[:, -block_size:])
+        logits = model(ids[:, max(ids.size(1) - block_size, 0):])
         ids = torch.cat([ids, logits.argmax(-1)], dim=1)
+        xla.mark_step()
     return ids
```

Slices after a test of the length, and slices of the last element, are not reported:

```python
import torch
from xla_migrate import runtime as xla

@torch.no_grad()
def generate(model, steps, block_size):
    ids = torch.zeros(1, 1, device=xla.xla_device())
    for _ in range(steps):
        window = ids if ids.size(1) <= block_size else ids[:, -block_size:]
        logits = model(window, ids[:, -1:])
        ids = torch.cat([ids, logits.argmax(-1)], dim=1)
        xla.mark_step()
    return ids
```
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...analysis.nodes import LOOPS, walk
from ...analysis.script import Script
from ...analysis.syntax import is_literal
from ...analysis.training.shapes.growing_tensor import growing_tensors
from ...edits import Replace
from ...finding import Finding
from ...flow.conditions import conditions
from ...rule import Rule

RULE = Rule("XLA517", "early-slice", of_what_runs=True)

_MESSAGE = (
    "a negative slice start beyond the length of the tensor raises on XLA: limit the start to 0"
)


@RULE.file
def early_slice(script: Script) -> Iterator[Finding]:
    """Of tensors that grow in a loop, and may be short at first."""
    for call in growing_tensors(script):
        statement = script.parent(call)
        assert isinstance(statement, ast.Assign)
        name = ast.unparse(statement.targets[0])
        loop = next(a for a in script.ancestors(call) if isinstance(a, LOOPS))
        for node in walk(loop):
            if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
                if ast.unparse(node.value) != name or _is_asked(script, node, name):
                    continue
                if not _is_split_by_sizes(script, node):
                    yield from _of(script, node)


def _of(script: Script, node: ast.Subscript) -> Iterator[Finding]:
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    for dim, part in enumerate(parts):
        if not isinstance(part, ast.Slice):
            continue
        for edge in (part.lower, part.upper):
            length = _counted_from_the_end(edge)
            if edge is None or length is None:
                continue
            if any(is_literal(p, Ellipsis) for p in parts[:dim]):
                yield RULE.finding(script, edge, _MESSAGE)
            else:
                text = f"max({{0}}.size({dim}) - {{1}}, 0)"
                yield RULE.finding(
                    script, edge, _MESSAGE, Replace(edge, text, (node.value, length))
                )


def _counted_from_the_end(edge: ast.expr | None) -> ast.expr | None:
    """Return the n of `-n`, except 1: one element always exists."""
    match edge:
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=1)):
            return None
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant() | ast.Name() | ast.Attribute() as n):
            return n
    return None


def _is_asked(script: Script, node: ast.AST, name: str) -> bool:
    """Return True if a condition around `node` tests the tensor's length."""
    tests = [ast.unparse(test) for test, _ in conditions(script, node)]
    return any(f"{name}.s" in test or f"len({name})" in test for test in tests)


def _is_split_by_sizes(script: Script, node: ast.Subscript) -> bool:
    """`a, b = x[-n:].split(sizes)`: it fails on all devices if the tensor is shorter."""
    split = script.parent(node)
    call = script.parent(split) if split is not None else None
    match split, call, script.parent(call) if call is not None else None:
        case (
            ast.Attribute(attr="split" | "split_with_sizes"),
            ast.Call(args=[ast.Name() | ast.Attribute() | ast.List(), *_]),
            ast.Assign(targets=[ast.Tuple()]),
        ):
            return True
    return False
