"""CUDA streams do not exist on XLA.

## What it reports

`torch.cuda.Stream`, `torch.cuda.stream`, `wait_stream`, `record_stream` and tests for streams.

## Why it matters on XLA

Streams cannot be created on an XLA host. XLA orders its work itself.

## What to do

Fix: safe.

Delete the streams and keep the code inside them. Results are the same, because streams only relax
the order. To overlap copies with computation, use the device loader (XLA401).

## Example

```diff
 import torch
+from xla_migrate import runtime as xla

 def copy(batch):
-    stream = torch.cuda.Stream()
-    stream.wait_stream(torch.cuda.current_stream())
-    with torch.cuda.stream(stream):
-        batch = batch.cuda(non_blocking=True)
+    batch = batch.to(xla.xla_device(), non_blocking=True)
-    torch.cuda.current_stream().wait_stream(stream)
-    if batch is not None:
-        batch.record_stream(torch.cuda.current_stream())
     return batch
```

A context that is stored or passed becomes one that does nothing:

```diff
-from functools import partial
 import torch
+import contextlib

 def overlap(copy):
-    stream = torch.cuda.Stream()
-    context = partial(torch.cuda.stream, stream)
+    context = contextlib.nullcontext
     with context():
         copy()
```

A stream that is passed becomes None, which PyTorch's functions treat as the current stream:

```diff
 import torch

 def build(make):
-    return make(stream=torch.cuda.Stream())
+    return make(stream=None)
```

A test for a stream is removed if both branches are the same without streams:

```diff
 import torch

 class Loader:
     def __init__(self, device):
         self.device = device
-        self.stream = torch.cuda.Stream() if device.type == "cuda" else None

     def move(self, x):
-        if self.stream is None:
-            x = x.to(self.device)
-        else:
-            with torch.cuda.stream(self.stream):
-                x = x.to(self.device, non_blocking=True)
-            torch.cuda.current_stream().wait_stream(self.stream)
+        x = x.to(self.device)
         return x
```

Streams of other objects are not reported:

```python
import sys

def read(stream=sys.stdin):
    with open("log") as log:
        return stream.read(), log
```

## See also

XLA404
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...analysis.devices.cuda_only.streams import (
    CONTEXTS,
    STREAMS,
    asks_for_it,
    binds_a_stream,
    goes,
    is_context,
    is_default,
    is_needed,
    is_ordering,
    orders_streams,
    same_both_ways,
    stay,
    uses_left,
    uses_of,
)
from ...analysis.inference.values import STREAM
from ...analysis.scopes import Scope
from ...analysis.script import Script
from ...analysis.syntax import unparsed
from ...edits import DropArgument, DropItem, Edit, Replace, ReplaceStatement, Unwrap, remove
from ...finding import ERROR, INFO, MEDIUM, Finding
from ...rule import Rule

RULE = Rule("XLA123", "stream", of_what_runs=True, words=("stream",))

_MESSAGE = "CUDA streams do not exist on XLA: delete the stream and keep the code inside it; to prefetch, iterate over `xla.MpDeviceLoader`"
_SAME = "without streams, which XLA does not have, both branches are the same: keep one"


@RULE.file
def streams(script: Script) -> Iterator[Finding]:
    """All uses of streams in the file, or none: work that stays on a stream needs what orders it."""
    needed = set(script.needed)
    found = list(_all(script))
    if all(finding.edits for finding in found) and not stay(script):
        yield from found
    else:
        script.needed &= needed
        for finding in found:
            yield finding._replace(edits=(), safety=None, effort=MEDIUM)


def _all(script: Script) -> Iterator[Finding]:
    index = script.index
    yield from _named(script)
    entering: list[tuple[ast.With | ast.AsyncWith, Scope]]
    entering = [*index.of(ast.With), *index.of(ast.AsyncWith)]
    for node, _ in entering:
        yield from _entered(script, node)
    for branch, _ in index.of(ast.If):
        if kept := same_both_ways(script, branch):
            yield RULE.finding(script, branch.test, _SAME, Unwrap(branch, kept))
    for call, scope in index.of(ast.Call):
        dotted = script.dotted(call.func, scope)
        if dotted in STREAMS:
            yield from _made(script, call)
        elif dotted in CONTEXTS:
            yield from _context(script, call)
        elif is_ordering(script, call):
            yield _gone(script, call)
        else:
            yield from _on_stream(script, call, scope)


def _entered(script: Script, node: ast.With | ast.AsyncWith) -> Iterator[Finding]:
    items = [item for item in node.items if is_context(script, item.context_expr)]
    for item in items:
        edit = Unwrap(node) if len(items) == len(node.items) else DropItem(node, item)
        yield RULE.finding(script, item.context_expr, _MESSAGE, edit)


def _context(script: Script, call: ast.Call) -> Iterator[Finding]:
    """A stream's context that no `with` enters here."""
    chosen: ast.expr = call
    parent = script.parent(call)
    if isinstance(parent, ast.IfExp) and is_context(script, parent):
        chosen, parent = parent, script.parent(parent)
    if not isinstance(parent, ast.withitem):
        yield RULE.finding(script, chosen, _MESSAGE, Replace(chosen, f"{_nothing(script)}()"))


