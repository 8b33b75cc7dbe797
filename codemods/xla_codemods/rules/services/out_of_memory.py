"""XLA never raises `torch.cuda.OutOfMemoryError`.

## What it reports

Handlers of `torch.cuda.OutOfMemoryError`, and tests for the text "out of memory".

## Why it matters on XLA

XLA raises a RuntimeError with RESOURCE_EXHAUSTED, mostly during compilation, so the same shapes
fail again. Its text contains "Out of memory" with a capital letter.

## What to do

Fix: none.

Also catch RuntimeError, and compare the text in lower case. Check whether it is still useful to
skip or halve the batch.

## Example

```python
import torch

def step(model, batch):
    try:
        return model(batch)
    except torch.cuda.OutOfMemoryError:  # XLA131
        return None
```

Tests of the text:

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

Other errors are not reported. The handler stays if `empty_cache` is removed from it:

```diff
 import torch

 def step(model, batch):
     try:
         return model(batch)
     except RuntimeError as error:
-        torch.cuda.empty_cache()
         raise error
```

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

from ...analysis.scopes import Scope
from ...analysis.script import Script
from ...finding import MEDIUM, WARNING, Finding
from ...rule import Rule

RULE = Rule("XLA131", "out-of-memory", severity=WARNING, effort=MEDIUM, words=("memory",))

_MESSAGE = "XLA raises RuntimeError (RESOURCE_EXHAUSTED) when memory runs out, mostly during compilation: catch RuntimeError as well"
_TEXT = 'XLA\'s message says RESOURCE_EXHAUSTED and `Out of memory`, which `{}` does not match: test for `"out of memory" in str(error).lower()`'


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
                yield RULE.finding(script, node, _TEXT.format(text))
            elif "out of memory" in text and not _is_in_small_letters(message):
                if script.runs_accelerated and not script.source.mentions("RESOURCE_EXHAUSTED"):
                    yield RULE.finding(script, node, _TEXT.format(text))


def _is_in_small_letters(message: ast.expr) -> bool:
    """`str(error).lower()`: XLA's "Out of memory" is found there."""
    return (
        isinstance(message, ast.Call)
        and isinstance(message.func, ast.Attribute)
        and message.func.attr in {"lower", "casefold"}
    )
