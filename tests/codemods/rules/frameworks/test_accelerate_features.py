"""XLA810: what accelerate does not do on XLA, or does otherwise."""

from __future__ import annotations

import pytest

from ....each import each
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
        "from accelerate import prepare_pippy\nx = prepare_pippy(model, example_args=(x,))\n",
        "from accelerate.inference import prepare_pippy as split\nmodel = split(model)\n",
        "import accelerate\nx = accelerate.prepare_pippy(model, gather_output=True)\n",
        "from accelerate import inference\nif __name__ == '__main__':\n    x = inference.prepare_pippy(model)\n",
        "from accelerate import prepare_pippy\ndef main():\n    return prepare_pippy(build())\nmain()\n",
    ],
)
def test_pipelines_that_are_run(source: str) -> None:
    assert [code for _, code in findings(source)] == ["XLA810"]
    after = migrated(source)
    assert "xla.prepare_pippy(" in after
    assert after.count("xla.use_spmd(batch_per_device=True)") == 1
    assert after.index("use_spmd") < after.index("xla.prepare_pippy") or "def main" in after
    assert findings(after) == []


@pytest.mark.parametrize(
    "source",
    [
        "from accelerate import prepare_pippy\ndef split(model):\n    return prepare_pippy(model)\n",
        "from accelerate import prepare_pippy\nx = prepare_pippy(model)\nx(y).sum().backward()\n",
        "from accelerate import prepare_pippy\nx = prepare_pippy(model)\nx.pippy_stage.step(y)\n",
        "from accelerate import prepare_pippy\nx = prepare_pippy(model)\nfor y in DataLoader(d): x(y)\n",
        "from accelerate import prepare_pippy\nx = prepare_pippy(model, num_chunks=s.num_processes)\n",
    ],
)
def test_pipelines_that_are_left(source: str) -> None:
    assert "XLA810" in [code for _, code in findings(source)]
    assert "xla.prepare_pippy" not in migrated(source, unsafe=True)


LOOP = """\
def train(accelerator, model, optimizer, loader):
    for epoch in range(3):
        with LocalSGD(accelerator, model, 8) as local:
            for batch in loader:
                accelerator.backward(model(batch))
                optimizer.step()
                optimizer.zero_grad()
                local.step()
"""


@pytest.mark.parametrize(
    "source",
    [
        "from accelerate.local_sgd import LocalSGD\n" + LOOP,
        "from accelerate.local_sgd import LocalSGD as Averaged\n"
        + LOOP.replace("LocalSGD", "Averaged"),
        "import accelerate.local_sgd\n" + LOOP.replace("LocalSGD", "accelerate.local_sgd.LocalSGD"),
        "from accelerate import local_sgd\n" + LOOP.replace("LocalSGD", "local_sgd.LocalSGD"),
        "from accelerate.local_sgd import LocalSGD\nlocal = LocalSGD(accelerator=a, model=m, local_sgd_steps=8, enabled=on)\n",
    ],
)
def test_local_sgd_is_patched_before_it_is_made(source: str) -> None:
    assert [code for _, code in findings(source)] == ["XLA810"]
    after = migrated(source)
    assert after.count("xla.patch_accelerate()") == 1
    assert after.index("patch_accelerate()") < after.index(
        "with " if "with " in after else "local ="
    )
    assert findings(after) == []


@pytest.mark.parametrize(
    "made",
    [
        "from accelerate import Accelerator\naccelerator = Accelerator()\n",
        "from accelerate import Accelerator as A\na = A()\n",
    ],
)
def test_the_accelerator_s_patch_is_local_sgd_s(made: str) -> None:
    source = f"from accelerate.local_sgd import LocalSGD\n{made}{LOOP}train(a)\n"
    assert [code for _, code in findings(source)] == ["XLA814"]
    assert migrated(source).count("xla.patch_accelerate()") == 1


@pytest.mark.parametrize(
    "source",
    [
        "from accelerate.local_sgd import LocalSGD\nclass Own(LocalSGD):\n    pass\n",
        "from accelerate import local_sgd\nclass Own(Mixin, local_sgd.LocalSGD):\n    pass\n",
    ],
)
def test_a_class_of_ones_own_is_told(source: str) -> None:
    assert findings(source) == [(2, "XLA810")]
    assert migrated(source, unsafe=True) == source


@pytest.mark.parametrize(
    "source",
    [
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


@each(
    "imported, made",
    [
        ("from accelerate import Accelerator", "Accelerator()"),
        ("from accelerate import Accelerator as Helper", "Helper(mixed_precision='bf16')"),
        ("import accelerate", "accelerate.Accelerator()"),
        ("from accelerate.accelerator import Accelerator", "Accelerator()"),
        ("from lightning.fabric import Fabric", "Fabric()"),
    ],
)
def test_what_is_imported_where_it_is_made_drives_the_file(imported: str, made: str) -> None:
    source = f"""
class Strategy:
    def __init__(self, model, optimizer):
        {imported}
        self.driver = {made}
        self.model, self.optimizer = self.driver.prepare(model, optimizer)
    def backward(self, loss):
        self.driver.backward(loss)
    def step(self, optimizer):
        optimizer.step()
        optimizer.zero_grad()
"""
    assert not {"XLA501", "XLA502"} & {code for _, code in findings(source)}
    other = source.replace(imported, "from mine import Helper").replace(made, "Helper()")
    assert {"XLA501", "XLA502"} <= {code for _, code in findings(other)}


STATE = "from accelerate import PartialState\n"


@pytest.mark.parametrize(
    ("made", "after"),
    [
        ('PartialState(backend="nccl")', "PartialState()"),
        ('PartialState(cpu=False, backend="nccl")', "PartialState(cpu=False)"),
        ("PartialState(backend='nccl', timeout=t)", "PartialState(timeout=t)"),
        ('PartialState(backend="gloo")', 'PartialState(backend="gloo")'),
        ('b = "nccl"; PartialState(backend=b)', 'b = "nccl"; PartialState(backend=b)'),
    ],
)
def test_the_backend_of_a_state(made: str, after: str) -> None:
    assert findings(f"{STATE}{made}\n") == [(2, "XLA810")]
    assert migrated(f"{STATE}{made}\n") == f"{STATE}{after}\n"


@pytest.mark.parametrize(
    "made", ["PartialState()", "PartialState(backend=None)", "PartialState(backend=args.backend)"]
)
def test_a_state_with_the_backend_of_the_device(made: str) -> None:
    assert findings(f"{STATE}{made}\n") == []
