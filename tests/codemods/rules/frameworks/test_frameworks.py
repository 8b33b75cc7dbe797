"""XLA802 to XLA808: accelerate, Lightning, DeepSpeed, Horovod, timm, device maps, quantised weights."""

from __future__ import annotations

import pytest

from xla_codemods.engine import check

from ....each import each
from ...helpers import findings, migrated

HALF = '"fp16" if xla.device_type() == "cuda" else "bf16"'


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('Accelerator(mixed_precision="fp16")', f"Accelerator(mixed_precision={HALF})"),
        (
            'Accelerator(mixed_precision="fp16", cpu=False)',
            f"Accelerator(mixed_precision={HALF}, cpu=False)",
        ),
        ("Accelerator(fp16=True)", f"Accelerator(mixed_precision={HALF})"),
    ],
)
def test_accelerator(before: str, after: str) -> None:
    head = "from accelerate import Accelerator\nfrom xla_migrate import runtime as xla\nxla.patch_accelerate()\nx = "
    assert migrated(f"{head}{before}\n") == f"{head}{after}\n"


@pytest.mark.parametrize(
    "call",
    [
        "Accelerator()",
        'Accelerator(mixed_precision="bf16")',
        'Accelerator(mixed_precision="no")',
        "Accelerator(mixed_precision=args.mixed_precision)",
        "Accelerator(cpu=args.cpu)",
        "Accelerator(fp16=False)",
    ],
)
def test_accelerators_that_stay(call: str) -> None:
    assert (
        findings(
            f"from accelerate import Accelerator\nfrom xla_migrate import runtime as xla\nxla.patch_accelerate()\nx = {call}\n"
        )
        == []
    )


@pytest.mark.parametrize(
    ("call", "code"),
    [
        ('Accelerator(mixed_precision="fp8")', "XLA802"),
        ("Accelerator(cpu=True)", "XLA802"),
        ("DeepSpeedPlugin(zero_stage=2)", "XLA802"),
        ("FullyShardedDataParallelPlugin(cpu_offload=CPUOffload(offload_params=True))", "XLA802"),
        ("FullyShardedDataParallelPlugin(cpu_offload=True)", "XLA802"),
        ("FullyShardedDataParallelPlugin(sharding_strategy='HYBRID_SHARD')", "XLA802"),
        ("FullyShardedDataParallelPlugin(reshard_after_forward=S.HYBRID_SHARD)", "XLA802"),
        ("FullyShardedDataParallelPlugin(ignored_modules=[head])", "XLA802"),
        ("FullyShardedDataParallelPlugin(mixed_precision_policy=policy)", "XLA802"),
    ],
)
def test_accelerate_left_to_a_person(call: str, code: str) -> None:
    name = call.partition("(")[0]
    head = "from xla_migrate import runtime as xla\nxla.patch_accelerate()\n"
    source = f"{head}from accelerate import {name}\nx = {call}\n"
    assert findings(source) == [(4, code)]
    assert migrated(source, unsafe=True) == source


@pytest.mark.parametrize("method", ["save_state", "load_state", "save_model"])
def test_fact_7_4_checkpoints_of_accelerate(method: str) -> None:
    source = f"""
        from accelerate import Accelerator
        from xla_migrate import runtime as xla
        xla.patch_accelerate()
        accelerator = Accelerator()
        accelerator.{method}("out")
        """
    assert findings(source) == [(6, "XLA802")]
    assert f'xla.{method}(accelerator, "out")' in migrated(source)


@pytest.mark.parametrize(
    ("call", "after"),
    [
        ("save_state()", "xla.save_state(accelerator)"),
        ("save_state(output_dir=out)", "xla.save_state(accelerator, output_dir=out)"),
        ("load_state(*args, strict=False)", "xla.load_state(accelerator, *args, strict=False)"),
        ("save_model(model, out, **more)", "xla.save_model(accelerator, model, out, **more)"),
        ("load_state(f'{out}/last')", "xla.load_state(accelerator, f'{out}/last')"),
    ],
)
def test_checkpoints_of_accelerate_by_the_runtime(call: str, after: str) -> None:
    head = "from accelerate import Accelerator\naccelerator = Accelerator()\n"
    assert after in migrated(f"{head}accelerator.{call}\n")
    plugin = head.replace("import A", "import DeepSpeedPlugin, A") + "plugin = DeepSpeedPlugin()\n"
    assert f"accelerator.{call}" in migrated(f"{plugin}accelerator.{call}\n")


@pytest.mark.parametrize("method", ["save_state", "load_state", "save_model"])
def test_other_objects_save_as_they_like(method: str) -> None:
    assert findings(f"import accelerate\nengine = build()\nengine.{method}('gpu')\n") == []


