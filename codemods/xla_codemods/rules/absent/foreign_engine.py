"""A library that computes only on CUDA devices, or has no trainer for XLA, prevents training on XLA.

## What it reports

The first import or use of such a library in a file: simulators (Isaac Gym), graph libraries with their
own operators (DGL, torch_scatter), rasterisers, sparse convolutions, and frameworks such as
torchtitan, detectron2, mmengine, ultralytics and stable-baselines3.

## Why it matters on XLA

The libraries are compiled for CUDA and the CPU, or start and shard processes with NCCL. Trainers
choose between CUDA and the CPU by themselves: mmengine's `Runner` trains on the CPU of an XLA host,
without a message. In stable-baselines3, XLA compiled 65 graphs for the first 128 environment steps
of PPO.

## What to do

Fix: none.

Replace the library, as the finding suggests. The rest of the file is migrated.

## Example

```python
import dgl  # XLA915
import torch
from isaacgym import gymapi, gymtorch  # XLA915
from torchtitan.distributed import ParallelDims  # XLA915
from dgl.nn import GraphConv

def convolve(graph, x):
    return GraphConv(16, 4)(graph, x)
```

detectron2's launcher needs CUDA devices. Its models are PyTorch models and are not reported:

```python
from detectron2.engine import launch  # XLA915
from detectron2.config import get_cfg
```

The trainers of mmengine and ultralytics are reported; mmengine's configurations, registries and
models are not:

```python
from mmengine.config import Config
from mmengine.runner import Runner  # XLA915
from ultralytics import YOLO  # XLA915

def train(path):
    Runner.from_cfg(Config.fromfile(path)).train()
```

stable-baselines3's buffers and wrappers of environments are not reported:

```python
import stable_baselines3 as sb3
from stable_baselines3.common.buffers import ReplayBuffer

def train(environment):
    print(sb3.__version__)
    return sb3.PPO("MlpPolicy", environment).learn(1000)  # XLA915
```

A module of the project is not reported:

```python
from .simulators import isaacgym

gym = isaacgym.make("Ant")
```

An import with a fallback is a note:

```python
try:
    import torch_scatter  # XLA915
except ImportError:
    torch_scatter = None
```
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...analysis.devices.guards import is_guarded
from ...analysis.script import Script
from ...finding import HIGH, INFO, LOW, Finding
from ...rule import Rule

_SIMULATOR = "it simulates on CUDA devices: simulate on the host (MuJoCo, Brax) and move the observations to the device"
_OPERATORS = "its operators are compiled for CUDA and the CPU: write them with PyTorch's operations (`index_add`, `scatter_reduce`, dense layers)"
_KERNELS = "its kernels need CUDA, and no other implementation exists for XLA"
_LAUNCHER = "it starts one process per CUDA device and connects them with NCCL: call the function with `xla.launch`"
_PARALLEL = "it shards over meshes of CUDA devices: write the training loop with the model, and shard with SPMD (`xla.use_spmd`)"
_RUNNER = "on hosts without CUDA it trains on the CPU, without a message: write the training loop with the model"
_TRAINER = "it accepts CUDA, MPS and CPU devices only: write the training loop with its PyTorch module (`.model`)"
_UNEVEN = "its training loops record other operations in most steps, and XLA compiles each set of them: train on the CPU, or write the loop with the model"

# The library, or the part of one, and why it fails.
_ENGINES = {
    "dgl": _OPERATORS,
    "torch_scatter": _OPERATORS,
    "torch_sparse": _OPERATORS,
    "torch_cluster": _OPERATORS,
    "torch_spline_conv": _OPERATORS,
    "MinkowskiEngine": _OPERATORS,
    "spconv": _OPERATORS,
    "torchsparse": _OPERATORS,
    "isaacgym": _SIMULATOR,
    "isaacgymenvs": _SIMULATOR,
    "isaaclab": _SIMULATOR,
    "isaacsim": _SIMULATOR,
    "omni.isaac": _SIMULATOR,
    "curobo": _SIMULATOR,
    "tinycudann": _KERNELS,
    "nvdiffrast": _KERNELS,
    "gsplat": _KERNELS,
    "diff_gaussian_rasterization": _KERNELS,
    "diff_surfel_rasterization": _KERNELS,
    "fast_hadamard_transform": _KERNELS,
    "fused_ssim": _KERNELS,
    "openequivariance": _KERNELS,
    "pointnet2_ops": _KERNELS,
    "selective_scan_cuda": _KERNELS,
    "simple_knn": _KERNELS,
    "vllm": _KERNELS,
    "detectron2.engine.launch": _LAUNCHER,
    "detectron2.engine.launch.launch": _LAUNCHER,
    "mmengine.Runner": _RUNNER,
    "mmengine.runner.Runner": _RUNNER,
    "mmengine.runner.runner": _RUNNER,
    **{f"stable_baselines3.{name}": _UNEVEN for name in "A2C DDPG DQN PPO SAC TD3".split()},
    **{f"stable_baselines3.{name}": _UNEVEN for name in "a2c ddpg dqn ppo sac td3".split()},
    "ultralytics.RTDETR": _TRAINER,
    "ultralytics.YOLO": _TRAINER,
    "torchtitan.distributed": _PARALLEL,
    "torchtitan.parallelisms": _PARALLEL,
    "torchtitan.train": _PARALLEL,
    "torchtitan.trainer": _PARALLEL,
}

_PACKAGES = tuple(sorted({name.partition(".")[0].lower() for name in _ENGINES}))
RULE = Rule("XLA915", "foreign-engine", first=True, effort=HIGH, words=_PACKAGES)


@RULE.file
def engines(script: Script) -> Iterator[Finding]:
    reported: set[str] = set()
    for node, dotted in (*_imported(script), *_used(script)):
        engine = _engine(dotted)
        library = engine.partition(".")[0]
        if engine and library not in reported and not script.project.has(dotted):
            reported.add(library)
            yield _finding(script, node, engine)


def _imported(script: Script) -> Iterator[tuple[ast.stmt, str]]:
    """Yield the imports of the file in their order, with what they import."""
    imports: list[ast.Import | ast.ImportFrom] = [s for s, _ in script.index.of(ast.Import)]
    imports += [s for s, _ in script.index.of(ast.ImportFrom)]
    for statement in sorted(imports, key=lambda s: s.lineno):
        for dotted in _names(statement):
            yield statement, dotted


def _used(script: Script) -> Iterator[tuple[ast.Attribute, str]]:
    """Yield what is used of whole libraries that the file imports: `ultralytics.YOLO`."""
    for node, scope in script.index.of(ast.Attribute):
        if dotted := script.dotted(node, scope):
            yield node, dotted


def _finding(script: Script, node: ast.AST, engine: str) -> Finding:
    message = f"`{engine}` does not support XLA: {_ENGINES[engine]}"
    if is_guarded(script, node, engine):
        return RULE.finding(script, node, message, severity=INFO, effort=LOW)
    return RULE.finding(script, node, message)


def _names(statement: ast.Import | ast.ImportFrom) -> Iterator[str]:
    if isinstance(statement, ast.Import):
        yield from (alias.name for alias in statement.names)
    elif not statement.level:
        yield from (f"{statement.module}.{alias.name}" for alias in statement.names)


def _engine(dotted: str) -> str:
    """The longest entry that `dotted` is, or is a part of."""
    while dotted and dotted not in _ENGINES:
        dotted = dotted.rpartition(".")[0]
    return dotted
