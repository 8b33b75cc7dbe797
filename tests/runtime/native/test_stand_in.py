"""The runtime on stand-ins for native backends, and migrated fixtures that train there as on the CPU.

Built for the torch of this environment, with torch_xla left out (XLA_MIGRATE_BACKEND=eager). All fixtures, with
current torch: docs/bench/native.py.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from xla_migrate.script_environment import free_port

from ... import warm
from ...e2e.fixtures import ALL, ROOT
from . import building
from .training import TOLERANCE, Environment, difference, train

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++"),
]
# One of each kind: plain, two processes by torchrun and by launch, checkpointing and sampling, compiled, recurrent.
TRAINED = {
    "cnn_apex": "tpu",
    "ddp_accum": "neuron",
    "ddp_spawn": "tpu",
    "ddpm": "neuron",
    "gpt": "tpu",
    "rnn_lm": "neuron",
    "vae": "tpu",
}
both = pytest.mark.parametrize("name", ["tpu", "neuron"])


@pytest.fixture(scope="module")
def where(request: pytest.FixtureRequest) -> Environment:
    cache = Path(request.config.cache.mkdir("standin"))  # type: ignore[union-attr]
    return Environment(warm.choosing(), building.site(sys.executable, cache), {})


def run(where: Environment, name: str, script: str, *words: str, **env: str) -> str:
    """What a process prints that has the stand-in as its accelerator."""
    path = os.pathsep.join([str(where.site), str(ROOT / "src")])
    own = {"PYTHONPATH": path, "XLA_MIGRATE_BACKEND": "eager", "STANDIN_NAME": name, **env}
    done = subprocess.run(
        [where.python, *words, "-c", script] if not words else [where.python, *words],
        env={**os.environ, **own},
        capture_output=True,
        text=True,
        timeout=400,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


WHAT_A_SCRIPT_ASKS = """
import os, sys, warnings
import torch
from torch.utils.data import DataLoader, Dataset
from xla_migrate import runtime as xla

assert "torch_xla" not in sys.modules
name = os.environ["STANDIN_NAME"]
device = xla.xla_device("cuda")
assert device == torch.device(name, 0), device
assert xla.is_available() and xla.device_type() == name and xla.is_accelerator("cuda:0")
assert xla.device_name() == f"stand-in for {name}"
assert not xla.supports_fused() and xla.is_bf16_supported()
model = torch.nn.Linear(4, 2).to(device)

# precision
with xla.autocast("cuda", dtype=torch.float16):
    assert model(torch.ones(1, 4, device=device)).dtype == torch.bfloat16
    assert torch.log(torch.ones(2, device=device).bfloat16()).dtype == torch.float32
assert model(torch.ones(1, 4, device=device)).dtype == torch.float32

# random numbers: a stream of the device's own
xla.manual_seed(5)
first, on_host = torch.rand(3, device=device), torch.rand(3)
xla.manual_seed(5)
assert torch.equal(torch.rand(3, device=device), first) and torch.equal(torch.rand(3), on_host)
state = xla.get_rng_state()
drawn = torch.rand(3, device=device)
with xla.fork_rng():
    torch.rand(7, device=device)
after = torch.rand(3, device=device)
xla.set_rng_state(state)
assert torch.equal(torch.rand(3, device=device), drawn)
assert torch.equal(torch.rand(3, device=device), after), "fork_rng put the stream back"
xla.set_rng_state_all([state])
assert torch.equal(torch.rand(3, device=device), drawn) and len(xla.get_rng_state_all()) == 1
xla.manual_seed(6, device_only=True)
assert not torch.equal(torch.rand(3, device=device), first)

# values, slices, stores, sparse products
x = torch.arange(12.0).reshape(3, 4).to(device)
assert xla.narrow(x, 1, 1, 2).cpu().tolist() == [[1.0, 2.0], [5.0, 6.0], [9.0, 10.0]]
kept = torch.zeros(4, 2, device=device)
xla.put(kept, 0, 1, torch.ones(2, device=device))
xla.put(kept, 0, 2, torch.full((2, 2), 5.0, device=device), length=2)
assert kept.sum().item() == 22
running, told = 0.0, []
for i in range(3):
    value = xla.item((x * i).sum())
    running += value
    xla.later(lambda value=value: told.append(float(value)))
