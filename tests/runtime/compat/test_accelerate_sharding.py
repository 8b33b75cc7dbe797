"""FSDP of the Trainer, and of accelerate, over two and four devices of the CPU trains as the same does on one."""

from __future__ import annotations

import importlib
import itertools
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import BatchSampler

from xla_migrate.runtime.compat import accelerate_sharding

from .. import rehearsal

pytest.importorskip("transformers")

SCRIPT = r"""
import os
import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments, set_seed
from xla_migrate import runtime as xla

how, devices, folder = os.environ["HOW"], int(os.environ["DEVICES"]), os.environ["FOLDER"]
if how == "for TPUs":
    import torch_xla.runtime
    torch_xla.runtime.use_spmd()
    xla.manual_seed(0, device_only=True)
    devices = 1
xla.patch_accelerate()
set_seed(0)
ids = torch.randint(0, 32, (30, 8))
data = [{"input_ids": row, "labels": row} for row in ids]
config = GPT2Config(vocab_size=32, n_positions=8, n_embd=16, n_layer=1, n_head=2, bos_token_id=0, eos_token_id=0,
                    resid_pdrop=0, embd_pdrop=0, attn_pdrop=0)
options = {}
if how == "two":
    options = {"fsdp": "full_shard auto_wrap", "fsdp_config": {"transformer_layer_cls_to_wrap": ["GPT2Block"]}}
if how == "for TPUs":
    config.use_cache = False
    options = {"fsdp": True, "fsdp_config": {"xla": True, "xla_fsdp_v2": True, "xla_fsdp_grad_ckpt": True}}
arguments = TrainingArguments(
    folder, num_train_epochs=2, per_device_train_batch_size=8 // devices, per_device_eval_batch_size=8 // devices,
    logging_steps=1, save_steps=4, report_to=[], disable_tqdm=True, optim="adamw_torch", learning_rate=0.01,
    max_grad_norm=0.5, **options,
)
def made(dataset=data[:24]):
    set_seed(0)
    model = GPT2LMHeadModel(config)
    sizes = lambda found: {"count": found.predictions.shape[0], "sum": float(found.label_ids.sum())}
    return Trainer(model, arguments, train_dataset=dataset, eval_dataset=data[:24], compute_metrics=sizes)

def told(trainer, name):
    return [entry[name] for entry in trainer.state.log_history if name in entry]

trainer = made()
trainer.train()
report("losses", told(trainer, "loss"))
report("norms", told(trainer, "grad_norm"))
report("steps", [trainer.state.global_step, len(trainer.get_train_dataloader())])
report("evaluated", trainer.evaluate()["eval_loss"])
found = trainer.evaluate(data[:21])
report("uneven", [found["eval_count"], found["eval_sum"]])
report("speed", trainer.get_total_train_batch_size(arguments))
again = made()
again.train(resume_from_checkpoint=folder + "/checkpoint-4")
report("resumed", told(again, "loss"))
trainer.save_model(folder + "/saved")
states = GPT2LMHeadModel.from_pretrained(folder + "/saved").state_dict()
report("sum", {name: float(value.double().abs().sum()) for name, value in states.items()})
if how != "one":
    import torch_xla
    spec = torch_xla._XLAC._get_xla_sharding_spec
    for name, one in (("trainer", trainer), ("again", again)):
        weights = {n: spec(p) for n, p in one.model.named_parameters()}
        moments = [spec(s["exp_avg"]) for s in one.optimizer.state.values()]
        report(name, [weights, moments])
    again.optimizer.load_state_dict(torch.load(folder + "/checkpoint-4/optimizer.pt", map_location="cpu"))
    report("loaded", [spec(s["exp_avg"]) for s in again.optimizer.state.values()])
    report("batch", [spec(value) for value in next(iter(trainer.get_train_dataloader())).values()])
arguments.max_steps, stream = 2, type("Stream", (torch.utils.data.IterableDataset,), {"__iter__": lambda self: iter(data)})
streamed = made(stream())
streamed.train()
report("streamed", told(streamed, "loss"))
report("labels", float(ids[:21].sum()))
"""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    found = {}
    for how, devices in (("one", 1), ("two", 2), ("for TPUs", 4)):
        env = {"HOW": how, "DEVICES": str(devices), "CPU_NUM_DEVICES": str(devices)}
        if how == "one":
            env |= {"USE_TORCH_XLA": "0", "XLA_MIGRATE_BACKEND": "eager"}
        folder = str(tmp_path_factory.mktemp("sharded"))
        found[how] = rehearsal.run(SCRIPT, 1, FOLDER=folder, **env)[0]
    return found


