"""Collectives of `torch.distributed` on XLA tensors can do nothing at all, silently.

Between processes on the CPU, gloo returns without an error and leaves the tensor as it was (fact 3.9); on
devices, object collectives and averaging fail (5.3). The runtime's collectives have the same arguments and
work on every backend.

```diff
 import torch.distributed as dist
+from xla_migrate import runtime as xla

 def mean(value, world_size):
-    dist.all_reduce(value, op=dist.ReduceOp.SUM)
+    xla.all_reduce(value, op=dist.ReduceOp.SUM)
-    dist.barrier()
+    xla.barrier()
     return value / world_size
```

Questions about the group are answered by torch itself:

```python
import torch.distributed as dist

def is_main():
    return not dist.is_initialized() or dist.get_rank() == 0
```
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...analysis.syntax import keyword
from ...analysis.training.process_groups import COLLECTIVES, is_host_backend
from ...edits import DropArgument, Edit, Replace
from ...finding import HIGH, Finding
from ...rule import Rule

if TYPE_CHECKING:
    from ...analysis.scopes import Scope
    from ...analysis.script import Script

RULE = Rule("XLA602", "collective", of_step="turn")

# No counterpart: point to point, and coalesced forms.
_MISSING = frozenset(
    "send recv isend irecv batch_isend_irecv all_reduce_coalesced all_gather_coalesced".split()
)


def _dotted(names: frozenset[str]) -> list[str]:
    return [
        f"torch.distributed.{home}{name}"
        for name in sorted(names)
        for home in ("", "distributed_c10d.")
    ]


@RULE.call(*_dotted(COLLECTIVES))
def collective(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    if _is_of_the_host(script):
        return
    name = (script.dotted(call.func, scope) or "").rpartition(".")[2]
    edits: list[Edit] = [Replace(call.func, f"{script.xla}.{name}")]
    devices = keyword(call, "device_ids")
    if name == "barrier" and devices is not None:
        edits.append(DropArgument(call, next(k for k in call.keywords if k.value is devices)))
    yield RULE.finding(script, call, _said(name), *edits)


def _said(name: str) -> str:
    """What `name` of torch.distributed does on XLA."""
    if name == "barrier":
        return "`barrier` waits for the processes, not for the XLA devices: use the runtime's `barrier`"
    if name == "new_group":
        return "a group made by `new_group` does not work with XLA tensors: use the runtime's `new_group`"
    if name.endswith(("_object", "_object_list")):
        return f"`{name}` fails in the process group of XLA, which takes XLA tensors only: use the runtime's function"
    return f"`{name}` may leave XLA tensors unchanged without an error: use the runtime's function"


@RULE.call(*_dotted(frozenset({"monitored_barrier"})))
def monitored_barrier(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    """Gloo's alone; one that is given a group is given gloo's, on whose host it waits."""
    if call.args or keyword(call, "group") is not None or _is_of_the_host(script):
        return
    edits: list[Edit] = [Replace(call.func, f"{script.xla}.barrier")]
    edits += (DropArgument(call, argument) for argument in call.keywords)
    yield RULE.finding(
        script,
        call,
        "`monitored_barrier` exists for gloo only and fails on XLA: use the runtime's `barrier`",
        *edits,
    )


@RULE.call(*_dotted(_MISSING))
def without_counterpart(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    if not _is_of_the_host(script):
        name = (script.dotted(call.func, scope) or "").rpartition(".")[2]
        message = f"`{name}` does not work on XLA: use all_gather or broadcast"
        yield RULE.finding(script, call, message, effort=HIGH)


def _is_of_the_host(script: Script) -> bool:
    """True if the script's only process groups are the CPU's: it hands CPU tensors to them."""
    inits = [c for c, _ in script.index.calls_of("init_process_group")]
    backends = [c.args[0] if c.args else keyword(c, "backend") for c in inits]
    return bool(inits) and all(is_host_backend(b) for b in backends)
