"""A name that only CUDA has, and that no other rule covers.

## What it reports

Uses of names in the catalog without a specific rule, and unused imports from packages that an
XLA host does not have.

## Why it matters on XLA

The name fails, or has no effect, without CUDA. The finding gives the details. `xla-migrate
explain torch.cuda.cudart` prints the row of a name, and [the catalog](../catalog.md) lists all
names.

## What to do

Fix: safe, or none.

Follow the finding. Unused imports are removed.

## Example

A test for CUDA is kept until the code that it guards can run on XLA:

```python
import torch

if torch.cuda.is_available():  # XLA102
    torch.cuda.current_blas_handle()  # XLA906
```

Imports that fail on an XLA host and are not used:

```diff
 import torch
-from apex.optimizers import FusedLAMB
-from deepspeed.ops.adam import DeepSpeedCPUAdam, FusedAdam

 def step(model):
-    return FusedAdam(model.parameters(), lr=0.1)
+    return torch.optim.AdamW(model.parameters(), lr=0.1, weight_decay=0.0)
```

An import that the script tests first is a note. Names that stay correct without CUDA are not
reported:

```python
import torch

print(torch.version.cuda)
```

A framework that starts processes, shards and steps is reported once:

```python
from megatron.core import parallel_state
from megatron.core.utils import get_model_config

def begin(model):
    parallel_state.initialize_model_parallel(2)  # XLA906
    return get_model_config(model)
```

Names of the script itself are not reported:

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

from ...analysis.cuda_names import Use, is_second_name
from ...analysis.scopes import Scope
from ...analysis.script import Script
from ...catalog import CATCH_ALL, covering
from ...catalog.families import is_cuda_only
from ...fallback import found
from ...finding import MEDIUM, Finding
from ...rule import Rule

RULE = Rule(CATCH_ALL, "cuda-only", leftovers=MEDIUM)


@RULE.call("importlib.import_module")
def imported_by_name(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    match call.args:
        case [ast.Constant(value=str(name)), *_] if is_cuda_only(name):
            if is_second_name(script.parent(call), call, name, scope):
                return  # torch has it, CUDA or not, and its uses are found by the new name
            row = covering(name)
            if row is not None:
                yield found(RULE, script, Use(call, name, True), row, MEDIUM)
