"""Environment variables of accelerate select features that XLA does not have.

## What it reports

`ACCELERATE_MIXED_PRECISION=fp16`, and variables that select FSDP, DeepSpeed, Megatron-LM or a
compiler.

## Why it matters on XLA

accelerate reads these variables for arguments that the script does not pass. float16 trains with
a GradScaler, which reads from the device in each step. The other features need CUDA or arguments
in the script.

## What to do

Fix: safe, or none.

Use bfloat16. Remove the other variables, or move the setting into the script.

## Example

```diff
 import os
 from accelerate import Accelerator
 from xla_migrate import runtime as xla

-os.environ["ACCELERATE_MIXED_PRECISION"] = "fp16"
+os.environ["ACCELERATE_MIXED_PRECISION"] = "fp16" if xla.device_type() == "cuda" else "bf16"
 xla.patch_accelerate()
 accelerator = Accelerator()
```

Variables of other features are reported without a fix:

```python
import os

os.environ["ACCELERATE_USE_FSDP"] = "true"  # XLA817
os.environ.setdefault("ACCELERATE_DYNAMO_BACKEND", "inductor")  # XLA817
os.environ.update(ACCELERATE_USE_DEEPSPEED="true")  # XLA817
```

Other values and other variables are not reported:

```python
import os

os.environ["ACCELERATE_MIXED_PRECISION"] = "bf16"
os.environ["ACCELERATE_USE_FSDP"] = "false"
os.environ["ACCELERATE_LOG_LEVEL"] = "info"
```

## See also

XLA802
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...analysis.frameworks.arguments import only_on_cuda
from ...analysis.frameworks.values import HALF, OF_ENVIRONMENT
from ...analysis.scopes import Scope
from ...analysis.script import Script
from ...finding import MEDIUM, WARNING, Finding
from ...rule import Rule

RULE = Rule("XLA817", "accelerate-environment", severity=WARNING, effort=MEDIUM)


@RULE.reference("os.environ")
def variable(script: Script, node: ast.expr, scope: Scope) -> Iterator[Finding]:
    """`os.environ["X"] = "y"`, and `dict(os.environ, X="y")`, `{**os.environ, "X": "y"}`."""
    parent = script.parent(node)
    match parent:
        case ast.Subscript(slice=ast.Constant(value=str(name)), ctx=ast.Store()):
            statement = script.parent(parent)
            if isinstance(statement, ast.Assign):
                yield from _set(script, name, statement.value)
        case ast.Dict() | ast.Call(func=ast.Name(id="dict")):
            yield from _put(script, parent)


@RULE.call("os.environ.setdefault", "os.putenv")
def by_call(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    match call.args:
        case [ast.Constant(value=str(name)), value]:
            yield from _set(script, name, value)


@RULE.call("os.environ.update")
def updated(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    for given in (call, *call.args):
        yield from _put(script, given)


def _put(script: Script, node: ast.AST) -> Iterator[Finding]:
    """Variables that are the entries of a dictionary, or the arguments of a call."""
    if isinstance(node, ast.Dict):
        for key, value in zip(node.keys, node.values):
            if isinstance(key, ast.Constant):
                yield from _set(script, str(key.value), value)
    elif isinstance(node, ast.Call):
        for argument in node.keywords:
            yield from _set(script, argument.arg or "", argument.value)


def _set(script: Script, name: str, value: ast.expr) -> Iterator[Finding]:
    fault = OF_ENVIRONMENT.get(name)
    message = fault(value.value) if fault is not None and isinstance(value, ast.Constant) else ""
    if message:
        edits = [only_on_cuda(script, value, '"bf16"')] if message == HALF else []
        yield RULE.finding(script, value, message, *edits)
