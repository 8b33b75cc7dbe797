"""`non_blocking=True` asks for a copy from pinned host memory, which only CUDA has.

XLA accepts it and does nothing with it: transfers are asynchronous anyway. The device loader's copies are
non-blocking where that means something.

```diff
 import torch

 def move(images, device):
-    return images.to(device, non_blocking=True)
+    return images.to(device)
```

Arguments of that name of other functions stay:

```python
def send(socket, data):
    socket.write(data, non_blocking=True)
```
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
                "`non_blocking` has no effect on XLA: leave it out",
                DropArgument(call, argument),
            )