def _nothing(script: Script) -> str:
    """The context that does nothing, by its name."""
    script.needed.add("contextlib")
    return "contextlib.nullcontext"


def _gone(script: Script, call: ast.Call) -> Finding:
    if not orders_streams(script, call):
        return RULE.finding(script, call, _MESSAGE)
    if script.is_statement(call):
        return RULE.finding(script, call, _MESSAGE, remove(script.statement(call)))
    return RULE.finding(script, call, _MESSAGE, Replace(call, "None"))


def _on_stream(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    """`event.record(stream)`: there is one stream."""
    match call:
        case ast.Call(func=ast.Attribute(attr="record" | "wait"), args=[stream], keywords=[]):
            argument: ast.expr | ast.keyword = stream
        case ast.Call(
            func=ast.Attribute(attr="record" | "wait"), args=[], keywords=[ast.keyword() as named]
        ):
            argument, stream = named, named.value
        case _:
            return
    if script.value(stream, scope).has(STREAM):
        yield RULE.finding(script, call, _MESSAGE, DropArgument(call, argument))


def _made(script: Script, call: ast.Call) -> Iterator[Finding]:
    """Where a stream is made or fetched: it goes with its uses."""
    if goes(script, call):
        return
    if is_needed(script, call):
        yield RULE.finding(script, call, _MESSAGE)
        return
    chosen: ast.expr = call
    parent = script.parent(call)
    if isinstance(parent, ast.IfExp) and parent.test is not call:
        chosen, parent = parent, script.parent(parent)
    match parent:
        case ast.Assign(targets=[ast.Name() | ast.Attribute() as target]):
            yield _kept(script, call, chosen, parent, target)
        case ast.BoolOp(op=ast.Or(), values=[given, last]) if last is chosen:
            yield RULE.finding(script, call, _MESSAGE, _given(script, parent, given))
        case ast.Expr():
            yield RULE.finding(script, call, _MESSAGE, remove(parent))
        case _:
            yield RULE.finding(script, call, _MESSAGE, Replace(chosen, "None"))


def _named(script: Script) -> Iterator[Finding]:
    """The context's class passed on."""
    names: list[tuple[ast.expr, Scope]] = [
        *((n, s) for n, s in script.index.of(ast.Attribute) if n.attr in _CONTEXT_NAMES),
        *((n, s) for n, s in script.index.of(ast.Name) if n.id in _CONTEXT_NAMES),
    ]
    for node, scope in names:
        parent = script.parent(node)
        if isinstance(parent, ast.Attribute) or (
            isinstance(parent, ast.Call) and parent.func is node
        ):
            continue
        if script.dotted(node, scope) in CONTEXTS and not script.is_annotation(node):
            if _is_in_a_branch_that_goes(script, node):
                continue
            if binds_a_stream(script, parent) and isinstance(parent, ast.Call):
                yield RULE.finding(script, node, _MESSAGE, Replace(parent, _nothing(script)))
                continue
            is_type_test = (
                isinstance(parent, ast.Call) and getattr(parent.func, "id", "") == "isinstance"
            )
            yield RULE.finding(script, node, _MESSAGE, severity=INFO if is_type_test else ERROR)


def _is_in_a_branch_that_goes(script: Script, node: ast.AST) -> bool:
    for child, ancestor in script.upward(node):
        if isinstance(ancestor, ast.If) and (kept := same_both_ways(script, ancestor)):
            return child in (ancestor.body if kept == "orelse" else ancestor.orelse)
    return False


_CONTEXT_NAMES = frozenset(name.rpartition(".")[2] for name in CONTEXTS)


def _kept(
    script: Script, call: ast.Call, value: ast.expr, statement: ast.Assign, target: ast.expr
) -> Finding:
    """A stream under a name: it is removed if all its uses are; a test of it chooses a branch, which the user must do."""
    text = unparsed(target)
    uses = uses_of(script, value, target)
    left = uses_left(script, value, target)
    given = any(asks_for_it(script, use, text) for use in uses)
    if is_default(script, statement, text) or (
        not left and not given and _all_seen(script, target, uses)
    ):
        return RULE.finding(
            script, call, _MESSAGE, remove(statement), *_without_deletion(script, text)
        )
    return RULE.finding(script, call, _MESSAGE, Replace(value, "None"))


def _all_seen(script: Script, target: ast.expr, uses: list[ast.expr]) -> bool:
    """Return True if no other code can use what `target` names."""
    if uses or isinstance(target, ast.Attribute):
        return bool(uses)
    return isinstance(target, ast.Name) and not script.is_imported_elsewhere(target.id)


def _given(script: Script, choice: ast.BoolOp, given: ast.expr) -> Edit:
    """`stream or torch.cuda.current_stream()` is what was given."""
    parent = script.parent(choice)
    match parent:
        case ast.Assign(targets=[target]) if unparsed(target) == unparsed(given):
            return remove(parent)
    return Replace(choice, "{0}", (given,))


def _without_deletion(script: Script, name: str) -> Iterator[Edit]:
    """`del stream` goes with it, and `del stream, x` deletes `x`."""
    for statement, _ in script.index.of(ast.Delete):
        targets = [unparsed(target) for target in statement.targets]
        if name in targets:
            rest = ", ".join(target for target in targets if target != name)
            yield ReplaceStatement(statement, f"del {rest}" if rest else "")
