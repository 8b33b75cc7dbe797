"""Figures of CUDA's memory are 0 on an XLA host, or fail.

## What it reports

`torch.cuda.memory_allocated`, `max_memory_allocated`, `mem_get_info`, `memory_stats`,
`memory_summary` and similar functions.

## Why it matters on XLA

Logs show 0, and decisions that depend on memory are wrong.

## What to do

Fix: safe.

Use `xla.memory_info()`. It measures the accelerator's memory, or says that no measurement exists.

## Example

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
-    print(torch.cuda.memory_stats(device).get("active_bytes.all.peak", 0))
+    print(xla.memory_info(device)["peak_bytes_used"])
-    print(torch.cuda.memory_summary(device, abbreviated=True), free / total)
+    print(str(xla.memory_info(device)), free / total)
```

Memory of other objects is not reported:

```python
import psutil

def report(process):
    return psutil.virtual_memory().percent, process.memory_info().rss
```

## Limits

Figures that only CUDA's allocator has are reported without a fix.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...analysis.devices.checks.on_xla import is_guarded
from ...analysis.devices.specs import device_argument
from ...analysis.scopes import Scope
from ...analysis.script import Script
from ...edits import Edit, Replace, remove
from ...finding import INFO, MEDIUM, WARNING, Finding
from ...rule import Rule

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
    "active_bytes.all.current": "bytes_used",
    "active_bytes.all.peak": "peak_bytes_used",
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
    yield RULE.finding(script, call, f"`{name}` is 0 on an XLA host: use `xla.memory_info()`", edit)


@RULE.call(*_everywhere("mem_get_info", *_RESETS))
def renamed(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    name = _last(script, call.func, scope)
    new = "reset_peak_memory_stats" if name in _RESETS else name
    text, holes = script.devices.given(device_argument(call))
    edit: Edit = Replace(call, f"{script.xla}.{new}({text})", holes)
    if name in _RESETS and _follows_a_reset(script, call):
        edit = remove(script.statement(call))
    yield RULE.finding(script, call, f"`{name}` fails on an XLA host: use `xla.{new}`", edit)


def _follows_a_reset(script: Script, call: ast.Call) -> bool:
    """Return True for the second of `reset_max_memory_allocated()` and `reset_max_memory_cached()`: both become one call."""
    statement = script.statement(call)
    block = script.block(statement)
    before = block[: block.index(statement)][-1:]
    match before:
        case [ast.Expr(value=ast.Call(func=ast.Attribute(attr=name)) as other)] if (
            name in _RESETS and script.is_all_of_statement(call)
        ):
            return _arguments(other) == _arguments(call)
    return False


def _arguments(call: ast.Call) -> list[str]:
    return [ast.unparse(part) for part in (*call.args, *call.keywords)]


@RULE.call(*_everywhere("memory_summary"))
def summary(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    text, holes = script.devices.given(device_argument(call))
    edit = Replace(call, f"str({script.xla}.memory_info({text}))", holes)
    yield RULE.finding(
        script, call, "`memory_summary` fails on an XLA host: print `xla.memory_info()`", edit
    )


@RULE.call(*_everywhere("memory_stats"))
def stats(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    message = "`memory_stats` is empty on an XLA host: use `xla.memory_info()`"
    text, holes = script.devices.given(device_argument(call))
    entry = script.parent(call)
    if isinstance(entry, ast.Attribute):
        entry = script.parent(entry)
    match entry:
        case (
            ast.Subscript(slice=ast.Constant(value=str(key)))
            | ast.Call(
                func=ast.Attribute(attr="get"), args=[ast.Constant(value=str(key)), *_], keywords=[]
            )
        ) if key in _STATS:
            new = f'{script.xla}.memory_info({text})["{_STATS[key]}"]'
            yield RULE.finding(script, call, message, Replace(entry, new, holes))
        case ast.Call(func=ast.Attribute(attr="get"), args=[_, ast.Constant(value="n/a")]):
            return  # `memory_stats()` is an empty dictionary without CUDA
        case ast.Subscript(slice=ast.Constant(value=str(key))) if _is_printed(script, entry):
            edit = Replace(entry, f'{{0}}.get("{key}", "n/a")', (call,))
            yield RULE.finding(script, call, message, edit)
        case ast.Assign(targets=[ast.Name()]) if keys := _keys(script, entry):
            edits = [Replace(key, f'"{_STATS[str(key.value)]}"') for key in keys]
            held = Replace(call, f"{script.xla}.memory_info({text})", holes)
            yield RULE.finding(script, call, message, held, *edits)
        case _:
            message += ", which contains the bytes in use, their peak and the limit"
            yield RULE.finding(script, call, message, effort=MEDIUM)


def _is_printed(script: Script, node: ast.expr) -> bool:
    """Return True if a value is printed or logged as it is, so that a text may take its place."""
    parent = script.parent(node)
    if isinstance(parent, ast.FormattedValue):
        return parent.format_spec is None
    name = getattr(
        getattr(parent, "func", None), "id", getattr(getattr(parent, "func", None), "attr", "")
    )
    return isinstance(parent, ast.Call) and name in {"print", "info", "debug", "warning", "str"}


def _keys(script: Script, statement: ast.Assign) -> list[ast.Constant]:
    """Return the entries that code reads from the result of `statement`; none if it is used differently, or has others."""
    target, scope = statement.targets[0], script.index.scope(statement)
    assert isinstance(target, ast.Name)
    found = scope.find(target.id)
    if found is None or len(found[1]) != 1:
        return []
    if scope.node is script.tree and script.is_imported_elsewhere(target.id):
        return []
    keys: list[ast.Constant] = []
    for use, other in script.index.names_of(found[0], target.id):
        if isinstance(use.ctx, ast.Load) and other.find(use.id) == found:
            entry = script.parent(use)
            match script.parent(entry) if isinstance(entry, ast.Attribute) else entry:
                case (
                    ast.Subscript(slice=ast.Constant(value=str(name)) as key)
                    | ast.Call(
                        func=ast.Attribute(attr="get"),
                        args=[ast.Constant(value=str(name)) as key, *_],
                    )
                ) if name in _STATS:
                    keys.append(key)
                case _:
                    return []
    return keys


@RULE.reference(*_everywhere(*_FIGURES, "mem_get_info", "memory_stats", "memory_summary"))
def figure_itself(script: Script, node: ast.expr, scope: Scope) -> Iterator[Finding]:
    name = _last(script, node, scope)
    if name == "mem_get_info":
        edit = Replace(node, f"{script.xla}.mem_get_info")
        yield RULE.finding(script, node, f"`{name}` fails on an XLA host: use `xla.{name}`", edit)
    else:
        message = f"`{name}` is 0 or fails on an XLA host: use `xla.memory_info()`"
        yield RULE.finding(script, node, message, effort=MEDIUM)


@RULE.reference(*_everywhere(*_RESETS))
def reset_itself(script: Script, node: ast.expr, scope: Scope) -> Iterator[Finding]:
    edit = Replace(node, f"{script.xla}.reset_peak_memory_stats")
    yield RULE.finding(
        script, node, "the call fails on an XLA host: use `xla.reset_peak_memory_stats`", edit
    )


@RULE.call(*(f"torch.cuda.{name}" for name in _RECORDINGS))
def recorded(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    message = "XLA keeps no history of allocations: use torch_xla.debug.profiler"
    severity = (
        INFO if is_guarded(script, call) else WARNING
    )  # behind a question for CUDA that stays
    yield RULE.finding(script, call, message, severity=severity, effort=MEDIUM)


def _last(script: Script, node: ast.expr, scope: Scope) -> str:
    return (script.dotted(node, scope) or "").rpartition(".")[2]
