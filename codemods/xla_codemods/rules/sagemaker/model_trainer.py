"""SageMaker's ModelTrainer selects GPU instances (SDK v3).

## What it reports

`Compute` with GPU instances, images for GPUs, and numbers of processes for GPUs.

## Why it matters on XLA

XLA devices on SageMaker are Trainium instances, which need a different image.

## What to do

Fix: safe.

Use Trainium's instance type, and set the variable TRAINIUM_IMAGE to the image when you run the
launch script.

## Example

```diff
 from sagemaker.train import ModelTrainer
 from sagemaker.train.configs import Compute
 from sagemaker.train.distributed import Torchrun
+import os

 trainer = ModelTrainer(
-    training_image="registry.example/pytorch-training:2.5-gpu-py311",
+    training_image=os.environ["TRAINIUM_IMAGE"],
-    compute=Compute(instance_type="ml.p4d.24xlarge", instance_count=2),
+    compute=Compute(instance_type="ml.trn1.32xlarge", instance_count=2),
     distributed=Torchrun(),
 )
```

`Torchrun()` without a number starts one process per NeuronCore. A number of processes for GPUs is
removed:

```diff
 from sagemaker.train.distributed import Torchrun
 from sagemaker.train.configs import Compute

-compute = Compute(instance_type="ml.p4d.24xlarge", instance_count=1)
+compute = Compute(instance_type="ml.trn1.32xlarge", instance_count=1)
-distributed = Torchrun(process_count_per_node=8)
+distributed = Torchrun()
```

Trainium instances are not reported:

```python
from sagemaker.train.configs import Compute
from sagemaker.train.distributed import Torchrun

compute = Compute(instance_type="ml.trn1.32xlarge", instance_count=2)
distributed = Torchrun(process_count_per_node=32)
```

## Limits

MPI and model parallelism (`Torchrun(smp=...)`) are reported without a fix.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...analysis.nodes import walk
from ...analysis.sagemaker_instances import IMAGE, constant, image_edits, instance_edit
from ...analysis.scopes import Scope
from ...analysis.script import Script
from ...analysis.syntax import keyword
from ...edits import DropArgument
from ...finding import HIGH, MEDIUM, Finding
from ...rule import Rule

RULE = Rule("XLA822", "sagemaker-model-trainer", effort=MEDIUM)

_HOMES = ("sagemaker.train", "sagemaker.modules")
_CONFIGS = (
    "sagemaker.train.configs",
    "sagemaker.modules.configs",
    "sagemaker.core.training.configs",
)
_COUNT = "process_count_per_node"


@RULE.call(*(f"{home}.Compute" for home in _CONFIGS))
def compute(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    instance = keyword(call, "instance_type")
    found = instance_edit(script, instance) if instance is not None else None
    if found is not None:
        edit, old, new = found
        yield RULE.finding(script, instance or call, f"{old} has GPUs: train on {new}", edit)


@RULE.call(
    *(f"{home}.ModelTrainer" for home in _HOMES),
    "sagemaker.train.model_trainer.ModelTrainer",
    "sagemaker.modules.train.ModelTrainer",
    "sagemaker.modules.train.model_trainer.ModelTrainer",
)
def trainer(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    image = keyword(call, "training_image")
    if image is None:
        return
    edits = list(image_edits(script, call, "training_image", image))
    if edits:
        message = f"the image is for GPUs: train with the image in ${IMAGE}"
        yield RULE.finding(script, image, message, *edits)


@RULE.call(
    "sagemaker.train.distributed.Torchrun",
    "sagemaker.modules.distributed.Torchrun",
    "sagemaker.core.training.distributed.Torchrun",
)
def torchrun(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    if keyword(call, "smp") is not None:
        message = "SageMaker's model parallelism is for GPUs: shard with FSDP under SPMD"
        yield RULE.finding(script, call, message, effort=HIGH)
        return
    count = next((k for k in call.keywords if k.arg == _COUNT), None)
    if count is not None and isinstance(count.value, ast.Constant) and _asks_for_gpus(script):
        message = "the number of processes is for GPUs: without it, torchrun starts one process per NeuronCore"
        yield RULE.finding(script, count.value, message, DropArgument(call, count))


@RULE.call("sagemaker.train.distributed.MPI", "sagemaker.modules.distributed.MPI")
def mpi(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    if _asks_for_gpus(script):
        yield RULE.finding(
            script, call, "MPI starts processes for GPUs: use `Torchrun()` for NeuronCores"
        )


def _asks_for_gpus(script: Script) -> bool:
    """True if some Compute of the script has a GPU instance."""
    for node in walk(script.source.tree):
        if isinstance(node, ast.Call):
            scope = script.index.scope(node)
            home, _, name = (script.dotted(node.func, scope) or "").rpartition(".")
            instance = keyword(node, "instance_type")
            if name == "Compute" and home in _CONFIGS and instance is not None:
                held = constant(script, instance)
                if held is not None and str(held.value).startswith(("ml.p", "ml.g")):
                    return True
    return False
