"""Ray waits forever for a GPU on a cluster of XLA hosts.

## What it reports

`num_gpus=` of tasks and actors, and `use_gpu=` of Ray Train.

## Why it matters on XLA

No XLA host has the resource "GPU", so Ray never starts the task.

## What to do

Fix: none.

Request `resources={"TPU": n}` for the chips of a TPU, or `resources={"neuron_cores": n}` on
Trainium. Choose `n` for each worker.

## Example

```python
import ray
import torch

@ray.remote(num_gpus=1)  # XLA816
class Learner:
    def __init__(self):
        self.model = torch.nn.Linear(2, 2)

learner = Learner.options(num_gpus=0.5).remote()  # XLA816
```

Tasks without GPUs, and tasks that request TPUs, are not reported:

```python
import ray

@ray.remote(num_cpus=2, num_gpus=0)
class Actor:
    pass

@ray.remote(resources={"TPU": 4})
def learn(batch):
    return batch
```
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...analysis.scopes import Scope
from ...analysis.script import Script
from ...analysis.syntax import is_off, keyword
from ...finding import MEDIUM, Finding
from ...rule import Rule

RULE = Rule("XLA816", "ray-resources", effort=MEDIUM)

_INSTEAD = 'use `resources={"TPU": n}`, or `resources={"neuron_cores": n}` on Trainium'
_WAITS = f"with `num_gpus` Ray waits forever for a GPU, which no XLA host has: {_INSTEAD}"
_CONFIGS = ("ray.train.ScalingConfig", "ray.air.ScalingConfig", "ray.air.config.ScalingConfig")


@RULE.call("ray.remote")
def asked_for(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    yield from _given(script, call, "num_gpus", _WAITS)


@RULE.method("options")
def options(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    if script.source.mentions("ray"):
        yield from _given(script, call, "num_gpus", _WAITS)


@RULE.call("ray.init")
def declared(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    message = f"`num_gpus` declares GPUs that an XLA host does not have: {_INSTEAD}"
    yield from _given(script, call, "num_gpus", message)


@RULE.call(*_CONFIGS)
def workers(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    message = (
        "with `use_gpu` Ray's workers wait forever for a GPU, which no XLA host has: use"
        ' `resources_per_worker={"TPU": n}`, or `{"neuron_cores": n}` on Trainium'
    )
    yield from _given(script, call, "use_gpu", message)


def _given(script: Script, call: ast.Call, name: str, message: str) -> Iterator[Finding]:
    value = keyword(call, name)
    if value is not None and not is_off(value):
        yield RULE.finding(script, value, message)
