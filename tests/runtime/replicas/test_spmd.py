"""One process on four devices of the CPU, beside one device."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.utils.data import BatchSampler, DataLoader, DistributedSampler, SequentialSampler

from xla_migrate import runtime as xla
from xla_migrate.runtime.replicas import spmd
from xla_migrate.runtime.replicas.spmd import put_together

from .. import rehearsal

SCRIPT = r"""
import os
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, DistributedSampler
from xla_migrate import runtime as xla

how = os.environ["HOW"]
if how != "one device":
    report("devices", xla.use_spmd(batch_per_device=how == "share"))
xla.init_process_group("nccl")
report("replicas", [xla.rank(), xla.world_size(), xla.device_count()])
import torch_xla.runtime as xr
of_torch_xla = [xr.world_size(), xr.global_ordinal(), xr.global_runtime_device_count()]
report("of torch_xla", of_torch_xla)
torch.manual_seed(0)
data = TensorDataset(torch.randn(48, 6), torch.randint(0, 3, (48,)))
sampler = DistributedSampler(data, seed=5)
loader = DataLoader(data, batch_size=2 if how == "share" else 8, sampler=sampler, drop_last=True)
loader = xla.MpDeviceLoader(loader)
model = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))
model = xla.DistributedDataParallel(model.to(xla.xla_device()))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
losses = []
for epoch in range(2):
    sampler.set_epoch(epoch)
    for x, y in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        xla.optimizer_step(optimizer)
        xla.mark_step()
        losses.append(loss.item())
report("losses", losses)
report("steps", len(loader))
import torch_xla
report("split", [torch_xla._XLAC._get_xla_sharding_spec(t) for t in (x, y)])
report("weight", next(model.parameters()).flatten().tolist())
file = os.environ["FOLDER"] + "/spmd.pt"
xla.save(model.state_dict(), file)
report("saved", torch.load(file)["module.0.weight"].flatten().tolist())
"""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    folder = str(tmp_path_factory.mktemp("spmd"))
    return {
        how: rehearsal.run(SCRIPT, 1, CPU_NUM_DEVICES="4", HOW=how, FOLDER=folder)[0]
        for how in ("one device", "whole", "share")
    }


@pytest.mark.e2e
def test_fact_1_10_one_replica_drives_all_devices(runs: dict[str, dict[str, Any]]) -> None:
    for how in ("whole", "share"):
        assert runs[how]["of torch_xla"] == [1, 0, 4]
        assert runs[how]["replicas"] == [0, 1, 1]


@pytest.mark.e2e
def test_fact_1_22_the_compiler_reduces_and_the_step_does_not(
    runs: dict[str, dict[str, Any]],
) -> None:
    """Averaged again over the devices, gradients and so the weights would be others."""
    for how in ("whole", "share"):
        assert runs[how]["weight"] == pytest.approx(runs["one device"]["weight"], abs=1e-5)


@pytest.mark.e2e
@pytest.mark.parametrize("how", ["whole", "share"])
def test_fact_5_6_losses_are_those_of_one_device(runs: dict[str, dict[str, Any]], how: str) -> None:
    one, run = runs["one device"], runs[how]
    assert run["devices"] == 4
    assert run["replicas"] == [0, 1, 1]
    assert run["steps"] == one["steps"] == 6
    assert run["losses"] == pytest.approx(one["losses"], abs=1e-5)
    assert run["weight"] == pytest.approx(one["weight"], abs=1e-5)
    assert run["saved"] == run["weight"]


@pytest.mark.e2e
def test_fact_1_92_every_tensor_of_a_batch_is_split(runs: dict[str, dict[str, Any]]) -> None:
    for how in ("whole", "share"):
        images, labels = runs[how]["split"]
        assert "devices=[4,1]" in images
        assert "devices=[4]" in labels
    assert runs["one device"]["split"] == ["", ""]


@pytest.mark.e2e
def test_after_the_device_was_used_it_is_refused() -> None:
    """torch_xla warns, and ends the process at the next step mark."""
    script = """
xla.xla_device()
try:
    xla.use_spmd()
except RuntimeError as error:
    report("error", str(error))
