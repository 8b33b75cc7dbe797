"""`torch.cuda.synchronize()` fails without a CUDA driver.

On XLA nothing has even begun where the graph is not cut: timing code without a synchronisation measures tracing alone
(fact 1.51). `xla.synchronize()` cuts the graph and waits.

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

Other things' `synchronize` stays.

```python
def flush(disk):
    disk.synchronize()
```
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...analysis.devices.availability import is_guarded
from ...analysis.devices.specs import device_argument
from ...analysis.inference.values import STREAM
from ...edits import Replace
from ...finding import Finding
from ...rule import Rule

if TYPE_CHECKING:
    from ...analysis.scopes import Scope
    from ...analysis.script import Script

RULE = Rule("XLA121", "synchronize", of_what_runs=True)

_NAMES = ("torch.cuda.synchronize", "torch.accelerator.synchronize")
_MESSAGE = "this does not wait for XLA: use `xla.synchronize`"


@RULE.call(*_NAMES)
def synchronize(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    if is_guarded(script, call):
        script.settled.add(call.func)  # it waits for kernels of CUDA's
        return
    text, holes = script.devices.given(device_argument(call))
    edit = Replace(call, f"{script.xla}.synchronize({text})", holes)
    yield RULE.finding(script, call, _MESSAGE, edit)


@RULE.reference(*_NAMES)
def synchronize_itself(script: Script, node: ast.expr, scope: Scope) -> Iterator[Finding]:
    yield RULE.finding(script, node, _MESSAGE, Replace(node, f"{script.xla}.synchronize"))


@RULE.method("synchronize")
def of_stream(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    assert isinstance(call.func, ast.Attribute)
    if is_guarded(script, call):
        if isinstance(call.func.value, ast.Call):
            script.settled.add(call.func.value.func)
        return
    if script.value(call.func.value, scope).has(STREAM):
        yield RULE.finding(script, call, _MESSAGE, Replace(call, f"{script.xla}.synchronize()"))
