"""Flags of cuDNN have no effect on XLA.

## What it reports

Assignments to flags of `torch.backends.cudnn`, and tests for cuDNN.

## Why it matters on XLA

The flags are accepted and ignored. `cudnn.is_available()` may be True on an XLA host, because it
describes the build of PyTorch.

## What to do

Fix: safe.

Use `xla.set_cudnn`, which sets the flags on CUDA only.

## Example

```diff
 import torch
+from xla_migrate import runtime as xla
-from torch.backends import cudnn

-cudnn.benchmark = True
+xla.set_cudnn(benchmark=True)
-torch.backends.cudnn.deterministic = False
+xla.set_cudnn(deterministic=False)
```

A test for cuDNN becomes a test for CUDA:

```diff
 import torch
+from xla_migrate import runtime as xla

-fast = torch.backends.cudnn.is_available()
+fast = xla.device_type() == "cuda"
```

`cudnn.flags(...)` and reads of a flag do no harm. They are not reported:

```python
import torch

def double_backward(f, x):
    with torch.backends.cudnn.flags(enabled=False):
        return f(x), torch.backends.cudnn.enabled, torch.backends.cudnn.version()
```
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...analysis.devices.matmul_precision import ALLOW_TF32 as MATMUL
from ...analysis.devices.matmul_precision import precision
from ...analysis.scopes import Scope
from ...analysis.script import Script
from ...edits import Edit, Replace, ReplaceStatement, remove
from ...finding import INFO, WARNING, Finding
from ...rule import Rule

RULE = Rule("XLA128", "cudnn", severity=INFO)

_HOME = "torch.backends.cudnn."
_FLAGS = tuple(f"{_HOME}{name}" for name in ("benchmark", "deterministic", "enabled", "allow_tf32"))


@RULE.reference(*_FLAGS, f"{_HOME}fastest")
def flags(script: Script, flag: ast.expr, scope: Scope) -> Iterator[Finding]:
    """`cudnn.benchmark = True`, also several at once, and beside the precision of matrix products (XLA129)."""
    node = script.statement(flag)
    if not isinstance(node, ast.Assign) or not isinstance(getattr(flag, "ctx", None), ast.Store):
        return  # reading a flag is harmless
    given = _given(node)
    names = [script.dotted(target, scope) or "" for target, _ in given]
    first = next((t for (t, _), name in zip(given, names) if name.startswith(_HOME)), flag)
    if first is not flag:
        return  # the first speaks for all
    message = f"`{ast.unparse(first)}` has no effect on XLA: use `xla.set_cudnn`, which sets it on CUDA only"
    if names == [f"{_HOME}fastest"]:  # which never was a flag of torch's
        message = f"`{ast.unparse(first)}` has no effect: remove it"
        yield RULE.finding(script, first, message, remove(node))
    elif any(name not in (*_FLAGS, MATMUL) for name in names):
        if any(name in _FLAGS for name in names):
            yield RULE.finding(script, first, message)
    else:
        yield RULE.finding(script, first, message, _set(script, node, given, names))


def _given(node: ast.Assign) -> list[tuple[ast.expr, ast.expr]]:
    """Every target with its value."""
    pairs: list[tuple[ast.expr, ast.expr]] = []
    for target in node.targets:
        match target, node.value:
            case ast.Tuple(elts=targets), ast.Tuple(elts=values) if len(targets) == len(values):
                pairs += zip(targets, values)
            case _:
                pairs.append((target, node.value))
    return pairs


def _set(
    script: Script, node: ast.Assign, given: list[tuple[ast.expr, ast.expr]], names: list[str]
) -> Edit:
    arguments: list[str] = []
    holes: list[ast.expr] = []
    lines: list[str] = []
    for name, (_, value) in zip(names, given):
        hole = f"{{{len(holes)}}}"
        if name == MATMUL:
            text, kept = precision(value, hole)
            lines.append(f"{script.xla}.set_float32_matmul_precision({text})")
            holes += kept
        else:
            arguments.append(f"{name.removeprefix(_HOME)}={hole}")
            holes.append(value)
    lines.insert(0, f"{script.xla}.set_cudnn({', '.join(arguments)})")
    return ReplaceStatement(node, "\n".join(lines), tuple(holes))


@RULE.call("torch.backends.cudnn.is_available")
def is_available(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    if script.device_literals.is_inside(call):
        return
    edit = Replace(call, f'{script.xla}.device_type() == "cuda"')
    message = "the call describes the build of PyTorch and may be True on an XLA host: also test for a CUDA device"
    yield RULE.finding(script, call, message, edit, severity=WARNING)
