"""NCCL moves data between CUDA devices; its objects and options have no counterpart.

XLA compiles collectives into the graph. `torch.distributed` and the runtime's collectives are the way to other
devices; options of NCCL's process groups are dropped, and questions whether NCCL is there answered yes by a build
that has no device are not to be branched on.

```python
import torch
import torch.distributed as dist

def exchange(tensors, options=dist.ProcessGroupNCCL.Options()):  # XLA911
    torch.cuda.nccl.all_reduce(tensors)  # XLA911
    return torch.cuda.comm.broadcast(tensors[0], [0, 1])  # XLA911
```

So has a mesh of CUDA devices, over which torch's DTensor shards: XLA shards by SPMD (`torch_xla.distributed.spmd`).

```python
from torch.distributed.device_mesh import init_device_mesh

mesh = init_device_mesh("cuda", (2, 4))  # XLA911
```

A module of one's own of that name is not NCCL:

```python
from mylib import nccl

def mean(values):
    return nccl.all_reduce(values)
```
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...analysis.syntax import keyword
from ...fallback import leftovers
from ...finding import HIGH, LOW, WARNING, Finding
from ...rule import Rule, Unhandled

if TYPE_CHECKING:
    from ...analysis.scopes import Scope
    from ...analysis.script import Script

RULE = Rule("XLA911", "nccl", effort=HIGH)


_ASKED = (
    "no process group of XLA devices has this backend, so that this test is False: ask `xla.is_available()` where it "
    "means the accelerator"
)
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
    if isinstance(device, ast.Constant) and device.value == "cuda":
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
