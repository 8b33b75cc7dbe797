"""XLA does not support some features of accelerate.

## What it reports

`dynamo_backend=`, `PartialState(backend="nccl")`, `InitProcessGroupKwargs(backend="gloo")`, `gather_object`, `LocalSGD`, `prepare_pippy`, float8, device meshes, DDP
communication hooks and the profiler.

## Why it matters on XLA

The compilers are for GPUs. NCCL, `gather_object` and `LocalSGD` raise an exception. Hooks are ignored,
and the profiler sees no XLA device.

## What to do

Fix: safe, or none.

Use the runtime's functions, and call `xla.patch_accelerate()` before `LocalSGD`.

## Example

A compiler is kept on other devices:

```diff
 from accelerate import Accelerator
+from xla_migrate import runtime as xla

+xla.patch_accelerate()
-accelerator = Accelerator(dynamo_backend="inductor")
+accelerator = Accelerator(dynamo_backend="inductor" if xla.device_type() != "xla" else "no")
```

accelerate chooses the backend of the device by itself:

```diff
 from accelerate import PartialState

-state = PartialState(backend="nccl")
+state = PartialState()
 print(state.device)
```

`InitProcessGroupKwargs(backend="nccl")` is the default, which accelerate does not pass on. Other
backends are kept on other devices:

```diff
 from accelerate import Accelerator, InitProcessGroupKwargs
+from xla_migrate import runtime as xla

-group = InitProcessGroupKwargs(backend="gloo")
+group = InitProcessGroupKwargs(backend="gloo" if xla.device_type() != "xla" else None)
+xla.patch_accelerate()
 accelerator = Accelerator(kwargs_handlers=[group])
```

`gather_object`:

```diff
 from accelerate.utils import set_seed
-from accelerate.utils import gather_object
+from xla_migrate import runtime as xla

 set_seed(0)
-texts = gather_object(texts)
+texts = xla.gather_lists(texts)
```

After `xla.patch_accelerate()`, `LocalSGD` trains as on CUDA: each process steps alone, and
parameters are averaged every `local_sgd_steps` steps and at the end. XLA814 puts the call before
the Accelerator. In a file that receives one, the call is placed before `LocalSGD`:

```diff
 from accelerate.local_sgd import LocalSGD
+from xla_migrate import runtime as xla

 def train(accelerator, model, optimizer, loader):
+    xla.patch_accelerate()
     with LocalSGD(accelerator=accelerator, model=model, local_sgd_steps=8) as local_sgd:
         for batch in loader:
             accelerator.backward(model(**batch).loss)
             optimizer.step()
             optimizer.zero_grad()
             local_sgd.step()
```

The layers of a pipeline are on different devices because one device cannot hold the model. On
XLA, one process divides the parameters over all devices. Start it with `python`:

```diff
 import torch
-from accelerate import PartialState, prepare_pippy
+from accelerate import PartialState
+from xla_migrate import runtime as xla

+xla.use_spmd(batch_per_device=True)
 model = build()
-model = prepare_pippy(model, split_points="auto", example_args=(x,))
+model = xla.prepare_pippy(model, split_points="auto", example_args=(x,))
 with torch.no_grad():
-    output = model(x.to("cuda:0"))
+    output = model(x.to(xla.xla_device()))
 if PartialState().is_last_process:
     print(output)
```

Other features are reported without a fix. Examples are pipelines that are trained, that loaders
feed or that count processes, and subclasses of `LocalSGD`:

```python
from accelerate import DistributedDataParallelKwargs, prepare_pippy
from accelerate.local_sgd import LocalSGD
from accelerate.utils import ParallelismConfig

class Weighted(LocalSGD):  # XLA810
    def _sync_and_avg_model_params(self):
        average(self.model.module)

mesh = ParallelismConfig(dp_shard_size=2, tp_size=4)  # XLA810
kwargs = DistributedDataParallelKwargs(comm_hook="fp16")  # XLA810
model = prepare_pippy(model, example_args=(x,), num_chunks=2 * state.num_processes)  # XLA810
```

So are tests for a kind of distribution, unless the script also tests for XLA's:

```python
from accelerate import DistributedType

def describe(accelerator):
    if accelerator.distributed_type == DistributedType.NO:  # XLA810
        return "one device"
    return "sharded" if accelerator.distributed_type == DistributedType.FSDP else "several devices"
```

Other keyword arguments are not reported:

```python
from accelerate import DistributedDataParallelKwargs

kwargs = DistributedDataParallelKwargs(find_unused_parameters=True)
```

## Limits

Under SPMD there is one model for all devices, and `LocalSGD` still raises an exception.

## See also

XLA802, XLA814
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...analysis.frameworks.arguments import keyword_argument
from ...analysis.frameworks.passed_values import given
from ...analysis.frameworks.sharding import MADE_WITH_ACCELERATE, patched_before
from ...analysis.program_start import first_statement
from ...analysis.scopes import Scope
from ...analysis.script import Script
from ...analysis.syntax import is_literal, keyword
from ...edits import DropArgument, Edit, InsertBefore, Replace
from ...finding import HIGH, INFO, LOW, MEDIUM, WARNING, Finding
from ...patterns import Pattern
from ...rule import Rule

RULE = Rule("XLA810", "accelerate-features")

_LOCAL_SGD = "accelerate.local_sgd.LocalSGD"
_FLOAT8 = "float8 needs NVIDIA GPUs: use bfloat16"
_FEATURES = {
    "ParallelismConfig": "accelerate's device meshes raise an exception on XLA: shard with only a `FullyShardedDataParallelPlugin`",
    "FP8RecipeKwargs": _FLOAT8,
    "TERecipeKwargs": _FLOAT8,
    "AORecipeKwargs": _FLOAT8,
    "MSAMPRecipeKwargs": _FLOAT8,
}
# What may count processes, goes through a pipeline's own parts, or puts batches of several devices together.
_MORE_THAN_RUN = Pattern(
    r"num_processes|world_size|WORLD_SIZE|device_count|pippy_stage|hf_split_points|_original_forward|_original_call"
    r"|DataLoader|backward\(|init_process_group|torch\.distributed|split_between_processes|wait_for_everyone"
)
_ASKING_FOR_XLA = ("DistributedType.XLA", "DistributedType.TPU", "xla_available", "tpu_available")
_STATES = ("PartialState", "AcceleratorState")
_BACKENDS = frozenset({"nccl", "gloo", "mpi", "cuda:nccl,cpu:gloo", "cpu:gloo,cuda:nccl"})
_ACCEPTED = frozenset({None, "nccl", "xla"})  # for process groups
_HOMES = (
    "accelerate",
    "accelerate.utils",
    "accelerate.utils.operations",
    "accelerate.utils.dataclasses",
    "accelerate.inference",
    "accelerate.parallelism_config",
)


def _dotted(*names: str) -> list[str]:
    return [f"{home}.{name}" for name in names for home in _HOMES]


@RULE.call(*_dotted(*_FEATURES))
def feature(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    name = (script.dotted(call.func, scope) or "").rpartition(".")[2]
    yield RULE.finding(script, call, _FEATURES[name], effort=HIGH)


@RULE.call(*_dotted("prepare_pippy"))
def pipeline(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    """A model whose layers are split over devices, to be run."""
    first = first_statement(script.tree, lambda node: node is call)
    message = "pipelines over CUDA devices fail on XLA: shard with `xla.use_spmd()` and `xla.prepare_pippy`"
    if first is None or _MORE_THAN_RUN.search(script.source.text):
        yield RULE.finding(script, call, message, effort=HIGH)
        return
    edits: list[Edit] = [Replace(call.func, f"{script.xla}.prepare_pippy")]
    if not script.index.calls_of("use_spmd"):
        edits.append(InsertBefore(first, f"{script.xla}.use_spmd(batch_per_device=True)"))
    yield RULE.finding(script, call, message, *edits)


@RULE.call(_LOCAL_SGD)
def local_sgd(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    made = MADE_WITH_ACCELERATE | {_LOCAL_SGD}
    edit = patched_before(script, call, "patch_accelerate", made)
    if edit is not None:
        message = "`LocalSGD` raises an exception on XLA: call `xla.patch_accelerate()` first"
        yield RULE.finding(script, call, message, edit)


@RULE.reference(_LOCAL_SGD)
def own_local_sgd(script: Script, node: ast.expr, scope: Scope) -> Iterator[Finding]:
    """A class that derives from it."""
    if isinstance(script.parents.get(node), ast.ClassDef):
        message = "`LocalSGD` calls `no_sync` of DistributedDataParallel, which XLA does not have, and the subclass may depend on it: check the methods that it overrides, and call `xla.patch_accelerate()` first"
        yield RULE.finding(script, node, message, effort=MEDIUM)


@RULE.call(*_dotted("gather_object"))
def gathered_objects(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    plain = len(call.args) == 1 and not call.keywords
    edits = (Replace(call.func, f"{script.xla}.gather_lists"),) if plain else ()
    message = "`gather_object` raises an exception on XLA: use `xla.gather_lists`"
    yield RULE.finding(script, call, message, *edits, effort=MEDIUM)


@RULE.call(
    *(f"accelerate.{name}" for name in _STATES), *(f"accelerate.state.{name}" for name in _STATES)
)
def backend_of_state(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    argument = keyword_argument(call, "backend")
    if argument is None or is_literal(argument.value, None) or is_literal(argument.value, "xla"):
        return
    message = "backends other than XLA's raise an exception: remove the argument, and accelerate chooses the device's own"
    edits = [DropArgument(call, argument)] if is_literal(argument.value, "nccl") else []
    if edits or isinstance(argument.value, ast.Constant):
        yield RULE.finding(script, argument.value, message, *edits)
    elif any(one.value in _BACKENDS for one in given(script, call, "backend")):
        yield RULE.finding(script, argument.value, message, severity=WARNING)


@RULE.call(*_dotted("InitProcessGroupKwargs"))
def backend_of_group(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    """A backend of process groups; accelerate passes on all except its default, NCCL."""
    backend = keyword(call, "backend") or (call.args[0] if call.args else None)
    if backend is None or (isinstance(backend, ast.Constant) and backend.value in _ACCEPTED):
        return
    message = "accelerate accepts only XLA's own backend on XLA and raises an exception: pass `None` there"
    if isinstance(backend, ast.Constant):
        edit = Replace(
            backend, f'{{0}} if {script.xla}.device_type() != "xla" else None', (backend,)
        )
        yield RULE.finding(script, backend, message, edit)
    elif any(one.value in _BACKENDS - _ACCEPTED for one in given(script, call, "backend")):
        yield RULE.finding(script, backend, message, severity=WARNING)


@RULE.call(*_dotted("DistributedDataParallelKwargs"))
def hook(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    """A communication hook, of a DDP that accelerate does not use on XLA."""
    hooked = keyword(call, "comm_hook")
    if hooked is not None and not ast.unparse(hooked).endswith(("None", ".NO")):
        message = "the hook is ignored on XLA, which averages gradients without compression or approximation: remove it"
        yield RULE.finding(script, hooked, message, severity=INFO, effort=LOW)


@RULE.reference(*_dotted("DistributedType.NO", "DistributedType.MULTI_GPU"))
def kind(script: Script, node: ast.expr, scope: Scope) -> Iterator[Finding]:
    """A kind of distribution that no run on XLA has; a script that asks for XLA, too, knows that."""
    test = script.parent(node)
    if isinstance(test, ast.Compare) and not script.source.mentions(*_ASKING_FOR_XLA):
        message = "on XLA devices the type is `DistributedType.XLA`, also of a single process: test `num_processes`"
        yield RULE.finding(script, test, message, severity=WARNING, effort=LOW)


@RULE.call(*_dotted("ProfileKwargs"))
def profile(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    activities = keyword(call, "activities")
    if activities is not None and "cuda" in ast.unparse(activities).lower():
        message = (
            "PyTorch's profiler records nothing of XLA devices: use `torch_xla.debug.profiler`"
        )
        yield RULE.finding(script, activities, message, severity=WARNING, effort=MEDIUM)


@RULE.call(*_dotted("Accelerator"), "accelerate.accelerator.Accelerator")
def compiled(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    backend = keyword(call, "dynamo_backend")
    if not isinstance(backend, ast.Constant) or str(backend.value).lower() in {"no", "none"}:
        return
    edit = Replace(backend, f'{{0}} if {script.xla}.device_type() != "xla" else "no"', (backend,))
    yield RULE.finding(
        script,
        backend,
        "PyTorch's compiler fails on XLA, which compiles without it: switch it off",
        edit,
    )
