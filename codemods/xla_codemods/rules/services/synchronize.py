"""`torch.cuda.synchronize()` fails without a CUDA driver.

## What it reports

`torch.cuda.synchronize()`, and `synchronize()` of streams and devices.

## Why it matters on XLA

On XLA, nothing runs before the graph ends. Code that measures time without a synchronisation
measures only tracing (fact 1.51).

## What to do

Fix: safe.

Use `xla.synchronize()`, which ends the graph and waits.

## Example

```diff
 import time
 import torch
+from xla_migrate import runtime as xla

 def timed(model, x):
-    torch.cuda.synchronize()
+    xla.synchronize()
     start = time.time()
     model(x)
-    torch.cuda.current_stream().synchronize()
+    xla.synchronize()
     return time.time() - start
```

If the function and the step measure no time, and the file has no non-blocking copy to the host, a
synchronisation in each step only prevents the host from tracing the next step. It is removed:

```diff
 import torch
+from xla_migrate import runtime as xla

 def train(model, batches, optimizer):
-    for x in batches:
+    for x in xla.MpDeviceLoader(batches):
-        loss = model(x.cuda()).mean()
+        loss = model(x.to(xla.xla_device())).mean()
         optimizer.zero_grad()
         loss.backward()
-        optimizer.step()
-        torch.cuda.synchronize()
+        xla.optimizer_step(optimizer)
```

A function whose name says that it synchronises keeps doing so, for all its callers:

```diff
 import torch
+from xla_migrate import runtime as xla

 def synchronize_all(device):
-    torch.cuda.synchronize(device)
+    xla.synchronize(device)
```

`synchronize` of other objects is not reported:

```python
def flush(disk):
    disk.synchronize()
```
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from ...analysis.devices.checks.on_xla import is_guarded
from ...analysis.devices.specs import device_argument
from ...analysis.inference.values import HOST, STREAM
from ...analysis.scopes import Scope
from ...analysis.script import Script
from ...analysis.syntax import is_off, keyword
from ...analysis.training.turns import in_each_step
from ...edits import Replace, remove
from ...finding import Finding
from ...patterns import Pattern
from ...rule import MethodCall, Rule

RULE = Rule("XLA121", "synchronize", of_what_runs=True)

_NAMES = ("torch.cuda.synchronize", "torch.accelerator.synchronize")
_MESSAGE = "the call does not wait for the XLA device: use `xla.synchronize`"
_IN_EACH_STEP = "the wait in every step leaves the device idle while the host traces the next step, and no time is measured there: remove the call"
_CLOCK = Pattern(r"(?:^|_)(?:time|timer|timeit|clock|elapsed|perf|tic|toc|event)(?:_|$)")

_SYNCHRONISES = Pattern(r"(?<!a)sync", re.IGNORECASE)  # a function for other processes, too


@RULE.call(*_NAMES)
def synchronize(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    if is_guarded(script, call):
        script.settled.add(call.func)  # it waits for kernels of CUDA's
        return
    statement = script.parent(call)
    home = script.function(call)
    is_asked_for = home is not None and _SYNCHRONISES.search(home.name) is not None
    if isinstance(statement, ast.Expr) and not is_asked_for and call in in_each_step(script):
        if not _reads_a_clock(script, call) and not script.cached(_copies_to_the_host):
            yield RULE.finding(script, call, _IN_EACH_STEP, remove(statement))
            return
    text, holes = script.devices.given(device_argument(call))
    edit = Replace(call, f"{script.xla}.synchronize({text})", holes)
    yield RULE.finding(script, call, _MESSAGE, edit)


def _reads_a_clock(script: Script, call: ast.Call) -> bool:
    """True if something in the function of `call`, or in each step, is called a clock or a time: `time.time()`,
    `timer.tick()`, `start.elapsed_time(end)`.
    """
    steps, function = in_each_step(script), script.function(call)
    return any(
        node in steps or script.function(node) is function for node in script.cached(_clocks)
    )


def _clocks(script: Script) -> list[ast.expr]:
    names = [(node, node.id) for node, _ in script.index.of(ast.Name)]
    attributes = [(node, node.attr) for node, _ in script.index.of(ast.Attribute)]
    return [node for node, name in (*names, *attributes) if _CLOCK.search(name.lower())]


def _copies_to_the_host(script: Script) -> bool:
    """Return True if a copy to the host may still be running: `x.to("cpu", non_blocking=True)`, `buffer.copy_(x, True)`."""
    return any(
        (is_copy or script.value(call, scope).has(HOST)) and _does_not_wait(call, is_copy)
        for name, is_copy in (("to", False), ("copy_", True))
        for call, scope in script.index.calls_of(name)
    )


def _does_not_wait(call: ast.Call, is_copy: bool) -> bool:
    given = keyword(call, "non_blocking")
    if given is None and is_copy and len(call.args) > 1:
        given = call.args[1]
    return given is not None and not is_off(given)


@RULE.reference(*_NAMES)
def synchronize_itself(script: Script, node: ast.expr, scope: Scope) -> Iterator[Finding]:
    yield RULE.finding(script, node, _MESSAGE, Replace(node, f"{script.xla}.synchronize"))


@RULE.method("synchronize")
def of_stream(script: Script, call: MethodCall, scope: Scope) -> Iterator[Finding]:
    if is_guarded(script, call):
        if isinstance(call.func.value, ast.Call):
            script.settled.add(call.func.value.func)
        return
    if script.value(call.func.value, scope).has(STREAM):
        yield RULE.finding(script, call, _MESSAGE, Replace(call, f"{script.xla}.synchronize()"))
