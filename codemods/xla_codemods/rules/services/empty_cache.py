"""XLA has no cache of memory to empty.

## What it reports

`torch.cuda.empty_cache()`, `torch.cuda.ipc_collect()` and caches of FFT plans.

## Why it matters on XLA

The calls fail on an XLA host, which has no CUDA caching allocator.

## What to do

Fix: safe.

Remove the calls, and the `if` that contains nothing else. `gc.collect()` stays.

## Example

```diff
 import gc
 import torch

 def free(step):
     gc.collect()
-    if torch.cuda.is_available():
-        torch.cuda.empty_cache()
-        torch.cuda.ipc_collect()
-    if step % 100 == 0: torch.cuda.empty_cache()
-    if torch.cuda.memory_reserved() > 0.9 * torch.cuda.get_device_properties(0).total_memory:
-        torch.cuda.empty_cache()
```

```diff
 import torch

 def free():
-    torch.cuda.empty_cache()
+    pass
```

Caches of other objects are not reported:

```python
def free(store):
    store.empty_cache()
```
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...analysis.scopes import Scope
from ...analysis.script import Script
from ...edits import Replace, remove
from ...finding import INFO, Finding
from ...rule import Rule

RULE = Rule("XLA126", "empty-cache")

# These do nothing without CUDA; the others fail.
_HARMLESS = (
    "torch.cuda.empty_cache",
    "torch.cuda.memory.empty_cache",
    "torch.accelerator.empty_cache",
    "torch.accelerator.memory.empty_cache",
)
_FAILING = (
    "torch.cuda.ipc_collect",
    "torch.cuda.reset_accumulated_memory_stats",
    "torch.cuda.memory.reset_accumulated_memory_stats",
    "torch.accelerator.reset_accumulated_memory_stats",
    "torch.accelerator.memory.reset_accumulated_memory_stats",
    "torch.cuda.set_sync_debug_mode",
    "torch.backends.cuda.cufft_plan_cache.clear",
    "torch._C._cuda_clearCublasWorkspaces",
    "torch._C._cuda_emptyCache",
    "torch._C._cuda_ipc_collect",
)


@RULE.call(*_HARMLESS)
def empty_cache(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    yield _gone(script, call, "XLA has no cache to empty: remove the call", INFO)


@RULE.call(*_FAILING)
def allocator(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    yield _gone(script, call, f"`{ast.unparse(call.func)}` fails on an XLA host: remove it", None)


@RULE.reference("torch.backends.cuda.cufft_plan_cache.max_size")
def plan_cache(script: Script, node: ast.expr, scope: Scope) -> Iterator[Finding]:
    parent = script.parent(node)
    message = "XLA has no cache of FFT plans: remove the call"
    if isinstance(parent, ast.Assign) and parent.targets == [node]:
        yield RULE.finding(script, node, message, remove(parent))
    else:
        yield RULE.finding(script, node, message)


def _gone(script: Script, call: ast.Call, message: str, severity: str | None) -> Finding:
    if script.is_all_of_statement(call):
        edit = remove(script.statement(call))
        return RULE.finding(script, call, message, edit, severity=severity)
    return RULE.finding(script, call, message, Replace(call, "None"), severity=severity)