SHARDED = ["two", "for TPUs"]


@pytest.mark.e2e
@pytest.mark.parametrize("how", SHARDED)
def test_the_trainer_trains_as_on_one_device(runs: dict[str, dict[str, Any]], how: str) -> None:
    one, run = runs["one"], runs[how]
    assert run["steps"] == one["steps"] == [6, 3]
    for name in ("losses", "norms", "evaluated", "resumed", "streamed"):
        assert run[name] == pytest.approx(one[name], abs=1e-4), name
    assert run["sum"] == pytest.approx(one["sum"], rel=1e-4)
    assert run["uneven"] == [21, one["labels"]], (
        "samples that fill up the last batch are no results"
    )
    assert run["speed"] == one["speed"] == 8


@pytest.mark.e2e
@pytest.mark.parametrize("how", SHARDED)
def test_everything_is_split(runs: dict[str, dict[str, Any]], how: str) -> None:
    """Also after a checkpoint was loaded."""
    devices = ",".join("01" if how == "two" else "0123")
    for name in ("trainer", "again"):
        weights, moments = runs[how][name]
        for spec in (*weights.values(), *moments):
            assert spec.endswith("]" + devices + "}"), (name, runs[how][name])
    assert runs[how]["loaded"] == runs[how]["again"][1]
    for spec in runs[how]["batch"]:
        assert spec.startswith("{devices=[2," if how == "two" else "{devices=[4,")


ACCELERATED = r"""
import os
import torch
from accelerate import Accelerator, FullyShardedDataParallelPlugin
from accelerate.utils import set_seed
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from xla_migrate import runtime as xla

sharded = os.environ["HOW"] == "two"
if sharded:
    xla.use_spmd(batch_per_device=True)
xla.patch_accelerate()
options = {}
if sharded:
    options["fsdp_plugin"] = FullyShardedDataParallelPlugin(
        sync_module_states=True, cpu_ram_efficient_loading=True, auto_wrap_policy="size_based_wrap", min_num_params=10)
accelerator = Accelerator(gradient_accumulation_steps=2, **options)
set_seed(0)
x = torch.randn(48, 8)
data = TensorDataset(x, (x.sum(1) > 0).long())
size = 4 if sharded else 8
loader = DataLoader(data, batch_size=size, drop_last=True)
test = DataLoader(torch.utils.data.Subset(data, range(43)), batch_size=size)
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
# As long as the batches of one process: accelerate takes as many of the schedule's steps as there are processes.
schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.1, total_iters=len(loader) * 3)
model, optimizer, loader, test, schedule = accelerator.prepare(model, optimizer, loader, test, schedule)
losses, rates, norms = [], [], []

def epoch():
    model.train()
    for a, b in loader:
        with accelerator.accumulate(model):
            loss = nn.functional.cross_entropy(model(a), b)
            accelerator.backward(loss)
            if accelerator.sync_gradients:
                norms.append(float(accelerator.clip_grad_norm_(model.parameters(), 0.1)))
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
        losses.append(accelerator.gather(loss.repeat(4)).mean().item())
        rates.append(schedule.get_last_lr()[0])

epoch()
folder = os.environ["FOLDER"]
xla.save_state(accelerator, folder)
epoch()
xla.load_state(accelerator, folder)
epoch()
report("losses", losses)
report("rates", rates)
report("norms", norms)
seen = []
model.eval()
for a, b in test:
    with torch.no_grad():
        guess = model(a).argmax(1)
    guess, b = accelerator.gather_for_metrics((guess, b))
    assert len(guess) == len(b)
    seen += b.tolist()
report("seen", [seen, data.tensors[1][:43].tolist()])
report("mean", accelerator.reduce(torch.full((2,), 3.0, device=accelerator.device), "mean").tolist())
report("states", {k: v.cpu().flatten().tolist() for k, v in accelerator.get_state_dict(model).items()})
if sharded:
    import torch_xla
    spec = torch_xla._XLAC._get_xla_sharding_spec
    report("split", [spec(p) for p in model.parameters()])
    report("moments", [spec(s["exp_avg"]) for s in optimizer.optimizer.state.values()])
"""


