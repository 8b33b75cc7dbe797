"""XLA804: DeepSpeed's engine, which the runtime has, and what it has not."""

from __future__ import annotations

import pytest

from xla_codemods.engine import Options, check, migrate

from ...helpers import findings, migrated

BUILD = "engine, *_ = deepspeed.initialize(model=model, config=config)\n"
HOME = "xla_migrate.runtime.compat"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("import deepspeed", f"from {HOME} import deepspeed"),
        ("import deepspeed as ds", f"from {HOME} import deepspeed as ds"),
        ("import os, deepspeed", f"import os\nfrom {HOME} import deepspeed"),
        ("from deepspeed import initialize", f"from {HOME}.deepspeed import initialize"),
        (
            "from deepspeed import DeepSpeedEngine as E, zero",
            f"from {HOME}.deepspeed import DeepSpeedEngine as E, zero",
        ),
        (
            "from deepspeed.accelerator import get_accelerator",
            f"from {HOME}.deepspeed import get_accelerator",
        ),
        ("from deepspeed.zero import Init", f"from {HOME}.deepspeed.zero import Init"),
        (
            "try:\n    import deepspeed\nexcept ImportError:\n    deepspeed = None",
            f"try:\n    from {HOME} import deepspeed\nexcept ImportError:\n    deepspeed = None",
        ),
    ],
)
def test_the_runtimes_is_imported(before: str, after: str) -> None:
    uses = {
        "deepspeed": "deepspeed.initialize(model=1)",
        "ds": "ds.initialize(model=1)",
        "initialize": "initialize(model=1)",
        "zero": "isinstance(1, E)\nwith zero.Init():\n    pass",
        "get_accelerator": "get_accelerator().device_name()",
        "Init": "with Init():\n    pass",
    }
    name = before.replace("\nexcept ImportError:\n    deepspeed = None", "").split()[-1]
    rest = f"import initialize as start\n\n{uses[name]}\nstart(model=2)\n"
    new = migrated(f"{before}\nfrom deepspeed {rest}")
    assert new == f"{after}\nfrom {HOME}.deepspeed {rest}"
    assert [code for _, code in findings(new)] == []


def test_the_engine_of_a_library_is_left() -> None:
    text = "import deepspeed\n\n\ndef f(m):\n    return isinstance(m, deepspeed.DeepSpeedEngine)\n"
    assert migrated(text) == text


@pytest.mark.parametrize(
    "line",
    [
        "deepspeed.comm.barrier()",
        "from deepspeed.pipe import PipelineModule\nPipelineModule(layers=[])",
        "deepspeed.initialize(model=1, config=2, mpu=3)",
        'deepspeed.initialize(model=1, config={"train_batch_size": 1, "sparse_attention": {"a": 1}})',
        'c = {"train_batch_size": 1, "optimizer": {"type": "OneBitAdam"}}',
        'c = {"zero_optimization": {"stage": 1}, "scheduler": {"type": "OneCycle"}}',
        'c = {"train_batch_size": 1, "tensor_parallel": {"autotp_size": 2}}',
    ],
)
def test_more_than_the_runtime_has_is_left(line: str) -> None:
    text = f"import deepspeed\n\n{line}\n{BUILD}"
    assert migrated(text) == text
    assert {code for _, code in findings(text)} == {"XLA804"}


@pytest.mark.parametrize(
    "entry",
    [
        '"sparse_attention": None',
        '"flops_profiler": {"enabled": False}',
        '"fp16": {"enabled": True, "loss_scale": 0}',
        '"scheduler": {"type": "WarmupLR", "params": {}}',
        '"optimizer": {"type": name}',
    ],
)
def test_configurations_that_are_taken(entry: str) -> None:
    text = f'import deepspeed\n\nconfig = {{"train_batch_size": 1, {entry}}}\n{BUILD}'
    assert migrated(text) == text.replace("import deepspeed", f"from {HOME} import deepspeed")


def test_a_copy_of_the_runtime_has_no_engine() -> None:
    text = f"import deepspeed\n\n{BUILD}"
    assert migrate(text.encode(), Options(style="native")).data == text.encode()
    assert [f.code for f in check(text.encode(), Options(style="native"))] == ["XLA804"]


def test_with_spmd_batches_are_of_all_devices() -> None:
    text = f"import deepspeed\n\nmodel, config = make()\n{BUILD}for x in loader:\n    engine.backward(engine(x))\n    engine.step()\n"
    new = migrate(text.encode(), Options(parallel="spmd")).data.decode()
    assert "xla.use_spmd(batch_per_device=True)\nmodel, config" in new


def test_the_steps_around_it_are_cut_and_read_late() -> None:
    text = f"""import deepspeed
import torch
from torch.utils.data import DataLoader

def train(model, data, config):
    {BUILD}    total = 0.0
    for x, y in DataLoader(data, batch_size=4):
        x, y = x.to(engine.local_rank), y.to(engine.device)
        loss = torch.nn.functional.cross_entropy(engine(x), y)
        engine.backward(loss)
        engine.step()
        total += loss.item()
    print(total)
"""
    new = migrated(text)
    assert "in xla.MpDeviceLoader(DataLoader(data, batch_size=4)):" in new
    assert "x.to(xla.xla_device(engine.local_rank)), y.to(engine.device)" in new
    assert "total += xla.item(loss)" in new
    assert "engine.step()\n" in new
    assert findings(new) == []
