"""Figures of CUDA's memory are 0 on an XLA host, or fail.

`xla.memory_info()` is a real measurement of the accelerator's memory, or says that there is none.

```diff
 import torch
+from xla_migrate import runtime as xla

 def report(device):
-    print(torch.cuda.memory_allocated() / 2**20, torch.cuda.max_memory_allocated(device) / 2**20)
+    print(xla.memory_info()["bytes_used"] / 2**20, xla.memory_info(device)["peak_bytes_used"] / 2**20)
-    free, total = torch.cuda.mem_get_info()
+    free, total = xla.mem_get_info()
-    torch.cuda.reset_peak_memory_stats()
+    xla.reset_peak_memory_stats()
-    print(torch.cuda.memory_summary(device, abbreviated=True), free / total)
+    print(str(xla.memory_info(device)), free / total)
```

Memory of other things stays; what the allocator of CUDA alone could tell is for a person to replace.

```python
import psutil

def report(process):
    return psutil.virtual_memory().percent, process.memory_info().rss
```
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...devices import device_argument
from ...edits import Replace
from ...findings import MEDIUM, WARNING, Finding
from ...rule import Rule

if TYPE_CHECKING:
    from ...names import Scope
    from ...script import Script

RULE = Rule("XLA125", "memory-figures")

_HOMES = ("torch.cuda", "torch.cuda.memory", "torch.accelerator", "torch.accelerator.memory")
_FIGURES = {
    "memory_allocated": "bytes_used",
    "max_memory_allocated": "peak_bytes_used",
    "memory_reserved": "bytes_reserved",
    "memory_cached": "bytes_reserved",
    "max_memory_reserved": "peak_bytes_reserved",
    "max_memory_cached": "peak_bytes_reserved",
}
# Entries of `memory_stats()`.
_STATS = {
    "allocated_bytes.all.current": "bytes_used",
    "allocated_bytes.all.peak": "peak_bytes_used",
    "reserved_bytes.all.current": "bytes_reserved",
    "reserved_bytes.all.peak": "peak_bytes_reserved",
}
_RESETS = ("reset_peak_memory_stats", "reset_max_memory_allocated", "reset_max_memory_cached")
_RECORDINGS = (
    "memory_snapshot",
    "memory.memory_snapshot",
    "memory._record_memory_history",
    "memory._dump_snapshot",
    "memory._snapshot",
    "memory._save_memory_usage",
    "memory._save_segment_usage",
)


def _everywhere(*names: str) -> tuple[str, ...]:
    return tuple(f"{home}.{name}" for home in _HOMES for name in names)


@RULE.call(*_everywhere(*_FIGURES))
def figure(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    name = _last(script, call.func, scope)
    text, holes = script.devices.given(device_argument(call))
    edit = Replace(call, f'{script.xla}.memory_info({text})["{_FIGURES[name]}"]', holes)
    yield RULE.at(script, call, f"`{name}` says 0 on an XLA host", edit)


@RULE.call(*_everywhere("mem_get_info", *_RESETS))
def renamed(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    name = _last(script, call.func, scope)
    new = "reset_peak_memory_stats" if name in _RESETS else name
    text, holes = script.devices.given(device_argument(call))
    edit = Replace(call, f"{script.xla}.{new}({text})", holes)
    yield RULE.at(script, call, f"`{name}` fails without a CUDA driver", edit)


@RULE.call(*_everywhere("memory_summary"))
def summary(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    text, holes = script.devices.given(device_argument(call))
    edit = Replace(call, f"str({script.xla}.memory_info({text}))", holes)
    yield RULE.at(script, call, "`memory_summary` fails on an XLA host", edit)


@RULE.call(*_everywhere("memory_stats"))
def stats(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    message = "`memory_stats` is empty on an XLA host"
    text, holes = script.devices.given(device_argument(call))
    match script.parent(call):
        case ast.Subscript(slice=ast.Constant(value=str(key))) as entry if key in _STATS:
            new = f'{script.xla}.memory_info({text})["{_STATS[key]}"]'
            yield RULE.at(script, call, message, Replace(entry, new, holes))
        case _:
            message += ": `memory_info()` tells what is used, its peak and the limit"
            yield RULE.at(script, call, message, effort=MEDIUM)


@RULE.reference(*_everywhere(*_FIGURES, "mem_get_info", "memory_stats", "memory_summary"))
def figure_itself(script: Script, node: ast.expr, scope: Scope) -> Iterator[Finding]:
    name = _last(script, node, scope)
    if name == "mem_get_info":
        edit = Replace(node, f"{script.xla}.mem_get_info")
        yield RULE.at(script, node, f"`{name}` fails without a CUDA driver", edit)
    else:
        message = f"`{name}` says nothing on an XLA host: ask `memory_info()`"
        yield RULE.at(script, node, message, effort=MEDIUM)


@RULE.reference(*_everywhere(*_RESETS))
def reset_itself(script: Script, node: ast.expr, scope: Scope) -> Iterator[Finding]:
    edit = Replace(node, f"{script.xla}.reset_peak_memory_stats")
    yield RULE.at(script, node, "fails without a CUDA driver", edit)


@RULE.call(*(f"torch.cuda.{name}" for name in _RECORDINGS))
def recorded(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    message = "XLA keeps no history of allocations: profile with torch_xla.debug.profiler"
    yield RULE.at(script, call, message, severity=WARNING, effort=MEDIUM)


def _last(script: Script, node: ast.expr, scope: Scope) -> str:
    return (script.dotted(node, scope) or "").rpartition(".")[2]
