"""With `--style native`, calls of the runtime become calls of torch_xla.

## What it reports

Calls of the runtime that torch_xla has as well, in runs with `--style native`.

## Why it matters on XLA

The script does not need `xla_migrate` installed. It imports `xla_runtime`, a folder that the
command writes next to it, with the modules of the runtime that the script uses. Such a script
runs with torch_xla only.

## What to do

Fix: safe.

Nothing: the option requests the rewrite.

## Example

```diff
 import torch
-from xla_migrate import runtime as xla
+import xla_runtime as xla
+import torch_xla
+import torch_xla.core.xla_model as xm

 def train(model, data, seed, amp):
-    xla.manual_seed(seed)
-    xla.set_cudnn(benchmark=True)
+    torch.manual_seed(seed)
+    torch_xla.manual_seed(seed)
     device = xla.xla_device()
     optimizer = torch.optim.SGD(model.to(device).parameters(), lr=0.1)
     for x in xla.MpDeviceLoader(data):
-        with xla.autocast(enabled=amp):
+        with torch.autocast("xla", dtype=torch.bfloat16, enabled=amp):
             loss = model(x).sum()
         loss.backward()
-        xla.optimizer_step(optimizer)
-        xla.mark_step()
-    xla.synchronize()
+        xm.optimizer_step(optimizer)
+        torch_xla.sync()
+    torch_xla.sync()
+    xm.wait_device_ops()
     xla.save(model.state_dict(), "model.pt")
```

Averages stay in a project with several replicas, because torch_xla counts each process on the CPU
as rank 0 of 1 (fact 3.10):

```diff
 import torch
 import torch.distributed as dist
-from xla_migrate import runtime as xla
+import xla_runtime as xla
+import torch_xla

 def train(model, optimizer):
     xla.init_process_group()
     xla.optimizer_step(optimizer)
-    xla.mark_step()
+    torch_xla.sync()
```

A step mark of torch_xla changes the random stream, even if nothing was drawn (fact 1.32). In a
file that stores or restores random states, marks and seeds stay, so that a resumed run draws the
same numbers:

```diff
 import torch
-from xla_migrate import runtime as xla
+import xla_runtime as xla

 def resume(state):
     xla.manual_seed(0)
     xla.set_rng_state(state)
     xla.mark_step()
```

## Limits

Functions that differ from torch_xla stay:

- `torch_xla.device()` leaves the seed of each process at 101 (fact 1.31) and does not fix
  torch_xla's errors (fact 3.1).
- `xm.save` writes into the file that it replaces, and does not handle whole modules (fact 1.42).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from ...analysis.by_hand.written import XM, given, is_constant
from ...analysis.inference.library_types import RUNTIME, VENDORED
from ...analysis.once import once
from ...analysis.scopes import Scope
from ...analysis.script import Script
from ...analysis.syntax import is_pure
from ...edits import Edit, InsertAfter, Replace, ReplaceStatement, remove
from ...finding import INFO, Finding
from ...rule import Rule

RULE = Rule("XLA020", "native-style", severity=INFO, origin="xla_migrate")

# What speaks of several processes, before a migration and after it.
_REPLICAS = re.compile(
    r"init_process_group|init_distributed|\bspawn\(|\.launch\(|DistributedDataParallel|\bDDP\b|FullyShard|fully_shard"
    r"|LOCAL_RANK|WORLD_SIZE|world_size|\blocal_rank\b|torchrun|horovod|deepspeed|all_reduce|mesh_reduce|Accelerator\("
)
_ACCELERATORS = ("cuda", "cuda:0", "gpu", "xla")
_LOWER = ("torch.bfloat16", "torch.float16", "torch.half")


@RULE.node(ast.ImportFrom)
def imported(script: Script, statement: ast.ImportFrom, scope: Scope) -> Iterator[Finding]:
    home, _, name = RUNTIME.rpartition(".")
    if statement.level or statement.module != home or [a.name for a in statement.names] != [name]:
        return
    local = statement.names[0].asname or name
    if f"{local}.compiler_options" in script.source.text:
        return  # it asks modules of the command, which no copy has
    text = f"import {VENDORED}" + (f" as {local}" if local != VENDORED else "")
    yield _found(script, statement, f"import {VENDORED}", ReplaceStatement(statement, text))


@RULE.call(f"{RUNTIME}.mark_step")
def mark(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    if not call.args and not call.keywords and not _keeps_random_states(script):
        yield _found(script, call, "torch_xla.sync", Replace(call, f"{_torch_xla(script)}.sync()"))


@RULE.reference(f"{RUNTIME}.mark_step")
def uncalled(script: Script, node: ast.expr, scope: Scope) -> Iterator[Finding]:
    if isinstance(getattr(node, "ctx", None), ast.Load) and not _keeps_random_states(script):
        yield _found(script, node, "torch_xla.sync", Replace(node, f"{_torch_xla(script)}.sync"))


@RULE.call(f"{RUNTIME}.synchronize")
def synchronize(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    arguments = given(call, ("device", "mark"))
    if arguments is None or not script.is_statement(call) or _keeps_random_states(script):
        return
    if not is_constant(arguments.get("mark"), True, False):
        return
    if "device" in arguments and not is_pure(arguments["device"]):
        return
    lines = [f"{_xm(script)}.wait_device_ops()"]
    if "mark" not in arguments or is_constant(arguments["mark"], True):
        lines.insert(0, f"{_torch_xla(script)}.sync()")
    edit = ReplaceStatement(script.statement(call), "\n".join(lines))
    yield _found(script, call, "xm.wait_device_ops", edit)


@RULE.call(f"{RUNTIME}.optimizer_step", f"{RUNTIME}.reduce_gradients")
def averaged(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    """Without replicas there is nothing to average, and torch_xla's function says where there would be."""
    if len(call.args) != 1 or call.keywords or isinstance(call.args[0], ast.Starred):
        return
    if _speaks_of_replicas(script):
        return
    name = (script.dotted(call.func, scope) or "").rpartition(".")[2]
    edit = Replace(call, f"{_xm(script)}.{name}({{0}})", (call.args[0],))
    yield _found(script, call, f"xm.{name}", edit)