def test_option_of_another_program_keeps_its_default() -> None:
    source = """
        import argparse, torch
        parser = argparse.ArgumentParser()
        parser.add_argument("--mixed_precision", default="fp16")
        """
    assert findings(source) == []


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('Trainer(accelerator="gpu", devices=2)', 'Trainer(accelerator="auto", devices=2)'),
        ('Trainer(accelerator="cuda")', 'Trainer(accelerator="auto")'),
        ("Trainer(gpus=2)", 'Trainer(devices=2, accelerator="auto")'),
        ('Trainer(gpus=2, accelerator="ddp")', 'Trainer(devices=2, accelerator="auto")'),
        ('Trainer(gpus=2, accelerator="gpu")', 'Trainer(devices=2, accelerator="auto")'),
        (
            'Trainer(gpus=2, strategy="ddp")',
            'Trainer(devices=2, strategy="ddp", accelerator="auto")',
        ),
        (
            "Trainer(precision=16)",
            'Trainer(precision=16 if xla.device_type() == "cuda" else "bf16-mixed")',
        ),
        (
            'Trainer(precision="16-mixed")',
            'Trainer(precision="16-mixed" if xla.device_type() == "cuda" else "bf16-mixed")',
        ),
    ],
)
@pytest.mark.parametrize("home", ["lightning", "lightning.pytorch", "pytorch_lightning"])
def test_lightning(home: str, before: str, after: str) -> None:
    head = f"from {home} import Trainer\nfrom xla_migrate import runtime as xla\nxla.patch_lightning()\nx = "
    assert migrated(f"{head}{before}\n") == f"{head}{after}\n"


@pytest.mark.parametrize(
    "call",
    [
        "Trainer()",
        'Trainer(accelerator="auto", devices="auto")',
        'Trainer(accelerator="tpu", devices=8)',
        'Trainer(accelerator="cpu")',
        'Trainer(precision="bf16-mixed")',
        "Trainer(gpus=None)",
        "Trainer(accelerator=args.accelerator, strategy=args.strategy, precision=args.precision)",
    ],
)
def test_lightning_that_stays(call: str) -> None:
    head = "from lightning import Trainer\nfrom xla_migrate import runtime as xla\nxla.patch_lightning()\n"
    assert findings(f"{head}x = {call}\n") == []


@pytest.mark.parametrize(
    "call",
    [
        'Trainer(strategy="deepspeed_stage_2")',
        'Trainer(strategy="fsdp")',
        'Trainer(precision="16-true")',
    ],
)
def test_lightning_left_to_a_person(call: str) -> None:
    source = f"from lightning import Trainer\nfrom xla_migrate import runtime as xla\nxla.patch_lightning()\nx = {call}\n"
    assert findings(source) == [(4, "XLA803")]
    assert migrated(source, unsafe=True) == source


@pytest.mark.parametrize(
    ("source", "line", "code"),
    [
        ("import deepspeed\nengine, *_ = deepspeed.initialize(model=m)\n", 1, "XLA804"),
        ("import deepspeed\n", 1, "XLA804"),
        ("from deepspeed.moe.layer import MoE\nlayer = MoE(4)\n", 2, "XLA804"),
        ("import horovod.torch as hvd\nhvd.init()\n", 2, "XLA805"),
        ("import horovod.torch as hvd\nprint(hvd.rank())\n", 2, "XLA805"),
    ],
)
def test_engines(source: str, line: int, code: str) -> None:
    assert findings(source) == [(line, code)]


@each(
    "test, severity",
    [
        ("args.horovod", "info"),
        ("use_horovod and step", "info"),
        ("hvd is not None", "info"),
        ("args.distributed", "error"),
        ("step", "error"),
    ],
)
def test_what_only_horovod_does(test: str, severity: str) -> None:
    source = f"""
try:
    import horovod.torch as hvd
except ImportError:
    hvd = None
def train(optimizer, args, step):
    if {test}:
        optimizer.synchronize()
        with optimizer.skip_synchronize():
            optimizer.step()
"""
    found = [f.severity for f in check(source.encode()) if f.line > 7 and f.code == "XLA805"]
    assert found == [severity] * 2


@pytest.mark.parametrize(
    ("call", "device"),
    [
        ("create_loader(d, 224, 8)", True),
        ("create_loader(d, 224, 8, use_prefetcher=args.prefetcher)", True),
        ("create_loader(d, 224, 8, use_prefetcher=False)", False),
        ("create_loader(d, 224, 8, device=device)", False),
        ("create_loader(d, 224, 8, **options)", False),
    ],
)
def test_timm_loader(call: str, device: bool) -> None:
    after = migrated(f"from timm.data import create_loader\nx = {call}\n")
    assert ("device=xla.xla_device()" in after) is device