"""
    head = "from xla_migrate import runtime as xla\n"
    found = rehearsal.run(head + script, 1, CPU_NUM_DEVICES="2")[0]
    assert "at the beginning" in found["error"]


@pytest.mark.e2e
def test_lists_of_tensors_are_joined() -> None:
    """Asking torch_xla for the buffer of a tensor, to tell lists apart, ends the process."""
    script = """
from xla_migrate import runtime as xla
import torch
xla.use_spmd()
a, b = torch.ones(4, 2, device=xla.xla_device()), torch.zeros(4, 2, device=xla.xla_device())
a, b = a + 1, b + 1
xla.mark_step()
report("sum", [torch.cat([a, b]).sum().item(), torch.stack([b, b]).sum().item()])
"""
    assert rehearsal.run(script, 1, CPU_NUM_DEVICES="2")[0]["sum"] == [24, 16]


def test_batches_are_put_together() -> None:
    batches = [{"x": torch.full((2, 1), i), "names": [str(i)], "n": 7} for i in range(3)]
    first, second = put_together(batches, 2)
    assert first["x"].flatten().tolist() == [0, 0, 1, 1]
    assert first["names"] == ["0", "1"]
    assert first["n"] == 7
    assert second["x"].shape == (2, 1), "what is left at the end"
    pairs = [(torch.ones(2), torch.ones(2)), (torch.ones(1), torch.ones(1))]
    ((a, b),) = put_together(pairs, 2)
    assert (len(a), len(b)) == (3, 3)
    with pytest.raises(TypeError, match="use_spmd"):
        list(put_together([1, 2], 2))


@pytest.fixture
def of_four(monkeypatch: pytest.MonkeyPatch) -> None:
    """As after ``use_spmd(batch_per_device=True)`` on four devices."""
    monkeypatch.setattr(spmd, "_batches", 4)


def replicas_batches(data: Any, size: int, drops: bool, **options: Any) -> list[list[int]]:
    """What four replicas of DDP take in each step."""
    loaders = [
        DataLoader(
            data,
            batch_size=size,
            drop_last=drops,
            sampler=DistributedSampler(data, num_replicas=4, rank=rank, **options),
        )
        for rank in range(4)
    ]
    return [sorted(int(i) for batch in step for i in batch) for step in zip(*loaders, strict=True)]


@pytest.mark.usefixtures("of_four")
@pytest.mark.parametrize("count", [3, 38, 40, 42, 46])
@pytest.mark.parametrize("drops", [False, True])
@pytest.mark.parametrize("sampler_drops", [False, True])
def test_each_step_takes_what_replicas_take(count: int, drops: bool, sampler_drops: bool) -> None:
    """The last one too, with the samples that replicas repeat, or without those that they drop."""
    options = {"shuffle": True, "seed": 3, "drop_last": sampler_drops}
    data: Any = range(count)
    one = DistributedSampler(data, num_replicas=1, rank=0, **options)  # type: ignore[arg-type]
    loader = DataLoader(data, batch_size=2, drop_last=drops, sampler=one)
    expected = replicas_batches(data, 2, drops, **options)
    assert spmd.length(loader) == len(expected)
    assert [sorted(batch.tolist()) for batch in spmd.joined(loader)] == expected


@pytest.mark.usefixtures("of_four")
def test_other_loaders_are_left_as_they_are() -> None:
    loader = DataLoader(range(10), batch_size=2)  # type: ignore[arg-type]
    assert [batch.tolist() for batch in spmd.joined(loader)] == [[*range(8)], [8, 9]]
    assert spmd.length(loader) == 2
    batches = BatchSampler(SequentialSampler(range(11)), 2, drop_last=True)
    dropping = DataLoader(range(11), batch_sampler=batches)  # type: ignore[arg-type]
    assert [batch.tolist() for batch in spmd.joined(dropping)] == [[*range(8)]]
    assert spmd.length(dropping) == 1


def test_how_many_share_the_batch_of_a_step(eager: None, monkeypatch: pytest.MonkeyPatch) -> None:
    assert xla.data_parallel_size() == 1
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert xla.data_parallel_size() == 2, "each device has a process"
    monkeypatch.delenv("WORLD_SIZE")
    monkeypatch.setattr(spmd, "_batches", 4)
    assert xla.data_parallel_size() == 4


def test_several_processes_do_not_use_it(eager: None, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RuntimeError, match="start one process per device"):
        xla.use_spmd()
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(RuntimeError, match="not with torchrun"):
        xla.use_spmd()
