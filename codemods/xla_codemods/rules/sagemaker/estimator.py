"""A SageMaker estimator selects GPU instances (SDK v2).

## What it reports

Estimators with GPU instances, their images and their `distribution`.

## Why it matters on XLA

XLA devices on SageMaker are Trainium instances. The SDK has no current image for Trainium.
SageMaker's library for data parallelism, MPI and `pytorchddp` are for GPUs.

## What to do

Fix: safe.

Use Trainium instances: `ml.trn1.2xlarge` for one GPU, `ml.trn1.32xlarge` for several,
`ml.trn2.48xlarge` for P5. torchrun starts one process per NeuronCore. Set the variable
TRAINIUM_IMAGE to the image when you run the launch script. Versions that selected the GPU image
are removed. `xla-migrate sagemaker rehearse` shows the resulting request.

## Example

```diff
 import os
 from sagemaker.pytorch import PyTorch

 estimator = PyTorch(
     entry_point="train.py",
-    instance_type="ml.p4d.24xlarge",
+    instance_type="ml.trn1.32xlarge",
     instance_count=2,
-    framework_version="2.3",
-    py_version="py311",
-    distribution={"smdistributed": {"dataparallel": {"enabled": True}}},
+    distribution={"torch_distributed": {"enabled": True}},
+    image_uri=os.environ["TRAINIUM_IMAGE"],
 )
```

```diff
 from sagemaker.huggingface import HuggingFace
+import os

-kind = "ml.p3.2xlarge"
+kind = "ml.trn1.2xlarge"
-estimator = HuggingFace(entry_point="train.py", instance_type=kind, instance_count=1, transformers_version="4.36", pytorch_version="2.1", py_version="py310")
+estimator = HuggingFace(entry_point="train.py", instance_type=kind, instance_count=1, image_uri=os.environ["TRAINIUM_IMAGE"])
```

Instances that are not known to have GPUs, own images and endpoints are not reported:

```python
from sagemaker.pytorch import PyTorch

def start(args):
    estimator = PyTorch(entry_point="train.py", instance_type=args.instance, instance_count=1)
    estimator.fit()
    estimator.deploy(instance_type="ml.g5.xlarge", initial_instance_count=1)
    return PyTorch(entry_point="train.py", instance_type="ml.trn1.32xlarge", instance_count=1)
```

## Limits

- SageMaker's model parallelism has no counterpart on Trainium. Such an estimator is reported
  without a fix.
- Without `distribution`, one process trains on one device, as on one GPU.
- Checkpoints (`checkpoint_s3_uri`), spot instances and hyperparameters stay.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...analysis.sagemaker_instances import IMAGE, image_edits, instance_edit
from ...analysis.scopes import Scope
from ...analysis.script import Script
from ...analysis.syntax import keyword
from ...edits import DropArgument, Edit, Replace
from ...finding import HIGH, MEDIUM, Finding
from ...rule import Rule

RULE = Rule("XLA821", "sagemaker-estimator", effort=MEDIUM)

_FRAMEWORKS = (
    "sagemaker.pytorch.PyTorch",
    "sagemaker.pytorch.estimator.PyTorch",
    "sagemaker.huggingface.HuggingFace",
    "sagemaker.huggingface.estimator.HuggingFace",
)
_TORCHRUN = '{"torch_distributed": {"enabled": True}}'
# What chooses the image of the SDK, and what is for its GPU images only.
_OF_THE_IMAGE = ("framework_version", "pytorch_version", "transformers_version", "py_version")
_OF_GPUS = ("compiler_config",)


@RULE.call(*_FRAMEWORKS, "sagemaker.estimator.Estimator")
def estimator(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    instance = keyword(call, "instance_type")
    found = instance_edit(script, instance) if instance is not None else None
    distribution = keyword(call, "distribution")
    parallel = _parallel(distribution)
    if parallel == "model":
        message = "SageMaker's model parallelism is for GPUs: shard with FSDP under SPMD"
        yield RULE.finding(script, distribution or call, message, effort=HIGH)
        return
    if found is None:
        if parallel == "other" and distribution is not None and instance is not None:
            message = (
                "SageMaker's data parallelism is for GPUs: torchrun starts a process per device"
            )
            yield RULE.finding(script, distribution, message)
        return
    edit, old, new = found
    message = f"{old} has GPUs: train on {new} with the image in ${IMAGE}"
    if any(k.arg is None for k in call.keywords):
        yield RULE.finding(
            script,
            instance or call,
            f"{message} (not rewritten, because the arguments in ** are not known)",
        )
        return
    edits = [edit, *_image(script, call, scope)]
    edits += [Replace(distribution, _TORCHRUN)] if parallel == "other" and distribution else []
    edits += [DropArgument(call, k) for k in call.keywords if k.arg in _OF_GPUS]
    yield RULE.finding(script, instance or call, message, *edits)


def _image(script: Script, call: ast.Call, scope: Scope) -> list[Edit]:
    given = keyword(call, "image_uri")
    if given is None and script.dotted(call.func, scope) not in _FRAMEWORKS:
        return []  # the first argument of an Estimator is the image
    edits = list(image_edits(script, call, "image_uri", given))
    if edits:
        edits += [DropArgument(call, k) for k in call.keywords if k.arg in _OF_THE_IMAGE]
    return edits


def _parallel(distribution: ast.expr | None) -> str:
    """Return the kind: `torchrun`, `model` parallelism, `other` that torchrun replaces, or "" if unknown."""
    if not isinstance(distribution, ast.Dict):
        return ""
    entries = {
        k.value: v
        for k, v in zip(distribution.keys, distribution.values)
        if isinstance(k, ast.Constant)
    }
    if len(entries) != len(distribution.keys):
        return ""
    if "torch_distributed" in entries:
        return "torchrun"
    inner = entries.get("smdistributed")
    if inner is not None:
        names = (
            {k.value for k in inner.keys if isinstance(k, ast.Constant)}
            if isinstance(inner, ast.Dict)
            else set()
        )
        return "other" if names == {"dataparallel"} else "model"
    return "other" if entries.keys() & {"mpi", "pytorchddp", "pytorchxla"} else ""