@pytest.mark.e2e
def test_accelerate_trains_as_on_one_device(tmp_path: Path) -> None:
    """Losses, norms, the schedule, samples of an evaluation, and what is saved and loaded."""
    alone = {"USE_TORCH_XLA": "0", "XLA_MIGRATE_BACKEND": "eager", "HOW": "one"}
    one = rehearsal.run(ACCELERATED, 1, FOLDER=str(tmp_path / "one"), **alone)[0]
    env = {"CPU_NUM_DEVICES": "2", "HOW": "two"}
    two = rehearsal.run(ACCELERATED, 1, FOLDER=str(tmp_path / "two"), **env)[0]
    assert two["rates"] == pytest.approx(one["rates"])
    assert two["losses"][6:12] == two["losses"][12:], "from the checkpoint on"
    for name in ("losses", "norms", "mean"):
        assert two[name] == pytest.approx(one[name], abs=1e-4), name
    for name, values in one["states"].items():
        assert two["states"][name] == pytest.approx(values, abs=1e-4), name
    assert two["seen"][0] == two["seen"][1]
    assert all(spec.endswith("]0,1}") for spec in (*two["split"], *two["moments"]))


def test_a_step_takes_what_the_processes_of_accelerate_take() -> None:
    """The last one too, where accelerate fills up or leaves out what is missing."""
    data: Any = importlib.import_module("accelerate.data_loader")
    whole = accelerate_sharding._whole(data.BatchSamplerShard)
    for count, drops, split, even in itertools.product(
        (3, 16, 21, 23), (False, True), (False, True), (False, True)
    ):
        size = 8 if split else 2
        order = torch.randperm(count).tolist()
        batches = BatchSampler(order, size, drops)
        shards = [data.BatchSamplerShard(batches, 4, i, split, even) for i in range(4)]
        steps = itertools.zip_longest(*map(list, shards), fillvalue=[])
        expected = [[sample for part in step for sample in part] for step in steps]
        found = data.BatchSamplerShard(batches, 4, 0, split, even)
        found.__class__ = whole
        assert list(found) == expected, (count, drops, split, even)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"cpu_offload": True}, "cpu_offload"),
        ({"cpu_offload": True, "fsdp_version": 2}, "cpu_offload"),
        ({"sharding_strategy": "HYBRID_SHARD"}, "hybrid"),
        ({"reshard_after_forward": "hybrid_shard"}, "hybrid"),
        ({"ignored_modules": "head"}, "ignored_modules"),
        ({"mixed_precision_policy": "bf16"}, "mixed_precision_policy"),
    ],
)
def test_what_has_no_counterpart_is_refused(options: dict[str, Any], named: str) -> None:
    plugin = importlib.import_module("accelerate").FullyShardedDataParallelPlugin(**options)
    with pytest.raises(NotImplementedError, match=named):
        accelerate_sharding._check(plugin)


@pytest.mark.parametrize(
    "options",
    [{}, {"fsdp_version": 2}, {"sharding_strategy": "NO_SHARD"}, {"cpu_offload": False}],
)
def test_what_shards(options: dict[str, Any]) -> None:
    plugin = importlib.import_module("accelerate").FullyShardedDataParallelPlugin(**options)
    accelerate_sharding._check(plugin)
