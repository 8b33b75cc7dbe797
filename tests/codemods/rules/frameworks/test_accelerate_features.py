"""XLA810: what accelerate does not do on XLA, or does otherwise."""

from __future__ import annotations

import pytest

from ...helpers import findings, migrated

MADE = "from accelerate import Accelerator\nfrom xla_migrate import runtime as xla\nxla.patch_accelerate()\naccelerator = Accelerator({})\n"


@pytest.mark.parametrize(
    "spelled",
    [
        "from accelerate.utils import gather_object\nx = gather_object(texts)\n",
        "from accelerate.utils import gather_object as gather\nx = gather([1])\n",
        "import accelerate\nx = accelerate.utils.gather_object(texts)\n",
        "from accelerate import utils\nx = utils.gather_object([t for t in texts])\n",
        "from accelerate.utils.operations import gather_object\nx = gather_object(texts)\n",
    ],
)
def test_objects_are_gathered_by_the_runtime(spelled: str) -> None:
    assert findings(spelled) == [(2, "XLA810")]
    after = migrated(spelled)
    assert "x = xla.gather_lists(" in after
    assert findings(after) == []


@pytest.mark.parametrize(
    "source",
    [
        "from accelerate.local_sgd import LocalSGD\nx = LocalSGD(accelerator, model, 8)\n",
        "from accelerate import prepare_pippy\nx = prepare_pippy(model)\n",
        "from accelerate.inference import prepare_pippy\nx = prepare_pippy(model)\n",
        "from accelerate.utils import FP8RecipeKwargs\nx = FP8RecipeKwargs(backend='TE')\n",
        "import accelerate\nx = accelerate.DistributedDataParallelKwargs(comm_hook='fp16')\n",
        "from accelerate.utils import ProfileKwargs\nx = ProfileKwargs(activities=['cpu', 'cuda'])\n",
    ],
)
def test_features_that_xla_lacks(source: str) -> None:
    assert findings(source) == [(2, "XLA810")]
    assert migrated(source, unsafe=True) == source


@pytest.mark.parametrize(
    "source",
    [
        "from accelerate.utils import DistributedDataParallelKwargs\n"
        "x = DistributedDataParallelKwargs(find_unused_parameters=True, comm_hook=None)\n",
        "from accelerate.utils import ProfileKwargs\nx = ProfileKwargs(activities=['cpu'])\n",
        "from accelerate import Accelerator\nfrom xla_migrate import runtime as xla\nxla.patch_accelerate()\nx = Accelerator(dynamo_backend='no')\n",
        "from mylib import gather_object\nx = gather_object([1])\n",
        f"{MADE.format('gradient_accumulation_steps=1')}with accelerator.accumulate(m):\n    pass\n",
        f"{MADE.format('')}with accelerator.accumulate(m):\n    pass\n",
        f"{MADE.format('gradient_accumulation_steps=4')}x = accelerator.gather_for_metrics(x)\n",
        f"{MADE.format('gradient_accumulation_steps=4')}with accelerator.accumulate(m):\n    pass\n",
        f"{MADE.format('gradient_accumulation_steps=4')}with meter.accumulate(m):\n    pass\n",
    ],
)
def test_what_is_the_same(source: str) -> None:
    assert findings(source) == []


@pytest.mark.parametrize(
    "source",
    [
        "import torch.distributed.rpc as rpc\nrpc.init_rpc('a', rank=0, world_size=2)\n",
        "from torch.distributed import rpc\nrpc.init_rpc('a', rank=0, world_size=2)\n",
        "from torch.distributed.pipelining import PipelineStage\nPipelineStage(m, 0, 2, d)\n",
    ],
)
def test_remote_calls_and_pipelines(source: str) -> None:
    assert [line for line, _ in findings(source)] == [2]
    assert migrated(source) == source


@pytest.mark.parametrize(
    "home", ["accelerate", "accelerate.utils", "accelerate.parallelism_config"]
)
def test_meshes_of_devices(home: str) -> None:
    """Beside a plugin for FSDP, too, which is not made to shard then."""
    source = f"""\
from {home} import ParallelismConfig
from accelerate import Accelerator, FullyShardedDataParallelPlugin
mesh = ParallelismConfig(tp_size=2)
x = Accelerator(parallelism_config=mesh, fsdp_plugin=FullyShardedDataParallelPlugin())
x.backward(loss)
"""
    assert (3, "XLA810") in findings(source)
    assert "use_spmd" not in migrated(source)
