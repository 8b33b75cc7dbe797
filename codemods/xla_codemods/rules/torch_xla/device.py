"""Devices and ranks of torch_xla.

## What it reports

`xm.xla_device`, ordinals, world sizes and kinds of devices, in runs with `--from torch_xla`.

## Why it matters on XLA

These calls run with torch_xla only. On XLA:CPU, torch_xla counts each process as rank 0 of 1
(fact 3.10). The runtime has real ranks there, so that several processes can be rehearsed.

## What to do

Fix: safe, or none.

Use `xla.xla_device()`, which is `torch_xla.device()` on XLA and the accelerator elsewhere, and
the runtime's ranks.

## Example

```diff
 import torch
-import torch_xla.core.xla_model as xm
-import torch_xla.runtime as xr
+from xla_migrate import runtime as xla

 def setup(model, loss):
-    device = xm.xla_device()
-    rank, size = xm.get_ordinal(), xr.world_size()
+    device = xla.xla_device()
+    rank, size = xla.rank(), xla.world_size()
-    if xm.is_master_ordinal():
-        print(xm.get_memory_info(device)["bytes_used"])
-    xm.master_print(f"{rank} of {size}: {loss}")
+    if xla.local_rank() == 0:
+        print(xla.memory_info(device)["bytes_used"])
+    xla.master_print(f"{rank} of {size}: {loss}")
     return model.to(device)
```

Without arguments, `xm.is_master_ordinal()` is True on one process of each host. With
`local=False` it is `xla.is_master()`. A device by its kind:

```diff
 import torch
-import torch_xla
-import torch_xla.core.xla_model as xm
+from xla_migrate import runtime as xla

 def move(model, x):
-    model.to(torch.device("xla"))
-    y = torch.zeros(2, device="xla")
-    return x.to("xla") if not xm.is_xla_tensor(x) and xm.is_master_ordinal(local=False) else y
+    model.to(xla.xla_device())
+    y = torch.zeros(2, device=xla.xla_device())
+    return x.to(xla.xla_device()) if not xla.is_accelerator(x) and xla.is_master() else y
```

One of several devices of a process is reported without a fix, because the runtime has one device
per process:

```python
import torch_xla
import torch_xla.core.xla_model as xm

second = torch_xla.device(1)  # XLA012
kind = xm.xla_device(devkind="TPU")  # XLA012
```
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...analysis.by_hand.written import KEPT, XM, XR, given, is_constant, renamed
from ...analysis.scopes import Scope
from ...analysis.script import Script
from ...edits import Edit, Replace
from ...finding import WARNING, Finding
from ...rule import Rule

RULE = Rule("XLA012", "torch-xla-device", severity=WARNING, origin="torch_xla")

_PJRT = "torch_xla.experimental.pjrt"  # which became the runtime
_DEVICES = ("torch_xla.device", f"{XM}.xla_device", f"{XR}.xla_device")
# What asks nothing more than the runtime's function does, by its name there.
_ASKED = {
    f"{XR}.world_size": "world_size",
    f"{XR}.global_ordinal": "rank",
    f"{XR}.local_ordinal": "local_rank",
    f"{XM}.get_ordinal": "rank",
    f"{XM}.get_local_ordinal": "local_rank",
    f"{XM}.xrt_world_size": "world_size",
    f"{_PJRT}.world_size": "world_size",
    f"{_PJRT}.global_ordinal": "rank",
    f"{_PJRT}.local_ordinal": "local_rank",
}
_GIVEN = {f"{XM}.get_memory_info": "memory_info", f"{XM}.is_xla_tensor": "is_accelerator"}


@RULE.call(*_DEVICES)
def device(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    arguments = given(call, ("n", "devkind")) if len(call.args) + len(call.keywords) < 3 else None
    if arguments is None or not all(is_constant(a, None, 0) for a in arguments.values()):
        message = f"the call may mean another device than the process's own: {KEPT}"
        yield RULE.finding(script, call, message)
        return
    yield _found(script, call, Replace(call, f"{script.xla}.xla_device()"), "xla_device")


@RULE.call(*_ASKED)
def asked(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    name = _ASKED[script.dotted(call.func, scope) or ""]
    yield _found(script, call, Replace(call, f"{script.xla}.{name}()"), name)


@RULE.call(*_GIVEN)
def asked_of(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    name = _GIVEN[script.dotted(call.func, scope) or ""]
    yield _found(script, call, renamed(script, call, name), name)


@RULE.call(f"{XM}.master_print")
def master_print(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    yield _found(script, call, renamed(script, call, "master_print"), "master_print")


@RULE.call(f"{XM}.is_master_ordinal")
def is_master(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    arguments = given(call, ("local",))
    local = (arguments or {}).get("local")
    if arguments is None or not is_constant(local, True, False):
        message = (
            f"a variable decides between one process per host and one process in total: {KEPT}"
        )
        yield RULE.finding(script, call, message)
    elif is_constant(local, True):
        yield _found(
            script, call, Replace(call, _in_place(script, call, "local_rank() == 0")), "local_rank"
        )
    else:
        yield _found(script, call, Replace(call, f"{script.xla}.is_master()"), "is_master")


@RULE.reference(*_DEVICES, *_ASKED, f"{XM}.master_print")
def uncalled(script: Script, node: ast.expr, scope: Scope) -> Iterator[Finding]:
    """`print_fn=xm.master_print`."""
    dotted = script.dotted(node, scope) or ""
    name = _ASKED.get(dotted, "master_print" if dotted.endswith("print") else "xla_device")
    if isinstance(getattr(node, "ctx", None), ast.Load) and dotted not in _DEVICES[2:]:
        yield _found(script, node, Replace(node, f"{script.xla}.{name}"), name)


@RULE.call("torch.device")
def by_its_kind(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    if len(call.args) == 1 and not call.keywords and _is_xla(call.args[0]):
        yield _found(script, call, Replace(call, f"{script.xla}.xla_device()"), "xla_device")


@RULE.method("to")
def to_its_kind(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    if call.args and _is_xla(call.args[0]):
        edit = Replace(call.args[0], f"{script.xla}.xla_device()")
        yield _found(script, call.args[0], edit, "xla_device")


@RULE.node(ast.keyword, named=("device",))
def argument(script: Script, node: ast.keyword, scope: Scope) -> Iterator[Finding]:
    if _is_xla(node.value):
        edit = Replace(node.value, f"{script.xla}.xla_device()")
        yield _found(script, node.value, edit, "xla_device")


def _is_xla(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value in ("xla", "xla:0")


def _in_place(script: Script, call: ast.Call, text: str) -> str:
    """`text` of the runtime's, with the parentheses that it needs where `call` stands."""
    plain = f"{script.xla}.{text}"
    parent = script.parent(call)
    alone = isinstance(parent, (ast.If, ast.Assign, ast.Return, ast.IfExp, ast.BoolOp, ast.keyword))
    return plain if alone else f"({plain})"


def _found(script: Script, node: ast.expr, edit: Edit, name: str) -> Finding:
    message = f"the call runs with torch_xla only: use `xla.{name}`, which is the same there"
    return RULE.finding(script, node, message, edit)
