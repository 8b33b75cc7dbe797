"""The device loader replaces a hand-written CUDA prefetcher.

## What it reports

Classes that keep `iter(loader)` and move the next batch on a CUDA stream.

## Why it matters on XLA

CUDA streams do not exist on XLA.

## What to do

Fix: safe.

Use `xla.MpDeviceLoader`, which prefetches batches to the device, and remove the stream.

## Example

```diff
 import torch
+from xla_migrate import runtime as xla

 class Prefetcher:
     def __init__(self, loader):
-        self.loader = iter(loader)
+        self.loader = iter(xla.MpDeviceLoader(loader))
-        self.stream = torch.cuda.Stream()
         self.preload()

     def preload(self):
         self.image, self.label = next(self.loader)
-        with torch.cuda.stream(self.stream):
-            self.image = self.image.cuda(non_blocking=True)
-            self.label = self.label.cuda(non_blocking=True)
+        self.image = self.image.to(xla.xla_device(), non_blocking=True)
+        self.label = self.label.to(xla.xla_device(), non_blocking=True)

     def next(self):
-        torch.cuda.current_stream().wait_stream(self.stream)
         image, label = self.image, self.label
         self.preload()
         return image, label
```

Classes that iterate without a stream are not reported:

```python
class Endless:
    def __init__(self, loader):
        self.iterator = iter(loader)

    def __next__(self):
        return next(self.iterator)
```

## See also

XLA401
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from ...analysis.inference.values import DEVICE_LOADER
from ...analysis.nodes import walk
from ...analysis.scopes import Scope
from ...analysis.script import Script
from ...analysis.syntax import name_of
from ...edits import Replace
from ...finding import WARNING, Finding
from ...patterns import Pattern
from ...rule import Rule

RULE = Rule("XLA404", "prefetcher", severity=WARNING, words=("stream",))

# What a class has that hands batches out.
_FEEDS = frozenset({"__iter__", "__next__", "next", "preload", "prefetch"})
_MOVES = Pattern(r"^to$|cuda|device|gpu|move|send|transfer", re.IGNORECASE)
_STREAMS = frozenset({"torch.cuda.Stream", "torch.cuda.stream"})


@RULE.node(ast.ClassDef)
def prefetcher(script: Script, node: ast.ClassDef, scope: Scope) -> Iterator[Finding]:
    if not (script.index.calls_of("Stream") or script.index.calls_of("stream")):
        return
    if not any(isinstance(n, ast.FunctionDef) and n.name in _FEEDS for n in node.body):
        return
    calls = [n for n in walk(node) if isinstance(n, ast.Call)]
    if not any(script.dotted(call.func) in _STREAMS for call in calls):
        return
    if not any(_MOVES.search(name_of(call.func)) for call in calls):
        return  # an iterator over indices
    for call in calls:
        if not (isinstance(call.func, ast.Name) and call.func.id == "iter" and len(call.args) == 1):
            continue
        loader = call.args[0]
        if not script.value(loader).has(DEVICE_LOADER):
            edit = Replace(loader, f"{script.xla}.MpDeviceLoader({{0}})", (loader,))
            yield RULE.finding(
                script,
                call,
                "prefetching on a CUDA stream fails on an XLA host: use `xla.MpDeviceLoader`, which loads ahead",
                edit,
            )