def test_timm_loader_of_ones_own() -> None:
    assert (
        findings("from mylib import create_loader\nimport torch\nx = create_loader(cuda, 1)\n")
        == []
    )


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ('{"": 0}', "xla.xla_device()"),
        ('{"": "cuda:0"}', "xla.xla_device()"),
        ('{"": accelerator.local_process_index}', "xla.xla_device()"),
        ('{"": local_rank}', "xla.xla_device()"),
        ("0", "xla.xla_device()"),
    ],
)
def test_device_map(given: str, expected: str) -> None:
    source = f"from transformers import AutoModel\nx = AutoModel.from_pretrained(n, device_map={given})\n"
    assert f"device_map={expected})" in migrated(source)


def test_automatic_device_maps_only_when_asked_for() -> None:
    source = (
        'from transformers import AutoModel\nx = AutoModel.from_pretrained(n, device_map="auto")\n'
    )
    assert migrated(source) == source
    assert "device_map=xla.xla_device())" in migrated(source, unsafe=True)


DISPATCH = (
    "from accelerate import dispatch_model, infer_auto_device_map, load_checkpoint_and_dispatch\n"
)


@pytest.mark.parametrize(
    "call",
    [
        'dispatch_model(m, device_map={"": MAP})',
        'dispatch_model(m, {"": MAP})',
        'load_checkpoint_and_dispatch(m, "folder", device_map={"": MAP})',
    ],
)
def test_device_maps_of_accelerate(call: str) -> None:
    for index in ("0", "local_rank", "state.local_process_index"):
        source = f"{DISPATCH}x = {call.replace('MAP', index)}\n"
        assert findings(source) == [(2, "XLA807")]
        assert migrated(source).endswith(f"x = {call.replace('MAP', 'xla.xla_device()')}\n")


def test_automatic_device_maps_of_accelerate() -> None:
    source = f'{DISPATCH}x = load_checkpoint_and_dispatch(m, "folder", "auto")\n'
    assert findings(source) == [(2, "XLA807")]
    assert migrated(source) == source
    assert '"folder", {"": xla.xla_device()})' in migrated(source, unsafe=True)


@pytest.mark.parametrize(
    "line",
    [
        "m = dispatch_model(m, infer_auto_device_map(m, max_memory={0: '1GB'}))",
        "where = 'auto'; m = load_checkpoint_and_dispatch(m, f, device_map=where)",
        "m = dispatch_model(m, device_map={'a': 0, 'b': 1})",
    ],
)
def test_device_maps_of_accelerate_that_need_a_person(line: str) -> None:
    assert findings(f"{DISPATCH}{line}\n") == [(2, "XLA807")]
    assert migrated(f"{DISPATCH}{line}\n", unsafe=True) == f"{DISPATCH}{line}\n"


@pytest.mark.parametrize(
    "given", ['{"": "cpu"}', '{"": xla.xla_device()}', "device_map", '{"": "xla:0"}', "None"]
)
def test_device_maps_of_accelerate_that_stay(given: str) -> None:
    source = f"from xla_migrate import runtime as xla\n{DISPATCH}m = dispatch_model(m, {given})\n"
    assert findings(source) == []


@pytest.mark.parametrize(
    "given", ["None", '"cpu"', "device_map", '{"": "cpu"}', '{"": xla.xla_device()}', "True"]
)
def test_device_maps_that_stay(given: str) -> None:
    head = "from transformers import AutoModel\nfrom xla_migrate import runtime as xla\n"
    source = f"{head}x = AutoModel.from_pretrained(n, device_map={given})\n"
    assert findings(source) == []


@pytest.mark.parametrize(
    "source",
    [
        "from transformers import BitsAndBytesConfig\nx = BitsAndBytesConfig()\n",
        "from transformers import AutoModel\nx = AutoModel.from_pretrained(n, load_in_8bit=True)\n",
        "from peft import prepare_model_for_kbit_training\nx = prepare_model_for_kbit_training(m)\n",
    ],
)
def test_quantized(source: str) -> None:
    assert findings(source) == [(2, "XLA808")]


@pytest.mark.parametrize(
    "source",
    [
        "from transformers import AutoModel\nx = AutoModel.from_pretrained(n, load_in_8bit=False)\n",
        "from transformers import AutoModel\nx = AutoModel.from_pretrained(n, load_in_8bit=args.int8)\n",
        "import torch\nx = load(load_in_8bit=True)\n",
    ],
)
def test_not_quantized(source: str) -> None:
    assert findings(source) == []


