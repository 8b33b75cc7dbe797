"""Replicas that read the same batches train no faster than one replica.

## What it reports

Training loaders without a `DistributedSampler` in scripts that start several replicas.

## Why it matters on XLA

A device loader does not divide the data between replicas, although the migration guide of
PyTorch/XLA says so. All replicas train on the same data.

## What to do

Fix: none.

Pass a `DistributedSampler` to the training loader.

## Example

A loader with a sampler is not reported:

```python
import torch.distributed as dist
from torch.utils.data import DataLoader, DistributedSampler
from xla_migrate import runtime as xla

def loader(dataset):
    xla.init_process_group()
    sampler = DistributedSampler(dataset, num_replicas=dist.get_world_size(), rank=dist.get_rank())
    return DataLoader(dataset, batch_size=8, sampler=sampler)
```

A function named `launch` of the script starts no replicas:

```python
from torch.utils.data import DataLoader

def launch(dataset):
    return DataLoader(dataset, batch_size=8, drop_last=True)

launch([])
```

Processes that each train a separate model are not reported:

```python
import torch
from torch.utils.data import DataLoader
from xla_migrate import runtime as xla

def train(dataset):
    xla.init_process_group()
    member = torch.nn.Linear(2, 2).to(xla.xla_device())
    optimizer = torch.optim.SGD(member.parameters(), lr=0.1)
    for x in xla.MpDeviceLoader(DataLoader(dataset, batch_size=8, drop_last=True)):
        member(x).sum().backward()
        xla.optimizer_step(optimizer, average=False)
```

A loader without a sampler:

```python
from torch.utils.data import DataLoader
from xla_migrate import runtime as xla

def train(index, model, dataset, optimizer):
    loader = DataLoader(dataset, batch_size=8, shuffle=True, drop_last=True)  # XLA607
    for x, y in xla.MpDeviceLoader(loader):
        model(x, y).backward()
        xla.optimizer_step(optimizer)
        optimizer.zero_grad()

xla.launch(train)
```
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from ...analysis.frameworks.accelerator import uses_accelerate
from ...analysis.inference.library_types import RUNTIME
from ...analysis.script import Script
from ...analysis.syntax import keyword
from ...analysis.training.replication import Replication
from ...finding import MEDIUM, WARNING, Finding
from ...patterns import Pattern
from ...rule import Rule

RULE = Rule("XLA607", "unsharded-loader", severity=WARNING, effort=MEDIUM)

_LOADERS = frozenset({"torch.utils.data.DataLoader", "torch.utils.data.dataloader.DataLoader"})
_WRAPPERS = frozenset({"DistributedDataParallel", "init_process_group"})
_LAUNCHES = frozenset({f"{RUNTIME}.launch", "torch_xla.launch"})
# Other ways to split data, any of which may be one that we do not understand.
_SHARDED = Pattern(
    r"DistributedSampler|[Ss]hard|[Pp]artition|split_dataset_by_node|num_replicas|[Ii]terableDataset|webdataset|wds\."
    r"|\[\s*(?:\w+\.)*rank\s*::|range\(\s*(?:\w+\.)*rank\s*,"
)


@RULE.file
def unsharded_loader(script: Script) -> Iterator[Finding]:
    if uses_accelerate(script) or not _starts_replicas(script):
        return
    if _SHARDED.search(script.source.text) or _trains_its_own(script):
        return
    for call, scope in script.index.calls_of("DataLoader"):
        if script.dotted(call.func, scope) not in _LOADERS or _is_for_evaluation(script, call):
            continue
        if len(call.args) < 4 and not any(
            keyword(call, name) for name in ("sampler", "batch_sampler")
        ):
            message = "with several XLA devices every process reads all of the data: pass the training loader a DistributedSampler"
            yield RULE.finding(script, call, message)


def _trains_its_own(script: Script) -> bool:
    """Return True if each process has separate parameters, so that replicas may need the same batches."""
    replication = script.cached(Replication)
    return any(not replication.averages(step.optimizer) for step in script.training.steps)


def _starts_replicas(script: Script) -> bool:
    if any(script.index.calls_of(name) for name in _WRAPPERS):
        return True
    launches = script.index.calls_of("launch")  # not a function of the script's own
    return any(script.dotted(call.func, scope) in _LAUNCHES for call, scope in launches)


def _is_for_evaluation(script: Script, call: ast.Call) -> bool:
    """By the name that it is bound to: all replicas may evaluate on the same data."""
    parent = script.parent(call)
    target = parent.targets[0] if isinstance(parent, ast.Assign) else None
    name = ast.unparse(target) if target is not None else ""
    return re.search(r"val|test|eval|dev", name, re.IGNORECASE) is not None