xla.flush()
assert told == [0.0, 66.0, 132.0] and xla.arrived(running) == 198.0
matrix = xla.sparse(torch.eye(3).to_sparse()).to(device)
assert torch.equal(torch.spmm(matrix, x).cpu(), x.cpu())

# what scripts for torch_xla bring along
xla.spmd.use_spmd()
mesh = xla.spmd.Mesh([0], (1, 1), ("fsdp", "model"))
assert xla.spmd.mark_sharding(x, mesh, ("fsdp", None)) is x
parts = xla.fsdp.XlaFullyShardedDataParallel(torch.nn.Linear(4, 2))
parts(x).sum().backward()
torch.optim.SGD(parts.parameters(), 0.1).step()
parts.load_state_dict(parts.state_dict())

# memory and time
used = xla.memory_info()["bytes_used"]
held = torch.ones(1000, device=device)
assert xla.memory_info()["bytes_used"] - used == 4000
del held
xla.reset_peak_memory_stats()
info = xla.memory_info()
assert info["peak_bytes_used"] == info["bytes_used"] < used + 4000
start, end = xla.Event(enable_timing=True), xla.Event(enable_timing=True)
start.record(); end.record(); xla.synchronize()
assert start.elapsed_time(end) >= 0
assert set(xla.metrics().values()) == {None}
with torch.profiler.profile() as profile, torch.profiler.record_function("forward"):
    model(torch.ones(1, 4, device=device))
assert "forward" in [event.key for event in profile.key_averages()]

# compilation: by the device's compiler, without inductor's mode
import torch_standin
compiled = xla.compile(model, mode="max-autotune")
x = torch.ones(3, 4, device=device)
assert torch.equal(compiled(x), model(x)) and len(torch_standin.compiled) == 1
assert torch.equal(compiled(x[:2]), model(x[:2]))  # a graph of static shapes, as Neuron wants it
assert len(torch_standin.compiled) == 2
compiled = xla.compile(model, dynamic=True)
assert torch.equal(compiled(x), model(x))
adam = torch.optim.Adam(model.parameters())
step = xla.compile(adam.step)
assert adam.param_groups[0]["capturable"] is (torch.accelerator.current_accelerator().type == "tpu")

# activation checkpointing draws the same dropout twice
x.requires_grad_()
xla.checkpoint(lambda t: torch.nn.functional.dropout(t * 2, 0.5), x, use_reentrant=False).sum().backward()
assert set(x.grad.flatten().tolist()) <= {0.0, 4.0}

# checkpoints: the CPU's tensors, and back
optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
model(x).sum().backward()
xla.optimizer_step(optimizer)
xla.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, sys.argv[1])
loaded = xla.load(sys.argv[1], map_location=device)
model.load_state_dict(xla.clone_state(loaded["model"]))
optimizer.load_state_dict(loaded["optimizer"])
assert model.weight.device == device and optimizer.state[model.weight]["exp_avg"].device == device

# the loader: with workers it is ahead of the loop, in order; an error is raised in the loop
class Squares(Dataset):
    def __len__(self):
        return 8
    def __getitem__(self, index):
        if index == 6:
            raise KeyError("bad sample")
        return torch.tensor(float(index * index))
for workers in (0, 2):
    seen = []
    try:
        for batch in xla.MpDeviceLoader(DataLoader(Squares(), batch_size=2, num_workers=workers), device):
            assert batch.device == device
            seen += batch.tolist()
    except KeyError as error:
        assert "bad sample" in str(error)
    assert seen == [0, 1, 4, 9, 16, 25], seen