@RULE.call(f"{RUNTIME}.manual_seed")
def seed(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    arguments = given(call, ("seed", "device_only"))
    value = (arguments or {}).get("seed")
    if not arguments or value is None or _keeps_random_states(script):
        return
    statement = script.statement(call)
    is_assigned = isinstance(statement, ast.Assign) and statement.value is call
    if not (is_assigned or script.is_statement(call)):
        return
    if not is_constant(arguments.get("device_only"), True, False):
        return
    edits: list[Edit]
    of_xla = f"{_torch_xla(script)}.manual_seed"
    if "device_only" in arguments and is_constant(arguments["device_only"], True):
        edits = [Replace(call, f"{of_xla}({{0}})", (value,))]
    elif isinstance(value, (ast.Name, ast.Attribute, ast.Constant)):  # it is evaluated twice
        edits = [
            Replace(call, f"{script.spell('torch.manual_seed', scope)}({{0}})", (value,)),
            InsertAfter(statement, f"{of_xla}({script.segment(value)})"),
        ]
    else:
        return
    yield _found(script, call, "torch_xla.manual_seed", *edits)


@RULE.call(f"{RUNTIME}.autocast")
def autocast(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    """The copied patches correct the operations' types, also under torch's own context."""
    arguments = given(call, ("device_type", "dtype", "enabled", "cache_enabled"))
    if arguments is None:
        return
    kind, dtype = arguments.get("device_type"), arguments.get("dtype")
    if not is_constant(kind, None) and getattr(kind, "value", None) not in _ACCELERATORS:
        return
    if not is_constant(dtype, None) and script.dotted(dtype, scope) not in _LOWER:
        return
    text = f'{script.spell("torch.autocast", scope)}("xla", dtype={script.spell("torch.bfloat16", scope)}'
    rest = [name for name in ("enabled", "cache_enabled") if name in arguments]
    text += "".join(f", {name}={{{k}}}" for k, name in enumerate(rest)) + ")"
    edit = Replace(call, text, tuple(arguments[name] for name in rest))
    yield _found(script, call, "torch.autocast", edit)


@RULE.call(f"{RUNTIME}.inference_mode")
def inference(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    if not call.args and not call.keywords:
        edit = Replace(call, f"{script.spell('torch.no_grad', scope)}()")
        yield _found(script, call, "torch.no_grad", edit)


@RULE.call(f"{RUNTIME}.supports_fused")
def fused(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    yield _found(script, call, "False", Replace(call, "False"))


@RULE.call(f"{RUNTIME}.set_cudnn", f"{RUNTIME}.set_device")
def nothing(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    """An XLA process has one device, and no cuDNN."""
    values = (*call.args, *(k.value for k in call.keywords))
    if script.is_statement(call) and all(is_pure(value) for value in values):
        yield _found(script, call, "nothing", remove(script.statement(call)))


def _keeps_random_states(script: Script) -> bool:
    return "rng_state" in script.source.text


@once
def _speaks_of_replicas(script: Script) -> bool:
    if _REPLICAS.search(script.source.text):
        return True
    return script.project.has_text(_REPLICAS)


def _torch_xla(script: Script) -> str:
    return _module(script, "torch_xla", "torch_xla")


def _xm(script: Script) -> str:
    return _module(script, XM, "xm")


def _module(script: Script, dotted: str, usual: str) -> str:
    """Return the file's name for this module; if it must be imported, `usual` unless that name is taken."""
    for name in script.module.bindings:
        if script.module.dotted(name) == dotted:
            return name
    if usual == dotted or script.is_taken(usual):
        script.needed.add(dotted)
        return dotted
    script.needed.add(f"{dotted} as {usual}")
    return usual


def _found(script: Script, node: ast.expr | ast.stmt, instead: str, *edits: Edit) -> Finding:
    message = (
        f"the call belongs to the runtime: use `{instead}`, which does the same with torch_xla"
    )
    return RULE.finding(script, node, message, *edits)
