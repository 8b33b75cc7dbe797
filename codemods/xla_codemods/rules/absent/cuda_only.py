"""A name that only CUDA has, and that no other rule deals with.

The catalog has a row for every such name of torch, and for the packages that compute on CUDA devices only; the
message says what the row says. `xla-migrate explain torch.cuda.cudart` prints the row, and docs/catalog.md all of
them.

```diff
 import torch
+from xla_migrate import runtime as xla

-if torch.cuda.is_available():
+if xla.is_available():
     torch.cuda.current_blas_handle()  # XLA906
```

What is imported from a package that an XLA host does not have, and not used, would fail for nothing:

```diff
 import torch
-from apex.optimizers import FusedLAMB
-from deepspeed.ops.adam import DeepSpeedCPUAdam, FusedAdam

 def step(model):
-    return FusedAdam(model.parameters(), lr=0.1)
+    return torch.optim.AdamW(model.parameters(), lr=0.1, weight_decay=0.0)
```

What is imported only where it is installed is no fault, but worth knowing. What stays right without CUDA is no
finding at all:

```python
import torch

print(torch.version.cuda)
```

A library that starts the processes, shards and steps by itself is named once, whatever of it is used:

```python
from megatron.core import parallel_state
from megatron.core.utils import get_model_config

def begin(model):
    parallel_state.initialize_model_parallel(2)  # XLA906
    return get_model_config(model)
```

Names of one's own are not confused with the libraries':

```python
class apex:
    def initialize(self):
        return self

apex().initialize()
```
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...analysis.cuda_names import Use, is_second_name
from ...catalog import CATCH_ALL, covering
from ...catalog.families import is_cuda_only
from ...fallback import found, leftovers
from ...finding import MEDIUM, Finding
from ...rule import Rule, Unhandled

if TYPE_CHECKING:
    from ...analysis.scopes import Scope
    from ...analysis.script import Script

RULE = Rule(CATCH_ALL, "cuda-only")


@RULE.fallback
def cuda_only(script: Script, unhandled: Unhandled) -> Iterator[Finding]:
    yield from leftovers(RULE, script, unhandled)


@RULE.call("importlib.import_module")
def imported_by_name(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    match call.args:
        case [ast.Constant(value=str(name)), *_] if is_cuda_only(name):
            if is_second_name(script.parent(call), call, name, scope):
                return  # torch has it, CUDA or not, and its uses are found by the new name
            row = covering(name)
            if row is not None:
                yield found(RULE, script, Use(call, name, True), row, MEDIUM)
