"""Whether NCCL is there says nothing of XLA devices.

torch built for CUDA says that NCCL is available on machines without CUDA too; the group's backend is torch_xla's or gloo. What
such a test wants to know is whether tensors for collectives live on an accelerator.

```diff
 import torch.distributed as dist
+from xla_migrate import runtime as xla

 def pick(x):
-    backend = "nccl" if dist.is_nccl_available() else "gloo"
+    backend = "nccl" if xla.is_available() else "gloo"
-    if dist.get_backend() == "nccl" and dist.is_backend_available("nccl"):
+    if xla.is_available() and xla.is_available():
         x = x.contiguous()
     return backend, x, dist.get_rank()
```

The user's own choice is still what it was:

```python
def setup(args):
    return args.dist_backend == "nccl"
```
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...edits import Replace
from ...findings import Finding
from ...patterns import Pattern
from ...rule import Rule

if TYPE_CHECKING:
    from ...names import Scope
    from ...script import Script

RULE = Rule("XLA608", "backend-test")

_OF_TESTS = Pattern(r"(?:only|skip|requires?)_?\w*nccl", re.IGNORECASE)


@RULE.call(
    "torch.distributed.is_nccl_available",
    "torch.distributed.distributed_c10d.is_nccl_available",
    "torch.distributed.is_backend_available",
)
def is_nccl_available(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    """`is_nccl_available()`, and `is_backend_available("nccl")`."""
    if call.args and not (isinstance(call.args[0], ast.Constant) and call.args[0].value == "nccl"):
        return
    function = script.function(call)
    if function is not None and _OF_TESTS.search(function.name):
        return  # `def requires_nccl(): return skip_if(not is_nccl_available())`
    yield RULE.at(script, call, "NCCL is CUDA's", Replace(call, f"{script.xla}.is_available()"))


@RULE.call("torch.distributed.get_backend")
def get_backend(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    compare = script.parent(call)
    match compare:
        case ast.Compare(ops=[ast.Eq() | ast.NotEq() as op], left=left, comparators=[right]):
            other = right if left is call else left
            if not (isinstance(other, ast.Constant) and other.value == "nccl"):
                return
            negation = "" if isinstance(op, ast.Eq) else "not "
            edit = Replace(compare, f"{negation}{script.xla}.is_available()")
            yield RULE.at(script, compare, "the backend is not NCCL on XLA devices", edit)
