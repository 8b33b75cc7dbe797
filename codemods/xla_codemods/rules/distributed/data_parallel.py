"""`DistributedDataParallel` of PyTorch averages gradients on CUDA devices.

## What it reports

`DistributedDataParallel` of PyTorch, apex and similar packages, communication hooks, `join`,
`replicate` and `ZeroRedundancyOptimizer`.

## Why it matters on XLA

PyTorch's class cannot start with XLA tensors (fact 5.2).

## What to do

Fix: safe.

Use `xla.DistributedDataParallel`. It starts with the weights and buffers of rank 0, averages
gradients once per backward pass (so clipping sees the averages), and has `no_sync`, `module` and
the same names in `state_dict`. On CUDA it is PyTorch's class.

## Example

```diff
 import os
 from torch.nn.parallel import DistributedDataParallel as DDP
+from xla_migrate import runtime as xla

 def wrap(model, local_rank):
-    return DDP(model, device_ids=[local_rank], output_device=local_rank, find_unused_parameters=True)
+    return xla.DistributedDataParallel(model, find_unused_parameters=True)

 def unwrap(model: DDP):
     return model.module if isinstance(model, DDP) else model
```

The runtime's class derives from PyTorch's, so `isinstance` tests keep PyTorch's class. A test of
the exact type becomes an `isinstance` test:

```diff
 from torch import nn
 from torch.nn.parallel import DistributedDataParallel as DDP

 def unwrap(model):
-    return model.module if type(model) in (nn.DataParallel, DDP) else model
+    return model.module if isinstance(model, (nn.DataParallel, DDP)) else model
```

Hooks that send gradients in 16 bits have no effect on XLA and are not reported:

```python
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

def tell(model):
    model.register_comm_hook(None, default_hooks.bf16_compress_hook)
    return ", ".join(model.names)
```

A wrapper of the same name from another package is not reported:

```python
from mylib import DistributedDataParallel

model = DistributedDataParallel(net, device_ids=[0])
```

## Limits

- Other hooks change what is reduced. Remove them, or change the gradients between the backward
  pass and the step.
- `model.join()` does not work, because all replicas must run the same number of steps. Give them
  the same number of batches (`drop_last=True`).
- Use the `optimizer_class` of a `ZeroRedundancyOptimizer` directly. It takes the same steps.

## See also

XLA501, XLA610
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...analysis.frameworks.accelerator import uses_accelerate
from ...analysis.scopes import Scope
from ...analysis.script import Script
from ...analysis.syntax import keyword
from ...analysis.type_tests import exact_type_test, is_about_types
from ...edits import DropArgument, Edit, Replace
from ...finding import MEDIUM, Finding
from ...patterns import Pattern
from ...rule import Rule

RULE = Rule("XLA603", "data-parallel", of_step="wrapper")

_NAMES = (
    "torch.nn.parallel.DistributedDataParallel",
    "torch.nn.parallel.distributed.DistributedDataParallel",
    "torch.nn.parallel.DistributedDataParallelCPU",  # its older name, which is the same class
    "apex.parallel.DistributedDataParallel",
)
_TORCHS = frozenset(
    {
        *_NAMES[:3],
        "torch.nn.DataParallel",
        "torch.nn.parallel.DataParallel",
        "torch.nn.parallel.data_parallel.DataParallel",
    }
)
# Hooks that only say in which type gradients travel.
_HARMLESS_HOOKS = frozenset(
    {
        "allreduce_hook",
        "fp16_compress_hook",
        "bf16_compress_hook",
        "ALLREDUCE",
        "FP16_COMPRESS",
        "BF16_COMPRESS",
    }
)
# Positional parameters behind the module that concern CUDA devices.
_DEVICES = ("device_ids", "output_device")
_JOIN = "`join` does not work on XLA, where all processes must run the same number of steps: give each the same number of batches (drop_last=True)"
_APEX = frozenset(
    (
        "message_size delay_allreduce shared_param allreduce_trigger_params retain_allreduce_buffers "
        "allreduce_always_fp32 num_allreduce_streams allreduce_communicators gradient_average "
        "gradient_predivide_factor gradient_average_split_factor prof"
    ).split()
)


@RULE.call(*_NAMES)
def wrapped(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    dropped: list[ast.expr | ast.keyword] = []
    is_apex = (script.dotted(call.func, scope) or "").startswith("apex.")
    if not is_apex:
        dropped += call.args[1:3]
    for argument in call.keywords:
        if argument.arg in _DEVICES or (is_apex and argument.arg in _APEX):
            dropped.append(argument)
    edits: list[Edit] = [Replace(call.func, f"{script.xla}.DistributedDataParallel")]
    edits += (DropArgument(call, argument) for argument in dropped)
    yield RULE.finding(
        script, call, "the wrapper fails on XLA devices: use `xla.DistributedDataParallel`", *edits
    )


@RULE.reference(*_NAMES)
def named(script: Script, node: ast.expr, scope: Scope) -> Iterator[Finding]:
    is_apex = (script.dotted(node, scope) or "").startswith("apex.")
    if is_about_types(script, node, scope):
        if is_apex:
            name = script.spell(_NAMES[0], scope)
            yield RULE.finding(script, node, "apex needs CUDA", Replace(node, name))
        return
    if _is_in_an_exact_test(script, node) and not is_apex:
        return
    edit = Replace(node, f"{script.xla}.DistributedDataParallel")
    yield RULE.finding(
        script,
        node,
        "on XLA models are wrapped by the runtime's class: use `xla.DistributedDataParallel`",
        edit,
    )


def _is_in_an_exact_test(script: Script, node: ast.expr) -> bool:
    parent = script.parent(node)
    if isinstance(parent, ast.Tuple):
        parent = script.parent(parent)
    return isinstance(parent, ast.Compare) and exact_type_test(parent) is not None


@RULE.node(ast.Compare)
def exact_type(script: Script, node: ast.Compare, scope: Scope) -> Iterator[Finding]:
    """`type(model) is DDP`."""
    found = exact_type_test(node)
    if found is None:
        return
    text, model, classes = found
    named = classes.elts if isinstance(classes, ast.Tuple) else [classes]
    if any(script.dotted(name, scope) in _TORCHS for name in named):
        if text.startswith("not") and isinstance(script.parent(node), (ast.Compare, ast.BinOp)):
            text = f"({text})"
        message = "a model may be wrapped by PyTorch's class or by the runtime's, which derives from it: use `isinstance` with PyTorch's class"
        yield RULE.finding(script, node, message, Replace(node, text, (model, classes)))


@RULE.method("register_comm_hook")
def hooked(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    hook = call.args[1] if len(call.args) > 1 else keyword(call, "hook")
    yield from _of_hook(script, call, hook)


@RULE.call(
    "torch.distributed.algorithms.ddp_comm_hooks.register_ddp_comm_hook",
)
def hooked_by_type(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    """It takes a member of an enumeration, and hands its function on."""
    yield from _of_hook(
        script, call, call.args[0] if call.args else keyword(call, "comm_hook_type")
    )


@RULE.method("_register_builtin_comm_hook")
def hooked_within(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    yield from _of_hook(script, call, None)


def _of_hook(script: Script, call: ast.Call, hook: ast.expr | None) -> Iterator[Finding]:
    name = ast.unparse(hook).rpartition(".")[2] if hook is not None else "a hook"
    if name not in _HARMLESS_HOOKS:
        message = f"`{name}` fails on XLA, which averages gradients without hooks: remove it, or change the gradients between backward and step"
        yield RULE.finding(script, call, message, effort=MEDIUM)


@RULE.call(
    "torch.distributed._composable.replicate",
    "torch.distributed._composable.replicate.replicate",
)
def replicated(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    message = (
        "`replicate` fails on XLA devices: wrap the model in `xla.DistributedDataParallel` instead"
    )
    yield RULE.finding(script, call, message, effort=MEDIUM)


@RULE.call(
    "torch.distributed.optim.ZeroRedundancyOptimizer",
    "torch.distributed.optim.zero_redundancy_optimizer.ZeroRedundancyOptimizer",
)
def sharded_optimizer(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    message = (
        "`ZeroRedundancyOptimizer` is slow on XLA and fails when it gathers its state: "
        "use its `optimizer_class` directly, which takes the same steps, or shard with FSDP"
    )
    yield RULE.finding(script, call, message, effort=MEDIUM)


# Of torch's class, with which its subclasses go past its `forward`.
INTERNALS = (
    "_check_sync_bufs_post_fwd",
    "_post_forward",
    "_pre_forward",
    "_rebuild_buckets",
    "_run_ddp_forward",
    "_sync_buffers",
    "prepare_for_backward",
    "prepare_for_forward",
    "set_runtime_stats_and_log",
)


@RULE.method(*INTERNALS)
def within(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    """`self.reducer.prepare_for_backward([])`, in a `train_step` beside `forward`."""
    if not _is_in_a_wrapper(script, call):
        return
    name = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    message = f"`{name}` is internal to PyTorch's DistributedDataParallel and fails on XLA, where gradients are averaged only after its `forward`: call `self(...)`, and put the computation into the module's `forward`"
    yield RULE.finding(script, call, message, effort=MEDIUM)


def _is_in_a_wrapper(script: Script, node: ast.AST) -> bool:
    """True within a class that derives from torch's, or, behind the migration, from the runtime's."""
    wrappers = {*_NAMES, "xla_migrate.runtime.DistributedDataParallel"}
    return any(
        isinstance(around, ast.ClassDef)
        and any(script.dotted(base) in wrappers for base in around.bases)
        for around in script.ancestors(node)
    )


@RULE.method("join")
def joined(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    """`with model.join():`, `context = model.join() if distributed else nullcontext()`; not a thread's, nor a text's."""
    owner = call.func.value if isinstance(call.func, ast.Attribute) else None
    if owner is None or call.args or isinstance(owner, ast.Constant) or uses_accelerate(script):
        return
    is_context = isinstance(script.parent(call), ast.withitem) or _CONTEXTS.search(
        ast.unparse(script.statement(call)).partition("\n")[0]
    )
    if is_context or script.is_module(owner):
        yield RULE.finding(script, call, _JOIN, effort=MEDIUM)


_CONTEXTS = Pattern(r"nullcontext|enter_context|ExitStack|suppress")


@RULE.call("torch.distributed.algorithms.join.Join", "torch.distributed.algorithms.Join")
def joined_together(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    yield RULE.finding(script, call, _JOIN, effort=MEDIUM)
