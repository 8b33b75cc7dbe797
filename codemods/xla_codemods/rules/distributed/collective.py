"""Collectives of `torch.distributed` may silently do nothing to XLA tensors.

## What it reports

Collectives, barriers and `new_group` of `torch.distributed` in scripts that use an accelerator.

## Why it matters on XLA

Between processes on the CPU, gloo returns without an error and leaves the tensor unchanged (fact
3.9). On devices, object collectives and averaging fail (fact 5.3).

## What to do

Fix: safe, or none.

Use the runtime's collectives. They have the same arguments and work on each backend.

## Example

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

Older names are rewritten as well. Functions without a counterpart are reported:

```diff
 import torch.distributed as dist
+from xla_migrate import runtime as xla

 def shards(out, part, peer):
-    dist._all_gather_base(out, part)
+    xla.all_gather_into_tensor(out, part)
     dist.send(part, peer)  # XLA602
```

Queries about the group are not reported:

```python
import torch.distributed as dist

def is_main():
    return not dist.is_initialized() or dist.get_rank() == 0
```

## Limits

The collectives of `torch.distributed.nn.functional`, which have gradients, work on the runtime's
process group. They are not reported.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from ...analysis.scopes import Scope
from ...analysis.script import Script
from ...analysis.syntax import keyword
from ...analysis.training.ranks.guards import COLLECTIVES, is_host_backend
from ...edits import DropArgument, Edit, Replace
from ...finding import HIGH, MEDIUM, Finding
from ...rule import Rule

RULE = Rule("XLA602", "collective", of_step="turn", words=("functional_collectives",))

# Older names of the runtime's.
_OLDER = {
    "_all_gather_base": "all_gather_into_tensor",
    "_reduce_scatter_base": "reduce_scatter_tensor",
}
# No counterpart: what happens on XLA, and what to do.
_TO_OTHERS = "does not work on XLA: use all_gather or broadcast"
_ONE_BY_ONE = "does not work on XLA: call `{}` for each tensor"
_MISSING = {
    **dict.fromkeys(("send", "recv", "isend", "irecv", "batch_isend_irecv"), _TO_OTHERS),
    "all_reduce_coalesced": _ONE_BY_ONE.format("all_reduce"),
    "all_gather_coalesced": _ONE_BY_ONE.format("all_gather"),
    "_broadcast_coalesced": "leaves XLA tensors unchanged without an error: call `broadcast` for each tensor",
    "_coalescing_manager": "loses collectives of XLA tensors without an error: call them outside of the context",
    "_make_nccl_premul_sum": "is available for NCCL only: multiply before `all_reduce`",
    "split_group": "fails on XLA: use `xla.new_group` with the ranks of each part",
}
_FUNCTIONAL = "torch.distributed._functional_collectives"


def _dotted(names: Iterable[str]) -> list[str]:
    return [
        f"torch.distributed.{home}{name}"
        for name in sorted(names)
        for home in ("", "distributed_c10d.")
    ]


@RULE.call(*_dotted([*COLLECTIVES, *_OLDER]))
def collective(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    if _is_of_the_host(script):
        return
    name = (script.dotted(call.func, scope) or "").rpartition(".")[2]
    edits: list[Edit] = [Replace(call.func, f"{script.xla}.{_OLDER.get(name, name)}")]
    devices = keyword(call, "device_ids")
    if name == "barrier" and devices is not None:
        edits.append(DropArgument(call, next(k for k in call.keywords if k.value is devices)))
    yield RULE.finding(script, call, _said(name), *edits)


@RULE.reference(*_dotted([*COLLECTIVES, *_OLDER]))
def handed_on(script: Script, node: ast.expr, scope: Scope) -> Iterator[Finding]:
    """`partial(dist.all_reduce, group=side)`, `gather = dist.all_gather`."""
    if _is_of_the_host(script) or not isinstance(getattr(node, "ctx", None), ast.Load):
        return
    name = (script.dotted(node, scope) or "").rpartition(".")[2]
    if script.index.stores(name):  # `dist.all_reduce = counted`, which the runtime's would call
        return
    edit = Replace(node, f"{script.xla}.{_OLDER.get(name, name)}")
    yield RULE.finding(script, node, _said(name), edit)


def _said(name: str) -> str:
    """What `name` of torch.distributed does on XLA."""
    if name == "barrier":
        return "`barrier` waits for the processes, not for the XLA devices: use `xla.barrier`"
    if name == "new_group":
        return "a group made by `new_group` does not work with XLA tensors: use `xla.new_group`"
    new = _OLDER.get(name, name)
    if name.endswith(("_object", "_object_list")):
        return f"`{name}` fails in the process group of XLA, which takes XLA tensors only: use `xla.{new}`"
    return f"`{name}` may leave XLA tensors unchanged without an error: use `xla.{new}`"


@RULE.call(*_dotted(["monitored_barrier"]))
def monitored_barrier(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    """Gloo's alone; one that is given a group is given gloo's, on whose host it waits."""
    if call.args or keyword(call, "group") is not None or _is_of_the_host(script):
        return
    edits: list[Edit] = [Replace(call.func, f"{script.xla}.barrier")]
    edits += (DropArgument(call, argument) for argument in call.keywords)
    yield RULE.finding(
        script,
        call,
        "`monitored_barrier` exists for gloo only and fails on XLA: use `xla.barrier`",
        *edits,
    )


@RULE.call(*_dotted(_MISSING))
def without_counterpart(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    if not _is_of_the_host(script):
        name = (script.dotted(call.func, scope) or "").rpartition(".")[2]
        yield RULE.finding(script, call, f"`{name}` {_MISSING[name]}", effort=HIGH)


@RULE.reference(*_dotted(_MISSING))
def without_counterpart_handed_on(
    script: Script, node: ast.expr, scope: Scope
) -> Iterator[Finding]:
    """`partial(dist.send, dst=1)`; the arguments of `P2POp` are reported at the call that sends the batch."""
    name = (script.dotted(node, scope) or "").rpartition(".")[2]
    if name not in {"isend", "irecv"} and not _is_of_the_host(script):
        yield RULE.finding(script, node, f"`{name}` {_MISSING[name]}", effort=HIGH)


@RULE.call(
    "torch.distributed.nn.functional._all_gather_base", "torch.distributed.nn._all_gather_base"
)
def base_with_gradients(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    message = "its gradient is available for NCCL only: use `all_gather` of torch.distributed.nn, which has a gradient on XLA"
    if not _is_of_the_host(script):
        yield RULE.finding(script, call, message, effort=MEDIUM)


@RULE.file
def functional(script: Script) -> Iterator[Finding]:
    """They go past the process group: in a rehearsal each process keeps its own value, or fails."""
    if _is_of_the_host(script):
        return
    imports: list[ast.Import | ast.ImportFrom] = [n for n, _ in script.index.of(ast.Import)]
    imports += [node for node, _ in script.index.of(ast.ImportFrom)]
    for statement in imports:
        home = (statement.module or "") if isinstance(statement, ast.ImportFrom) else ""
        names = [alias.name for alias in statement.names]
        if home == _FUNCTIONAL or any(
            (f"{home}.{name}" if home else name) == _FUNCTIONAL for name in names
        ):
            message = (
                "these collectives bypass the process group, and may leave XLA tensors unchanged without an error: "
                "use the runtime's collectives, or `torch.distributed.nn.functional` if you need gradients"
            )
            yield RULE.finding(script, statement, message, effort=MEDIUM)


def _is_of_the_host(script: Script) -> bool:
    """True if the script's only process groups are the CPU's: it hands CPU tensors to them."""
    inits = [c for c, _ in script.index.calls_of("init_process_group")]
    backends = [c.args[0] if c.args else keyword(c, "backend") for c in inits]
    return bool(inits) and all(is_host_backend(b) for b in backends)