print("all of it")
"""


TIED = """
import torch
from xla_migrate import runtime as xla
kind = xla.device_type()  # no device object is asked for
model = torch.nn.Sequential(torch.nn.Embedding(9, 4), torch.nn.Linear(4, 9, bias=False))
model[0].weight = model[1].weight
optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
model.to(kind)
assert model[0].weight is model[1].weight is optimizer.param_groups[0]["params"][0]
print(model[0].weight.device.type)
"""


@both
def test_weights_stay_tied_where_only_the_kind_of_device_is_asked_for(
    where: Environment, name: str
) -> None:
    assert run(where, name, TIED).strip() == name


@both
def test_what_a_script_asks_of_the_device(where: Environment, name: str, tmp_path: Path) -> None:
    saved = tmp_path / "state.pt"
    (tmp_path / "script.py").write_text(WHAT_A_SCRIPT_ASKS)
    said = run(where, name, "", str(tmp_path / "script.py"), str(saved))
    assert said.splitlines()[-1] == "all of it"
    import torch

    assert torch.load(saved)["model"]["weight"].device.type == "cpu", "without the stand-in"


TORCHS_OWN = """
import os
import torch
from torch import nn

name = os.environ["STANDIN_NAME"]
device = torch.device(name, torch.accelerator.current_device_index())
assert torch.accelerator.current_accelerator().type == name
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)).to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, foreach=True)
scaler = torch.amp.GradScaler(name)
for _ in range(3):
    optimizer.zero_grad()
    with torch.autocast(name, dtype=torch.float16):
        loss = model(torch.ones(3, 4, device=device)).float().square().mean()
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
assert loss.item() < 0.1 and scaler.get_scale() == 65536

stream, before = torch.Stream(device), torch.accelerator.current_stream()
start, end = (torch.Event(device, enable_timing=True) for _ in range(2))
start.record()
with stream:
    assert torch.accelerator.current_stream() == stream != before
    x = model(torch.ones(1, 4, device=device))
    x.record_stream(stream)
assert torch.accelerator.current_stream() == before
before.wait_stream(stream)
end.record()
end.synchronize()
assert start.elapsed_time(end) > 0 and stream.query() and end.query()

storage = x.detach().untyped_storage()
size = storage.size()
storage.resize_(0)
assert storage.device.type == name
storage.resize_(size)
host = torch.ones(2).pin_memory()
assert host.is_pinned() and host.to(device, non_blocking=True).tolist() == [1.0, 1.0]
assert torch.accelerator.memory_allocated(device) > 0
torch.accelerator.empty_cache()
torch.accelerator.synchronize()
assert torch.compile(model, backend=name)(torch.ones(2, 4, device=device)).shape == (2, 2)
print("all of it")
"""


@both
def test_what_torch_itself_offers_is_there(where: Environment, name: str) -> None:
    """So that what scripts use of it is tried on a device that is as complete as torch_tpu's."""
    assert run(where, name, TORCHS_OWN).strip() == "all of it"


WITHOUT_FIGURES = """
import logging, warnings
from xla_migrate import runtime as xla
xla.xla_device()
for ask in (xla.memory_info, xla.mem_get_info):
    try:
        print(ask())
    except RuntimeError as error:
        assert "no memory figures" in str(error) and "\\n" not in str(error)
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    xla.reset_peak_memory_stats()
assert "no peak to reset" in str(said[-1].message)
"""


def test_a_device_that_counts_no_memory_says_so(where: Environment) -> None:
    assert run(where, "tpu", WITHOUT_FIGURES, STANDIN_MEMORY_FIGURES="0") == ""


AHEAD = """
import time
import torch
from torch.utils.data import DataLoader, Dataset
from xla_migrate import runtime as xla

device, sent = xla.xla_device(), []
class Batches(Dataset):
    def __len__(self):
        return 6
    def __getitem__(self, index):
        return torch.tensor(index)
from xla_migrate.runtime.eager import backend as _eager
plain = _eager._PlainSender.send
def send(self, batch):
    sent.append(int(batch))
    return plain(self, batch)
_eager._PlainSender.send = send
batches = iter(xla.MpDeviceLoader(DataLoader(Batches(), batch_size=1, num_workers=1), device))
next(batches)
end = time.monotonic() + 20
while len(sent) < 2 and time.monotonic() < end:
    time.sleep(0.01)
print(len(sent))
"""


@both
def test_the_next_batch_is_on_its_way_while_one_is_computed(where: Environment, name: str) -> None:
    assert int(run(where, name, AHEAD)) >= 2


