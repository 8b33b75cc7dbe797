"""Features of accelerate that XLA has not, or that do less there.

On XLA accelerate reads its loaders ahead, in a thread, and learns of a loader's end before the loop is there (tried
with accelerate 1.15 and torch_xla 2.9). So `gather_for_metrics` keeps the samples that fill up the last batches of
several replicas: cut what it gave to the data's length. And `accumulate` takes no step for an epoch's last, shorter
window, which goes on in the next epoch: let the number of batches be a multiple of the window.

```python
from accelerate import Accelerator

def main(model, optimizer, train_loader, eval_loader):
    accelerator = Accelerator(gradient_accumulation_steps=4)
    for batch in train_loader:
        with accelerator.accumulate(model):
            accelerator.backward(model(**batch).loss)
            optimizer.step()
            optimizer.zero_grad()
    return [accelerator.gather_for_metrics(model(**batch).logits) for batch in eval_loader]
```

The compiler is for GPUs, and XLA compiles by itself:

```diff
 from accelerate import Accelerator
+from xla_migrate import runtime as xla

-accelerator = Accelerator(dynamo_backend="inductor")
+accelerator = Accelerator(dynamo_backend="inductor" if xla.device_type() != "xla" else "no")
```

`gather_object` and `LocalSGD` raise; pipelines, float8 and hooks of DDP are CUDA's; and the profiler sees no XLA device. They
are left to a person.

```python
from accelerate import DistributedDataParallelKwargs, prepare_pippy
from accelerate.utils import gather_object

kwargs = DistributedDataParallelKwargs(comm_hook="fp16")
model = prepare_pippy(model, example_args=(x,))
texts = gather_object(texts)
```
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...edits import Replace
from ...findings import HIGH, INFO, MEDIUM, WARNING, Finding
from ...rule import Rule
from ...syntax import keyword
from ...values import ACCELERATOR

if TYPE_CHECKING:
    from ...names import Scope
    from ...script import Script

RULE = Rule("XLA810", "accelerate-features")

_FLOAT8 = "float8 needs NVIDIA's tensor cores: use bfloat16"
_FEATURES = {
    "gather_object": "`gather_object` raises on XLA: gather tensors, or use `torch.distributed.all_gather_object`",
    "LocalSGD": "`LocalSGD` raises on XLA: step with averaged gradients",
    "prepare_pippy": "pipelines over CUDA devices: XLA shards by SPMD",
    "FP8RecipeKwargs": _FLOAT8,
    "TERecipeKwargs": _FLOAT8,
    "AORecipeKwargs": _FLOAT8,
    "MSAMPRecipeKwargs": _FLOAT8,
}
_HOMES = (
    "accelerate",
    "accelerate.utils",
    "accelerate.utils.operations",
    "accelerate.utils.dataclasses",
    "accelerate.inference",
    "accelerate.local_sgd",
)


def _dotted(*names: str) -> list[str]:
    return [f"{home}.{name}" for name in names for home in _HOMES]


@RULE.call(*_dotted(*_FEATURES))
def feature(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    name = (script.dotted(call.func, scope) or "").rpartition(".")[2]
    yield RULE.at(script, call, _FEATURES[name], effort=MEDIUM if name == "gather_object" else HIGH)


@RULE.call(*_dotted("DistributedDataParallelKwargs"))
def hook(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    """A communication hook, of a DDP that accelerate does not use on XLA."""
    hooked = keyword(call, "comm_hook")
    if hooked is not None and not ast.unparse(hooked).endswith(("None", ".NO")):
        message = "ignored: XLA averages gradients within the graph, without hooks"
        yield RULE.at(script, hooked, message, severity=WARNING, effort=MEDIUM)


@RULE.call(*_dotted("ProfileKwargs"))
def profile(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    activities = keyword(call, "activities")
    if activities is not None and "cuda" in ast.unparse(activities).lower():
        message = "torch's profiler sees no XLA device: use `torch_xla.debug.profiler`"
        yield RULE.at(script, activities, message, severity=WARNING, effort=MEDIUM)


@RULE.call(*_dotted("Accelerator"), "accelerate.accelerator.Accelerator")
def compiled(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    backend = keyword(call, "dynamo_backend")
    if not isinstance(backend, ast.Constant) or str(backend.value).lower() in {"no", "none"}:
        return
    edit = Replace(backend, f'{{0}} if {script.xla}.device_type() != "xla" else "no"', (backend,))
    yield RULE.at(script, backend, "the compiler fails on XLA, which compiles by itself", edit)


@RULE.method("gather_for_metrics")
def gathered(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    if _is_of_accelerate(script, call, scope):
        message = (
            "with several replicas this keeps the samples that fill up the last batch on XLA: cut the whole to the "
            "data's length"
        )
        yield RULE.at(script, call, message, severity=INFO, effort=MEDIUM)


@RULE.method("accumulate")
def accumulated(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    if _is_of_accelerate(script, call, scope) and _accumulates(script):
        message = (
            "on XLA no step is taken for an epoch's last, shorter window: let the number of batches be a multiple of "
            "the window"
        )
        yield RULE.at(script, call, message, severity=WARNING, effort=MEDIUM)


def _is_of_accelerate(script: Script, call: ast.Call, scope: Scope) -> bool:
    assert isinstance(call.func, ast.Attribute)
    return script.value(call.func.value, scope).has(ACCELERATOR)


def _accumulates(script: Script) -> bool:
    """Whether some Accelerator of this file accumulates over several batches, as far as can be seen."""
    calls = [call for call, _ in script.index.calls_of("Accelerator")]
    steps = [keyword(call, "gradient_accumulation_steps") for call in calls]
    plugins = [keyword(call, "gradient_accumulation_plugin") for call in calls]
    return any(plugins) or any(
        step is not None and not (isinstance(step, ast.Constant) and step.value == 1)
        for step in steps
    )
