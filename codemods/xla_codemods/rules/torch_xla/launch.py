"""Launchers of torch_xla.

## What it reports

`torch_xla.launch`, `xmp.spawn` and process groups with torch_xla's backend, in runs with `--from
torch_xla`.

## Why it matters on XLA

They start processes with torch_xla only.

## What to do

Fix: safe, or none.

Use `xla.launch`, which starts one process per device on each backend. Under torchrun it calls the
function in the current process. `of_all_hosts=True` makes the processes replicas of one training,
and passes the number of the process among all hosts, as torch_xla does (fact 1.8).

## Example

```diff
 import sys
-import torch_xla
-import torch_xla.distributed.xla_multiprocessing as xmp
+
+from xla_migrate import runtime as xla

 def _mp_fn(index, flags):
     print(flags)

 if __name__ == "__main__":
     if "--debug" in sys.argv:
-        torch_xla.launch(_mp_fn, args=({},), debug_single_process=True)
+        xla.launch(_mp_fn, args=({},), nprocs=1, of_all_hosts=True)
     else:
-        xmp.spawn(_mp_fn, args=({},), nprocs=None, start_method="fork")
+        xla.launch(_mp_fn, args=({},), nprocs=None, start_method="fork", of_all_hosts=True)
```

A process group over torch_xla's devices:

```diff
-import torch.distributed as dist
-import torch_xla.distributed.xla_backend
+from xla_migrate import runtime as xla

 def setup():
-    dist.init_process_group("xla", init_method="xla://")
+    xla.init_process_group()
```

A group of the hosts that SPMD drives:

```diff
-import torch.distributed as dist
-import torch_xla.distributed.xla_backend
+from xla_migrate import runtime as xla

 def setup():
-    dist.init_process_group("gloo", init_method="xla://")
+    xla.init_process_group("gloo", init_method="xla://")
```

A call with arguments that are not known is reported without a fix:

```python
import torch_xla.distributed.xla_multiprocessing as xmp

def start(run, options):
    xmp.spawn(run, **options)  # XLA015
```
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...analysis.by_hand.written import KEPT, given, renamed
from ...analysis.scopes import Scope
from ...analysis.script import Script
from ...analysis.syntax import is_literal, keyword
from ...edits import AddArgument, DropArgument, Edit
from ...finding import WARNING, Finding
from ...rule import Rule

RULE = Rule("XLA015", "torch-xla-launch", severity=WARNING, origin="torch_xla")

_SPAWN = "torch_xla.distributed.xla_multiprocessing.spawn"
_SPAWN_ORDER = ("fn", "args", "nprocs", "join", "daemon", "start_method")
_LAUNCH_ORDER = ("fn", "args", "start_method", "debug_single_process")


@RULE.call(_SPAWN)
def spawn(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    yield from _launched(script, call, given(call, _SPAWN_ORDER), [])


@RULE.call("torch_xla.launch")
def launch(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    arguments = given(call, _LAUNCH_ORDER) if len(call.args) < 3 else None
    edits: list[Edit] = []
    for argument in call.keywords:
        if argument.arg != "debug_single_process":
            continue
        edits.append(DropArgument(call, argument))
        if not isinstance(argument.value, ast.Constant):
            edits.append(AddArgument(call, "nprocs=1 if {0} else None", (argument.value,)))
        elif argument.value.value:
            edits.append(AddArgument(call, "nprocs=1"))
    yield from _launched(script, call, arguments, edits)


@RULE.call(
    "torch.distributed.init_process_group", "torch.distributed.distributed_c10d.init_process_group"
)
def group(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    backend = call.args[0] if call.args else keyword(call, "backend")
    address = call.args[1] if len(call.args) > 1 else keyword(call, "init_method")
    if not is_literal(backend, "xla") or len(call.args) > 2:
        if is_literal(address, "xla://"):
            message = "the address is valid for torch_xla only: use `xla.init_process_group`, which uses the launcher's address elsewhere"
            yield RULE.finding(script, call, message, renamed(script, call, "init_process_group"))
        return
    edits: list[Edit] = [renamed(script, call, "init_process_group")]
    arguments: list[ast.expr | ast.keyword] = [*call.args, *call.keywords]
    for node in arguments:
        value = node.value if isinstance(node, ast.keyword) else node
        if isinstance(value, ast.Constant) and value.value in ("xla", "xla://"):
            edits.append(DropArgument(call, node))
        elif not isinstance(node, ast.keyword):
            return  # an address by position
    message = "the group supports torch_xla's devices only: use `xla.init_process_group`, which chooses the backend of the device"
    yield RULE.finding(script, call, message, *edits)


def _launched(
    script: Script, call: ast.Call, arguments: dict[str, ast.expr] | None, edits: list[Edit]
) -> Iterator[Finding]:
    if arguments is None or "fn" not in arguments or not script.is_statement(call):
        message = f"the arguments of the call are not known: {KEPT}"
        yield RULE.finding(script, call, message)
        return
    edits.append(AddArgument(call, "of_all_hosts=True"))
    message = (
        "the call starts processes with torch_xla only: use `xla.launch`, which is the same there"
    )
    yield RULE.finding(script, call, message, renamed(script, call, "launch"), *edits)
