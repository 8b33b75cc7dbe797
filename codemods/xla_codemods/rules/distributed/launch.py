"""`mp.spawn` with one process per CUDA device starts none where there are no CUDA devices.

`xla.launch` starts one process per device, whatever kind they are, and calls the function as `mp.spawn` does: with
the process's number on this host, then `args`. Under `torchrun`, which has started the processes already, it calls the
function in this one.

```diff
 import torch
-import torch.multiprocessing as mp
+from xla_migrate import runtime as xla

 def main(rank, world_size):
     print(rank, world_size)

 if __name__ == "__main__":
-    world_size = torch.cuda.device_count()
+    world_size = xla.device_count()
-    mp.spawn(main, nprocs=world_size, args=(world_size,))
+    xla.launch(main, nprocs=world_size, args=(world_size,))
```

Processes that compute nothing on a device are none of its business:

```python
import torch.multiprocessing as mp

mp.set_start_method("spawn")
queue = mp.Queue()
```
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...edits import Replace
from ...findings import HIGH, WARNING, Finding
from ...rule import Rule
from ...syntax import keyword

if TYPE_CHECKING:
    from ...names import Scope
    from ...script import Script

RULE = Rule("XLA604", "launch")


@RULE.call("torch.multiprocessing.spawn", "torch.multiprocessing.spawn.spawn")
def spawn(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    if _starts_a_helper(call):
        return
    edit = Replace(call.func, f"{script.xla}.launch")
    yield RULE.at(script, call, "processes are started per CUDA device", edit)


def _starts_a_helper(call: ast.Call) -> bool:
    """`mp.spawn(fn, args, join=False)`: one process beside this one, which goes on."""
    join, count = keyword(call, "join"), keyword(call, "nprocs")
    alone = len(call.args) < 3 and (count is None or ast.unparse(count) == "1")
    return alone and isinstance(join, ast.Constant) and join.value is False


@RULE.call("torch.multiprocessing.Process")
def process(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    """Processes started by hand, in a script that connects them."""
    if not script.index.calls_of("init_process_group"):
        return
    message = "start replicas with `xla.launch(fn, args)`: a process started by hand gets no device of its own"
    yield RULE.at(script, call, message, severity=WARNING, effort=HIGH)
