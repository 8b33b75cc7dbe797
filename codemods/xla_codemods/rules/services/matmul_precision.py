"""Settings for the precision of float32 matrix products affect CUDA only.

## What it reports

`torch.set_float32_matmul_precision`, `allow_tf32` and `fp32_precision`.

## Why it matters on XLA

A TPU multiplies float32 matrices in bfloat16 by default (fact 1.108).

## What to do

Fix: safe.

Use `xla.set_float32_matmul_precision`, which sets the precision for PyTorch and for the
accelerator. TF32 corresponds to "high".

## Example

```diff
 import torch
+from xla_migrate import runtime as xla

 def setup(args):
-    torch.backends.cuda.matmul.allow_tf32 = True
+    xla.set_float32_matmul_precision("high")
-    torch.backends.cuda.matmul.allow_tf32 = args.tf32
+    xla.set_float32_matmul_precision("high" if args.tf32 else "highest")
-    torch.set_float32_matmul_precision("medium")
+    xla.set_float32_matmul_precision("medium")
-    torch.backends.cuda.matmul.fp32_precision = "ieee"
+    xla.set_float32_matmul_precision("highest")
```

Reductions in lower precision, and reads of the settings, are not reported:

```python
import torch

torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
print(torch.backends.cuda.matmul.allow_tf32, torch.get_float32_matmul_precision())
```
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...analysis.devices.matmul_precision import ALLOW_TF32, precision
from ...analysis.nodes import walk
from ...analysis.scopes import Scope
from ...analysis.script import Script
from ...edits import Replace, ReplaceStatement, remove
from ...finding import WARNING, Finding
from ...rule import Rule

RULE = Rule("XLA129", "matmul-precision", severity=WARNING)

_MESSAGE = (
    "the setting for matrix products has no effect on XLA: use `xla.set_float32_matmul_precision`"
)
_PRECISIONS = {"ieee": "highest", "tf32": "high"}


@RULE.reference(ALLOW_TF32)
def allow_tf32(script: Script, node: ast.expr, scope: Scope) -> Iterator[Finding]:
    statement = _assignment(script, node)
    if statement is not None:
        yield _set(script, node, statement, *precision(statement.value, "{0}"))
    elif isinstance(getattr(node, "ctx", None), ast.Store) and not _sets_cudnn(script, node):
        yield RULE.finding(script, node, _MESSAGE)
    else:
        script.settled.add(node)  # read, or set with cuDNN's


def _sets_cudnn(script: Script, node: ast.expr) -> bool:
    """True if the statement sets a flag of cuDNN, too: XLA128 then sets both."""
    return any(
        (script.dotted(part) or "").startswith("torch.backends.cudnn.")
        for part in walk(script.statement(node))
        if isinstance(part, ast.Attribute) and isinstance(part.ctx, ast.Store)
    )


@RULE.reference("torch.backends.cuda.matmul.fp32_precision", "torch.backends.fp32_precision")
def fp32_precision(script: Script, node: ast.expr, scope: Scope) -> Iterator[Finding]:
    statement = _assignment(script, node)
    if statement is None:
        script.settled.add(node)  # read
        return
    value = statement.value
    new = _PRECISIONS.get(str(value.value)) if isinstance(value, ast.Constant) else None
    if new is None:
        yield RULE.finding(script, node, _MESSAGE)
    else:
        yield _set(script, node, statement, f'"{new}"', ())


@RULE.call("torch.set_float32_matmul_precision")
def matmul_precision(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    if script.trains or script.accelerated:
        edit = Replace(call.func, f"{script.xla}.set_float32_matmul_precision")
        yield RULE.finding(script, call, _MESSAGE, edit)


def _assignment(script: Script, node: ast.expr) -> ast.Assign | None:
    """The statement that sets `node`, and nothing else."""
    parent = script.parent(node)
    return parent if isinstance(parent, ast.Assign) and parent.targets == [node] else None


def _set(
    script: Script,
    node: ast.expr,
    statement: ast.Assign,
    text: str,
    holes: tuple[ast.expr, ...],
) -> Finding:
    if _is_said(script, statement, text):
        return RULE.finding(script, node, _MESSAGE, remove(statement))
    new = f"{script.xla}.set_float32_matmul_precision({text})"
    return RULE.finding(script, node, _MESSAGE, ReplaceStatement(statement, new, holes))


def _is_said(script: Script, statement: ast.stmt, text: str) -> bool:
    """True if the same block calls `set_float32_matmul_precision` with the same text."""
    for other in script.block(statement):
        match other:
            case ast.Expr(value=ast.Call(func=func, args=[ast.Constant(value=str(given))])):
                dotted = script.dotted(func) or ""
                if dotted.endswith(".set_float32_matmul_precision") and text == f'"{given}"':
                    return True
    return False
