"""NCCL's objects and options have no counterpart on XLA.

## What it reports

`torch.cuda.nccl`, `torch.cuda.comm`, `ProcessGroupNCCL`, and device meshes of CUDA devices.

## Why it matters on XLA

NCCL moves data between CUDA devices. XLA compiles collectives into the graph. A PyTorch build for
CUDA reports NCCL as available even without a device.

## What to do

Fix: none.

Use `torch.distributed` and the runtime's collectives, and remove NCCL's options. For meshes, use
SPMD (`torch_xla.distributed.spmd`).

## Example

```python
import torch
import torch.distributed as dist

def exchange(tensors, options=dist.ProcessGroupNCCL.Options()):  # XLA911
    torch.cuda.nccl.all_reduce(tensors)  # XLA911
    return torch.cuda.comm.broadcast(tensors[0], [0, 1])  # XLA911
```

A mesh of CUDA devices, over which PyTorch's DTensor shards:

```python
from torch.distributed.device_mesh import init_device_mesh

mesh = init_device_mesh("cuda", (2, 4))  # XLA911
```

Other modules of that name are not reported:

```python
from mylib import nccl

def mean(values):
    return nccl.all_reduce(values)
```

## See also

XLA601, XLA602, XLA608
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...analysis.scopes import Scope
from ...analysis.script import Script
from ...analysis.syntax import is_literal, keyword
from ...analysis.training.meshes import is_over_all_devices
from ...analysis.training.sharding import is_sharded_by_the_runtime
from ...fallback import leftovers
from ...finding import HIGH, LOW, WARNING, Finding
from ...rule import Rule, Unhandled

RULE = Rule("XLA911", "nccl", effort=HIGH, words=("nccl",))


_ASKED = "no process group of XLA devices has this backend, so the test is False: use `xla.is_available()` if the test is for an accelerator"
_MESHES = tuple(
    f"torch.distributed.{name}"
    for name in (
        "init_device_mesh",
        "device_mesh.init_device_mesh",
        "DeviceMesh",
        "device_mesh.DeviceMesh",
        "tensor.DeviceMesh",
    )
)


@RULE.call(*_MESHES)
def mesh(script: Script, call: ast.Call, scope: Scope) -> Iterator[Finding]:
    device = call.args[0] if call.args else keyword(call, "device_type")
    if is_literal(device, "cuda") and not (
        is_over_all_devices(script, call) and is_sharded_by_the_runtime(script)
    ):
        message = "a mesh of CUDA devices fails on XLA: use SPMD (`torch_xla.distributed.spmd`)"
        yield RULE.finding(script, call, message, effort=HIGH)


@RULE.fallback
def nccl(script: Script, unhandled: Unhandled) -> Iterator[Finding]:
    for finding in leftovers(RULE, script, unhandled, HIGH):
        around = script.parent(finding.node)
        if isinstance(around, (ast.Tuple, ast.List, ast.Set)):
            around = script.parent(around)
        if isinstance(around, ast.Compare):
            finding = finding._replace(message=_ASKED, severity=WARNING, effort=LOW)
        yield finding
