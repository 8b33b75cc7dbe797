"""Flags of cuDNN mean nothing on XLA.

They are accepted and do nothing there. `xla.set_cudnn` sets them where there is CUDA, and says so.

```diff
 import torch
+from xla_migrate import runtime as xla
-from torch.backends import cudnn

-cudnn.benchmark = True
+xla.set_cudnn(benchmark=True)
-torch.backends.cudnn.deterministic = False
+xla.set_cudnn(deterministic=False)
```

That there is a cuDNN is said on an XLA host as well:

```diff
 import torch
+from xla_migrate import runtime as xla

-fast = torch.backends.cudnn.is_available()
+fast = xla.device_type() == "cuda"
```

`cudnn.flags(...)` and questions for a flag do no harm, and stay.

```python
import torch

def double_backward(f, x):
    with torch.backends.cudnn.flags(enabled=False):
        return f(x), torch.backends.cudnn.enabled, torch.backends.cudnn.version()
```
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...edits import Replace, ReplaceStatement
from ...findings import INFO, WARNING, Finding
from ...rule import Rule

if TYPE_CHECKING:
    from ...names import Scope
    from ...script import Script

RULE = Rule("XLA128", "cudnn", severity=INFO)

_FLAGS = tuple(
    f"torch.backends.cudnn.{name}"
    for name in ("benchmark", "deterministic", "enabled", "allow_tf32")
)


@RULE.reference(*_FLAGS)
def flag(script: Script, node: ast.expr, scope: Scope) -> Iterator[Finding]:
    parent = script.parent(node)
    if not isinstance(parent, ast.Assign) or node not in parent.targets:
        return
    message = f"`{ast.unparse(node)}` does nothing on XLA"
    flags = [_flag(script, target, scope) for target in parent.targets]
    if parent.targets[0] is not node:
        return  # of `a = b = True`, the first speaks for all
    if None in flags:
        yield RULE.at(script, node, message)
        return
    arguments = ", ".join(f"{name}={{{k}}}" for k, name in enumerate(flags))
    edit = ReplaceStatement(
        parent, f"{script.xla}.set_cudnn({arguments})", (parent.value,) * len(flags)
    )
    yield RULE.at(script, node, message, edit)


def _flag(script: Script, target: ast.expr, scope: Scope) -> str | None:
    dotted = script.dotted(target, scope)
    return dotted.rpartition(".")[2] if dotted in _FLAGS else None


@RULE.call("torch.backends.cudnn.is_available")
def is_available(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    if script.places.is_inside(call):
        return
    edit = Replace(call, f'{script.xla}.device_type() == "cuda"')
    message = "says that there is cuDNN, also where there is no CUDA device"
    yield RULE.at(script, call, message, edit, severity=WARNING)