OWN_DEVICE = """
import torch
from xla_migrate import runtime as xla
print(xla.xla_device(), xla.xla_device("cuda:1"), len(xla.get_rng_state_all()))
xla.set_device(1)
with xla.device_index(1):
    print(torch.ones(1, device=xla.xla_device()).device)
"""


@pytest.mark.parametrize(
    ("name", "seen"),
    [("tpu", "tpu:2 tpu:2 1\ntpu:2"), ("neuron", "neuron:2 neuron:1 4\nneuron:1")],
)
def test_which_device_of_a_host_is_a_processs(where: Environment, name: str, seen: str) -> None:
    env = {"STANDIN_DEVICES": "4", "WORLD_SIZE": "4", "RANK": "2", "LOCAL_RANK": "2"}
    assert run(where, name, OWN_DEVICE, **env).strip() == seen


GROUP = """
import torch
import torch.distributed as dist
from torch import nn
from xla_migrate import runtime as xla

xla.init_process_group("nccl")
rank, device = xla.rank(), xla.xla_device()
name = device.type
assert dist.get_backend() == f"{name}_dist" and device.index == xla.local_rank()
mine = torch.full((2,), float(rank + 1), device=device)
total = mine.clone()
xla.all_reduce(total)
assert total.tolist() == [3, 3]
parts = [torch.zeros(2, device=device) for _ in range(2)]
xla.all_gather(parts, mine)
assert [part[0].item() for part in parts] == [1, 2]
xla.broadcast(mine, src=1)
assert mine.tolist() == [2, 2]
told = [rank]
xla.broadcast_object_list(told, src=1)
results = [None, None]
xla.all_gather_object(results, f"rank {rank}")
assert (told, results) == ([1], ["rank 0", "rank 1"])
xla.barrier()
xla.rendezvous("here")

x = torch.arange(8.0).reshape(4, 2)
norm = nn.BatchNorm1d(2)
whole = norm(x)
model = xla.convert_sync_batchnorm(nn.BatchNorm1d(2).to(device))
here = model(x[2 * rank : 2 * rank + 2].to(device))
assert torch.allclose(here.cpu(), whole[2 * rank : 2 * rank + 2], atol=1e-6)

torch.manual_seed(0)
layer = nn.Linear(2, 1, bias=False).to(device)
layer.weight.grad = torch.full_like(layer.weight, float(rank))
xla.reduce_gradients(torch.optim.SGD(layer.parameters(), lr=1.0))
assert layer.weight.grad.tolist() == [[0.5, 0.5]]
xla.destroy_process_group()
"""


@both
def test_replicas_talk_by_the_devices_own_collectives(
    where: Environment, name: str, tmp_path: Path
) -> None:
    (tmp_path / "group.py").write_text(GROUP)
    words = ["-m", "torch.distributed.run", "--nproc_per_node=2", "--master_addr=127.0.0.1"]
    words += [f"--master_port={free_port()}", str(tmp_path / "group.py")]
    run(where, name, "", *words, STANDIN_DEVICES="2", OMP_NUM_THREADS="1")


@pytest.mark.parametrize("fixture", [f for f in ALL if f.name in TRAINED], ids=lambda f: f.name)
def test_fixtures_train_there_as_on_the_cpu(fixture, where: Environment, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    if fixture.missing():
        pytest.skip(f"needs {', '.join(fixture.missing())}")
    name = TRAINED[fixture.name]
    with ThreadPoolExecutor(2) as pool:
        on_cpu = pool.submit(train, fixture, "float32", "migrated", where, tmp_path / "cpu")
        there = pool.submit(
            train, fixture, "float32", "migrated", where, tmp_path / "there", name=name
        )
        cpu, seen = on_cpu.result(), there.result()
    assert (cpu.failure, seen.failure) == ("", "")
    assert (cpu.devices, seen.devices) == ({"cpu"}, {name})
    assert len(cpu.losses) == fixture.processes
    assert min(map(len, cpu.losses)) >= fixture.steps
    most = difference(seen, cpu)
    assert most is not None
    assert most <= TOLERANCE
