"""Features of accelerate that XLA has not, or that do less there.

The compiler is for GPUs, and XLA compiles by itself:

```diff
 from accelerate import Accelerator
+from xla_migrate import runtime as xla

+xla.patch_accelerate()
-accelerator = Accelerator(dynamo_backend="inductor")
+accelerator = Accelerator(dynamo_backend="inductor" if xla.device_type() != "xla" else "no")
```

`gather_object` raises; the runtime's does what it does elsewhere:

```diff
 from accelerate.utils import set_seed
-from accelerate.utils import gather_object
+from xla_migrate import runtime as xla

 set_seed(0)
-texts = gather_object(texts)
+texts = xla.gather_lists(texts)
```

`LocalSGD` and meshes of devices raise; pipelines, float8 and hooks of DDP are CUDA's; and the profiler sees no XLA device. They
are left to a person.

```python
from accelerate import DistributedDataParallelKwargs, prepare_pippy
from accelerate.utils import ParallelismConfig

mesh = ParallelismConfig(dp_shard_size=2, tp_size=4)  # XLA810
kwargs = DistributedDataParallelKwargs(comm_hook="fp16")  # XLA810
model = prepare_pippy(model, example_args=(x,))  # XLA810
```

Other keyword arguments of these stay.

```python
from accelerate import DistributedDataParallelKwargs

kwargs = DistributedDataParallelKwargs(find_unused_parameters=True)
```
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...analysis.syntax import keyword
from ...edits import Replace
from ...finding import HIGH, INFO, LOW, MEDIUM, WARNING, Finding
from ...rule import Rule

if TYPE_CHECKING:
    from ...analysis.scopes import Scope
    from ...analysis.script import Script

RULE = Rule("XLA810", "accelerate-features")

_FLOAT8 = "float8 needs NVIDIA GPUs: use bfloat16"
_FEATURES = {
    "LocalSGD": "`LocalSGD` raises on XLA: average gradients in every step",
    "ParallelismConfig": "accelerate's meshes of devices raise on XLA: shard with a `FullyShardedDataParallelPlugin` alone",
    "prepare_pippy": "pipelines over CUDA devices fail on XLA: shard with SPMD",
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
    "accelerate.parallelism_config",
)


def _dotted(*names: str) -> list[str]:
    return [f"{home}.{name}" for name in names for home in _HOMES]


@RULE.call(*_dotted(*_FEATURES))
def feature(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    name = (script.dotted(call.func, scope) or "").rpartition(".")[2]
    yield RULE.finding(script, call, _FEATURES[name], effort=HIGH)


@RULE.call(*_dotted("gather_object"))
def gathered_objects(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    plain = len(call.args) == 1 and not call.keywords
    edits = (Replace(call.func, f"{script.xla}.gather_lists"),) if plain else ()
    message = "`gather_object` raises on XLA: use `xla.gather_lists`"
    yield RULE.finding(script, call, message, *edits, effort=MEDIUM)


@RULE.call(*_dotted("DistributedDataParallelKwargs"))
def hook(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    """A communication hook, of a DDP that accelerate does not use on XLA."""
    hooked = keyword(call, "comm_hook")
    if hooked is not None and not ast.unparse(hooked).endswith(("None", ".NO")):
        message = "this is ignored on XLA, where gradients are averaged as they are, neither compressed nor approximated: leave it out"
        yield RULE.finding(script, hooked, message, severity=INFO, effort=LOW)


@RULE.call(*_dotted("ProfileKwargs"))
def profile(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    activities = keyword(call, "activities")
    if activities is not None and "cuda" in ast.unparse(activities).lower():
        message = "torch's profiler records nothing of XLA devices: use `torch_xla.debug.profiler`"
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
        "torch's compiler fails on XLA, which compiles by itself: switch it off",
        edit,
    )
