"""`mp.spawn` with one process per CUDA device starts no process on an XLA host.

## What it reports

`mp.spawn`, `mp.start_processes` and processes that compute on a device.

## Why it matters on XLA

The number of CUDA devices is 0 on an XLA host. Forked processes would share the device of their
parent.

## What to do

Fix: safe, or none.

Use `xla.launch`. It starts one process per device and calls the function as `mp.spawn` does: with
the number of the process on the host, then with `args`. Under `torchrun`, which has started the
processes already, it calls the function in the current process.

## Example

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

Forked processes are reported without a fix:

```python
import torch.multiprocessing as mp

def start(main):
    mp.start_processes(main, nprocs=4, start_method="fork")  # XLA604
```

Processes that compute nothing on a device are not reported:

```python
import torch.multiprocessing as mp

mp.set_start_method("spawn")
queue = mp.Queue()
```

## See also

XLA615, XLA616
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...analysis.scopes import Scope
from ...analysis.script import Script
from ...analysis.syntax import is_literal, keyword
from ...edits import Replace
from ...finding import HIGH, WARNING, Finding
from ...rule import Rule

RULE = Rule("XLA604", "launch", shows_accelerator=False)


@RULE.call(
    "torch.multiprocessing.spawn",
    "torch.multiprocessing.spawn.spawn",
    "torch.multiprocessing.start_processes",
    "torch.multiprocessing.spawn.start_processes",
)
def spawn(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    if _starts_a_helper(call):
        return
    message = "`mp.spawn` starts one process per CUDA device: use `xla.launch`"
    if any(k.arg is None or k.arg not in _OF_LAUNCH for k in call.keywords) or _forks(call):
        yield RULE.finding(script, call, f"{message}, which spawns processes", effort=HIGH)
    else:
        yield RULE.finding(script, call, message, Replace(call.func, f"{script.xla}.launch"))


_OF_LAUNCH = frozenset({"fn", "args", "nprocs", "join", "daemon", "start_method"})


def _forks(call: ast.Call) -> bool:
    """A process that is forked has the parent's device, which works in one process alone."""
    method = keyword(call, "start_method") or (call.args[5] if len(call.args) > 5 else None)
    return method is not None and not (
        isinstance(method, ast.Constant) and method.value in {"spawn", "forkserver"}
    )


def _starts_a_helper(call: ast.Call) -> bool:
    """`mp.spawn(fn, args, join=False)`: one process beside this one, which goes on."""
    join, count = keyword(call, "join"), keyword(call, "nprocs")
    alone = len(call.args) < 3 and (count is None or ast.unparse(count) == "1")
    return alone and is_literal(join, False)


@RULE.call("torch.multiprocessing.Process")
def process(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    """Processes started by hand, in a script that connects them."""
    if not script.index.calls_of("init_process_group"):
        return
    message = "a process that the script starts itself gets no separate XLA device: use `xla.launch(fn, args)`"
    yield RULE.finding(script, call, message, severity=WARNING, effort=HIGH)
