"""TunableOp has no effect on XLA.

## What it reports

Calls of `torch.cuda.tunable`.

## Why it matters on XLA

TunableOp tunes cuBLAS and rocBLAS. XLA chooses its own kernels.

## What to do

Fix: safe, or none.

Remove the calls, and the `if` that contains nothing else.

## Example

```diff
 import torch
-from torch.cuda import tunable

 def setup(rank):
-    torch.cuda.tunable.enable()
-    torch.cuda.tunable.set_filename(f"tuned_{rank}.csv")
-    tunable.tuning_enable(True)
-    if torch.cuda.is_available():
-        tunable.set_max_tuning_duration(30)
     return torch.nn.Linear(2, 2)
```

Calls whose result is used, calls with arguments that may have effects, and calls that read or
write results are reported without a fix:

```python
import torch

def setup(files):
    on = torch.cuda.tunable.is_enabled()  # XLA132
    torch.cuda.tunable.set_filename(files.pop())  # XLA132
    torch.cuda.tunable.write_file()  # XLA132
    return on, torch.cuda.tunable.enable()  # XLA132
```

Other objects are not reported:

```python
def setup(tunable):
    tunable.enable()
    tunable.set_filename("tuned.csv")
```
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...analysis.scopes import Scope
from ...analysis.script import Script
from ...analysis.syntax import is_pure
from ...catalog.submodules import TUNABLE_SETTING
from ...edits import remove
from ...finding import INFO, LOW, Finding
from ...rule import Rule

RULE = Rule("XLA132", "tunable", severity=INFO, effort=LOW, leftovers=LOW)


@RULE.call(*(f"torch.cuda.tunable.{name}" for name in TUNABLE_SETTING))
def setters(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    message = (
        f"`{ast.unparse(call.func)}` has no effect on XLA, which chooses its own kernels: remove it"
    )
    given = (*call.args, *(keyword.value for keyword in call.keywords))
    if script.is_statement(call) and all(map(is_pure, given)):
        yield RULE.finding(script, call, message, remove(script.statement(call)))
    else:
        yield RULE.finding(script, call, message)
