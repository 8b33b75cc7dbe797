"""Asking CUDA for bfloat16 answers no on an XLA host, and picks float16.

`torch.cuda.is_bf16_supported()` is False without a CUDA device. TPUs and Trainium have bfloat16.

```diff
 import torch
+from xla_migrate import runtime as xla

-dtype = torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float32
+dtype = torch.bfloat16 if xla.is_bf16_supported() else torch.float32
```
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...edits import Replace
from ...findings import Finding
from ...rule import Rule
from ...syntax import is_handed_on

if TYPE_CHECKING:
    from ...names import Scope
    from ...script import Script

RULE = Rule("XLA210", "bf16-supported")

_MESSAGE = "without a CUDA device this is False"


@RULE.call("torch.cuda.is_bf16_supported")
def called(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    yield RULE.at(script, call, _MESSAGE, Replace(call, f"{script.xla}.is_bf16_supported()"))


@RULE.reference("torch.cuda.is_bf16_supported")
def handed_on(script: Script, node: ast.expr, scope: Scope) -> Iterator[Finding]:
    if is_handed_on(node, script.parents):
        yield RULE.at(script, node, _MESSAGE, Replace(node, f"{script.xla}.is_bf16_supported"))
