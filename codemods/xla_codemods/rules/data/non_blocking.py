"""`non_blocking=True` has no effect on XLA.

## What it reports

`non_blocking=` in copies to the device.

## Why it matters on XLA

The argument requests a copy from pinned host memory, which exists only with CUDA. XLA accepts and
ignores it: transfers are asynchronous anyway.

## What to do

Fix: safe.

Remove the argument. The device loader's copies are non-blocking on CUDA.

## Example

```diff
 import torch

 def move(images, device):
-    return images.to(device, non_blocking=True)
+    return images.to(device)
```

Arguments of the same name of other functions are not reported:

```python
def send(socket, data):
    socket.write(data, non_blocking=True)
```

## See also

XLA402
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...edits import DropArgument
from ...finding import INFO, Finding
from ...rule import Rule

if TYPE_CHECKING:
    from ...analysis.scopes import Scope
    from ...analysis.script import Script

RULE = Rule("XLA403", "non-blocking", severity=INFO)


@RULE.method("to", "copy_")
def non_blocking(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    for argument in call.keywords:
        if argument.arg == "non_blocking":
            yield RULE.finding(
                script,
                argument,
                "`non_blocking` has no effect on XLA: remove the argument",
                DropArgument(call, argument),
            )
