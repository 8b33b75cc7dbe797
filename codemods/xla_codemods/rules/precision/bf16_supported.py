"""`torch.cuda.is_bf16_supported()` is False on an XLA host.

## What it reports

`torch.cuda.is_bf16_supported()`, and tests of CUDA's and NCCL's versions next to it.

## Why it matters on XLA

The script chooses float16, although TPUs and Trainium have bfloat16.

## What to do

Fix: safe.

Use `xla.is_bf16_supported()`.

## Example

```diff
 import torch
+from xla_migrate import runtime as xla

-dtype = torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float32
+dtype = torch.bfloat16 if xla.is_bf16_supported() else torch.float32
```

Tests of CUDA's and NCCL's versions fail or are False on an XLA host. They are removed:

```diff
 import torch
 import torch.distributed as dist
+from xla_migrate import runtime as xla

 def bf16_ready(wanted):
-    return wanted and torch.version.cuda and torch.cuda.is_bf16_supported() and torch.cuda.nccl.version() >= (2, 10)
+    return wanted and xla.is_bf16_supported()
```

The runtime's function is not reported:

```python
import torch
from xla_migrate import runtime as xla

dtype = torch.bfloat16 if xla.is_bf16_supported() else torch.float32
```
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...analysis.scopes import Scope
from ...analysis.script import Script
from ...analysis.syntax import is_handed_on
from ...edits import Replace
from ...finding import Finding
from ...rule import Rule

RULE = Rule("XLA210", "bf16-supported", words=("bf16",))

_MESSAGE = "the call returns False on an XLA host: use `xla.is_bf16_supported`"
_VERSIONS = frozenset(
    {
        "torch.cuda.nccl.version",
        "torch.distributed.is_nccl_available",
        "torch.distributed.distributed_c10d.is_nccl_available",
    }
)


_OF_TRANSFORMERS = tuple(
    f"transformers.{home}is_torch_bf16_gpu_available"
    for home in ("", "utils.", "utils.import_utils.")
)


@RULE.call("torch.cuda.is_bf16_supported", *_OF_TRANSFORMERS)
def called(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    yield RULE.finding(script, call, _MESSAGE, Replace(call, f"{script.xla}.is_bf16_supported()"))


@RULE.node(ast.BoolOp)
def with_versions(script: Script, node: ast.BoolOp, scope: Scope) -> Iterator[Finding]:
    """`torch.version.cuda and torch.cuda.is_bf16_supported() and nccl.version() >= (2, 10)`."""
    if not isinstance(node.op, ast.And) or not any(_is_bf16(script, v, scope) for v in node.values):
        return
    kept = [value for value in node.values if not _asks_for_versions(script, value, scope)]
    if len(kept) < len(node.values):
        text = " and ".join(f"{{{k}}}" for k in range(len(kept)))
        message = "versions of CUDA and NCCL do not apply to an XLA host: use only `xla.is_bf16_supported`"
        yield RULE.finding(script, node, message, Replace(node, text, tuple(kept)))


def _is_bf16(script: Script, node: ast.expr, scope: Scope) -> bool:
    if not isinstance(node, ast.Call):
        return False
    return (script.dotted(node.func, scope) or "").endswith(".is_bf16_supported")


def _asks_for_versions(script: Script, node: ast.expr, scope: Scope) -> bool:
    """True if `node` asks only for CUDA's version, NCCL, or their versions."""
    match node:
        case ast.Compare(left=left, comparators=[right]):
            parts = right.elts if isinstance(right, ast.Tuple) else getattr(right, "args", [right])
            known = bool(parts) and all(isinstance(part, ast.Constant) for part in parts)
            return known and _asks_for_versions(script, left, scope)
        case ast.Call(func=func) if script.dotted(func, scope) in _VERSIONS:
            return True
        case ast.Attribute() if script.dotted(node, scope) == "torch.version.cuda":
            return True
        case ast.Attribute(value=ast.Call() as parsed, attr="release" | "major"):
            return _asks_for_versions(script, parsed, scope)
        case ast.Call(func=ast.Attribute(attr="parse") | ast.Name(), args=[argument], keywords=[]):
            named = ast.unparse(node.func).lower()
            return "version" in named and _asks_for_versions(script, argument, scope)
    return False


@RULE.reference("torch.cuda.is_bf16_supported")
def handed_on(script: Script, node: ast.expr, scope: Scope) -> Iterator[Finding]:
    if is_handed_on(node, script.parents):
        yield RULE.finding(script, node, _MESSAGE, Replace(node, f"{script.xla}.is_bf16_supported"))