def test_what_lightning_made_is_lightnings_to_step() -> None:
    source = """import pytorch_lightning as pl
from pytorch_lightning.strategies import DDPStrategy
class Base(pl.LightningModule):
    pass
class Net(Base):
    def training_step(self, batch, index):
        opt = self.optimizers()
        opt.zero_grad()
        self.manual_backward(self(batch.cuda()))
        opt.step()
trainer = pl.Trainer(strategy=DDPStrategy(), amp_backend="native", amp_level=None)
"""
    assert findings(source) == [(9, "XLA101"), (11, "XLA815"), (11, "XLA803")]
    assert "self(batch.to(self.device))" in migrated(source)


def test_before_lightning_has_placed_a_module_it_is_not_asked_where_it_is() -> None:
    source = "import lightning as L\nclass N(L.LightningModule):\n    def __init__(self):\n        self.w = w.cuda()\n"
    assert "w.to(xla.xla_device())" in migrated(source)


LIGHTNING = "import lightning as L\n\n"


@pytest.mark.parametrize(
    ("source", "calls"),
    [
        ("def main(a):\n    if a:\n        t = L.Trainer()\n    else:\n        t = L.Trainer(max_epochs=2)\n    return t\n", 2),
        ("def main(a):\n    for k in a:\n        L.Trainer().fit(k)\n    return L.Trainer()\n", 2),
        ("def one():\n    return L.Trainer()\n\ndef two():\n    return L.Trainer()\n", 2),
        ("def main(a):\n    t = L.Trainer()\n    if a:\n        t = L.Trainer(max_epochs=2)\n    return t, L.Trainer()\n", 1),
        ("def main(a):\n    L.Trainer(accelerator='cpu').fit(a)\n    return L.Trainer()\n", 1),
    ],
)  # fmt: skip
def test_lightning_is_patched_on_every_way_to_a_trainer(source: str, calls: int) -> None:
    assert migrated(LIGHTNING + source).count("xla.patch_lightning()") == calls


@pytest.mark.parametrize(
    "plugin",
    [
        "",
        "fsdp_version=2, reshard_after_forward=True",
        "cpu_offload=False, sharding_strategy='FULL_SHARD', sync_module_states=True",
        "cpu_offload=CPUOffload(offload_params=False), mixed_precision_policy=None",
        "state_dict_config=FullStateDictConfig(offload_to_cpu=True, rank0_only=True)",
    ],
)
def test_accelerate_shards_in_one_process(plugin: str) -> None:
    """Its numbers of processes are those of devices where that is meant."""
    source = f"""
        from accelerate import Accelerator
        from accelerate.utils import FullyShardedDataParallelPlugin as Plugin

        def main(args, model, optimizer, loader, get_scheduler):
            plugin = Plugin({plugin})
            accelerator = Accelerator(fsdp_plugin=plugin)
            steps = args.max_train_steps * accelerator.num_processes
            scheduler = get_scheduler("linear", optimizer, num_training_steps=steps)
            total_batch_size = args.batch_size * accelerator.num_processes
            model, optimizer, loader, scheduler = accelerator.prepare(model, optimizer, loader, scheduler)
            total_loss = 0
            for batch in loader:
                loss = model(**batch).loss
                accelerator.backward(loss)
                optimizer.step()
                scheduler.step()
                optimizer.zero_grad()
                total_loss += accelerator.reduce(loss.detach()) / accelerator.num_processes
            accelerator.load_state("x")

        if __name__ == "__main__":
            main()
        """
    after = migrated(source)
    assert "    xla.use_spmd(batch_per_device=True)\n    main()" in after
    assert "    xla.patch_accelerate()\n    plugin = Plugin(" in after
    assert "args.max_train_steps * xla.data_parallel_size()" in after
    assert "args.batch_size * xla.data_parallel_size()" in after
    assert "accelerator.reduce(loss.detach()) / accelerator.num_processes" in after
    assert "xla.load_state(accelerator, " in after
    assert not [f for f in check(after.encode()) if f.severity == "error"]


def test_a_loss_that_accelerate_is_to_average_is_named() -> None:
    source = """\
from accelerate import Accelerator, FullyShardedDataParallelPlugin
accelerator = Accelerator(fsdp_plugin=FullyShardedDataParallelPlugin())
for batch in loader:
    loss = model(**batch).sum() / count
    loss = loss * accelerator.num_processes
    accelerator.backward(loss)
"""
    assert (5, "XLA613") in findings(source)
