"""`torch.cuda.OutOfMemoryError` is never raised by XLA.

XLA raises a RuntimeError that says RESOURCE_EXHAUSTED, and mostly when it compiles: the same shapes fail again. A
handler that skips the batch or halves it has to be thought over, so nothing is changed.

```python
import torch

def step(model, batch):
    try:
        return model(batch)
    except torch.cuda.OutOfMemoryError:  # XLA131
        return None
```

Nor does XLA write the message as CUDA does: it says "Out of memory".

```diff
 import torch
+from xla_migrate import runtime as xla

 def step(model, batch):
     try:
-        return model(batch.cuda())
+        return model(batch.to(xla.xla_device()))
     except RuntimeError as error:
         if "out of memory" in str(error):  # XLA131
             return None
         if "out of memory" in str(error).lower():
             return None
         raise
```

Other errors are no business of this rule, and where torch's `empty_cache` goes, the handler stays:

```diff
 import torch

 def step(model, batch):
     try:
         return model(batch)
     except RuntimeError as error:
-        torch.cuda.empty_cache()
         raise error
```

A handler of other errors stays.

```python
import torch

def step(model, batch):
    try:
        return model(batch)
    except (RuntimeError, MemoryError):
        return None
```
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...finding import MEDIUM, WARNING, Finding
from ...rule import Rule

if TYPE_CHECKING:
    from ...analysis.scopes import Scope
    from ...analysis.script import Script

RULE = Rule("XLA131", "out-of-memory", severity=WARNING, effort=MEDIUM)

_MESSAGE = "XLA raises RuntimeError (RESOURCE_EXHAUSTED) when memory runs out, mostly while compiling: catch that too"


@RULE.reference("torch.cuda.OutOfMemoryError", "torch.OutOfMemoryError")
def out_of_memory(script: Script, node: ast.expr, scope: Scope) -> Iterator[Finding]:
    yield RULE.finding(script, node, _MESSAGE)


@RULE.node(ast.Compare)
def by_message(script: Script, node: ast.Compare, scope: Scope) -> Iterator[Finding]:
    """`"CUDA out of memory" in str(error)`, `"out of memory" not in error.args[0]`."""
    match node:
        case ast.Compare(
            left=ast.Constant(value=str(text)),
            ops=[ast.In() | ast.NotIn()],
            comparators=[message],
        ):
            if text.startswith("CUDA") and "memory" in text:
                yield RULE.finding(script, node, _MESSAGE)
            elif "out of memory" in text and not _is_in_small_letters(message):
                if script.runs_accelerated and not script.source.mentions("RESOURCE_EXHAUSTED"):
                    yield RULE.finding(script, node, _MESSAGE)


def _is_in_small_letters(message: ast.expr) -> bool:
    """`str(error).lower()`: XLA's "Out of memory" is found there."""
    return (
        isinstance(message, ast.Call)
        and isinstance(message.func, ast.Attribute)
        and message.func.attr in {"lower", "casefold"}
    )
