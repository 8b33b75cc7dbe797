"""One process: every name of several processes does the right thing for one."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn

from xla_migrate import runtime as xla
from xla_migrate.runtime import _backend
from xla_migrate.runtime.eager import backend as eager_backend
from xla_migrate.runtime.torch_xla import backend as torch_xla_backend
from xla_migrate.runtime.torch_xla import replicas as xla_replicas
from xla_migrate.script_environment import free_port

from .. import warm

SOURCE = Path(__file__).parents[2] / "src"


@pytest.fixture(params=["device", "eager"])
def _both(request: pytest.FixtureRequest) -> None:
    request.getfixturevalue(request.param)


both = pytest.mark.usefixtures("_both")


def in_a_warm_process(
    side: str, script: str, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run `script` where torch is imported already; if `side` is "target", torch_xla as well."""
    return _run(warm.for_side(side), script, environment)


def _run(python: str, script: str, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if name != "PJRT_DEVICE"}
    kept |= {"PYTHONPATH": str(SOURCE), **environment}
    return subprocess.run(
        [python, "-c", script], env=kept, capture_output=True, text=True, timeout=120
    )


@both
def test_one_process_is_rank_0_of_1() -> None:
    assert (xla.rank(), xla.local_rank(), xla.world_size()) == (0, 0, 1)
    assert xla.is_master()
    xla.rendezvous("here")


@both
def test_launch_runs_in_this_process() -> None:
    calls: list[Any] = []
    assert xla.launch(lambda *args: calls.append(args), args=("a", 2)) is None
    assert xla.launch(calls.append, nprocs=1, join=False).join()
    assert calls == [(0, "a", 2), 0], "a lambda, after the device was in use (fact 1.9)"


@both
def test_an_exception_of_the_launched_function_is_raised() -> None:
    def fails(rank: int) -> None:
        raise LookupError(rank)

    with pytest.raises(LookupError):
        xla.launch(fails)
    with pytest.raises(ValueError, match="nprocs=0"):
        xla.launch(fails, nprocs=0)


@both
def test_a_group_made_in_a_launch_ends_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a script can launch training and then evaluation."""

    def main(rank: int) -> None:
        xla.init_process_group("nccl", rank=rank, world_size=1)
        assert dist.is_initialized()
        assert (xla.rank(), xla.world_size()) == (0, 1)

    for _ in range(2):
        xla.launch(main)
        assert not dist.is_initialized()


@both
def test_a_group_of_one_needs_no_address() -> None:
    xla.init_process_group("nccl", init_method="env://")
    try:
        assert dist.get_world_size() == 1
        gathered: list[Any] = [None]
        dist.all_gather_object(gathered, {"a": 1})
        assert gathered == [{"a": 1}]
    finally:
        xla.destroy_process_group()
    assert not dist.is_initialized()
    xla.destroy_process_group()


@both
def test_a_rank_has_to_be_below_the_world_size() -> None:
    """As where a script takes SLURM_PROCID for its rank, and its --world-size is still 1."""
    with pytest.raises(ValueError, match=r"rank 1 of 1 replicas.*SLURM_NTASKS"):
        xla.init_process_group("nccl", init_method="env://", world_size=1, rank=1)
    with pytest.raises(ValueError, match="rank 2 of 2 replicas"):
        xla.init_process_group("nccl", "tcp://localhost:1?rank=2&world_size=2")
    assert not dist.is_initialized()


def test_torch_xla_has_to_count_replicas_as_the_script_does(
    device: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under srun without torchrun each of 8 processes would train alone on an accelerator."""
    asked: list[Any] = []
    monkeypatch.setattr(xla_replicas, "rehearses", lambda: False)
    monkeypatch.setattr(dist, "init_process_group", lambda *args, **options: asked.append(options))
    monkeypatch.setattr(dist, "destroy_process_group", lambda: None)
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"):
        monkeypatch.setenv(name, "")
    with pytest.raises(RuntimeError, match="torch_xla makes this process rank 0 of 1"):
        xla.init_process_group("nccl", rank=3, world_size=8)
    monkeypatch.setattr(xla_replicas.xr, "world_size", lambda: 8)
    monkeypatch.setattr(xla_replicas.xr, "global_ordinal", lambda: 3)
    xla.init_process_group("nccl", rank=3, world_size=8)
    assert asked[-1]["init_method"] == "xla://"


@both
def test_data_parallel_of_one() -> None:
    xla.init_process_group()
    try:
        device = xla.xla_device()
        module = nn.Linear(2, 1).to(device)
        model = xla.DistributedDataParallel(module, find_unused_parameters=False)
        assert isinstance(model, xla.DistributedDataParallel)
        assert model.module is module
        assert set(model.state_dict()) == {"module.weight", "module.bias"}
        optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
        with model.no_sync():
            model(torch.ones(1, 2, device=device)).sum().backward()
        model(torch.ones(1, 2, device=device)).sum().backward()
        assert module.bias.grad is not None
        assert module.bias.grad.item() == 2
        before = module.bias.item()
        xla.optimizer_step(optimizer)
        assert module.bias.item() == pytest.approx(before - 1)
    finally:
        xla.destroy_process_group()


@pytest.mark.parametrize("backend", ["eager", "torch_xla"])
def test_it_is_one_of_torchs_own(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XLA_MIGRATE_BACKEND", backend)
    assert issubclass(xla.DistributedDataParallel, nn.parallel.DistributedDataParallel)
    assert xla.DistributedDataParallel.__name__ == "DistributedDataParallel"


def test_fact_3_10_torch_xla_makes_every_process_on_the_cpu_rank_0_of_1(
    device: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("LOCAL_RANK", "1")
    assert (torch_xla_backend.xr.world_size(), torch_xla_backend.xr.global_ordinal()) == (1, 0)
    assert (xla.rank(), xla.local_rank(), xla.world_size()) == (1, 1, 2)
    assert not xla.is_master()


def test_torchruns_variables_are_read(eager: None, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("RANK", "5"), ("LOCAL_RANK", "1"), ("WORLD_SIZE", "8")):
        monkeypatch.setenv(name, value)
    assert (xla.rank(), xla.local_rank(), xla.world_size()) == (5, 1, 8)
    assert not xla.is_master()
    calls: list[Any] = []
    xla.launch(calls.append)
    assert calls == [1], "the processes are there already"


def test_xla_starts_a_process_for_each_device_or_one(
    device: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    launched: list[Any] = []

    def torch_launch(function: Any, args: Any, start_method: str) -> None:
        launched.append((args, start_method))
        function(6, *args)  # The rank among all hosts; on this host it is 0.

    monkeypatch.setattr(torch_xla_backend.torch_xla, "launch", torch_launch)
    monkeypatch.setattr(torch_xla_backend, "device_count", lambda: 4)
    monkeypatch.setattr(xla_replicas, "rehearses", lambda: False)
    monkeypatch.setattr(xla_replicas, "is_initialized", lambda: False)
    monkeypatch.setattr(xla_replicas, "_is_launched", False)
    seen: list[Any] = []
    xla.launch(lambda rank, name: seen.append((rank, name)), args=("n",), nprocs=4)
    assert launched == [(("n",), "spawn")]
    assert seen == [(0, "n")]
    with pytest.raises(ValueError, match="nprocs=3"):
        xla.launch(print, nprocs=3)
    with pytest.raises(ValueError, match="join=False"):
        xla.launch(print, join=False)


def test_fact_1_9_a_launch_after_the_device_was_used_is_refused(
    device: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch_xla_backend, "device_count", lambda: 2)
    with pytest.raises(RuntimeError, match="has used the XLA device"):
        xla.launch(print)


def test_fact_1_9_a_seed_before_a_launch_does_not_start_the_runtime() -> None:
    script = """
import torch, torch_xla
import torch_xla.core.xla_model as xm
from xla_migrate import runtime as xla
xla.manual_seed(7)
xla.manual_seed(8, device_only=True)
assert not torch_xla._XLAC._xla_runtime_is_initialized()
assert not xla.is_initialized()
assert torch.initial_seed() == 7
xla.xla_device()  # This process trains by itself.
assert xla.is_initialized()
assert xm.get_rng_state() == 8
xla.manual_seed(9)
assert xm.get_rng_state() == 9
"""
    result = in_a_warm_process("target", script, PJRT_DEVICE="CPU", CPU_NUM_DEVICES="2")
    assert result.returncode == 0, result.stderr


def test_a_seed_reaches_a_device_that_the_script_names_itself() -> None:
    script = """
import warnings
import torch
import torch_xla.core.xla_model as xm
from xla_migrate import runtime as xla
xla.manual_seed(7)
torch.ones(1, device="xla")
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    xla.mark_step()
assert any("xla.manual_seed" in str(warning.message) for warning in caught), caught
assert xm.get_rng_state() == 7
"""
    result = in_a_warm_process("target", script, PJRT_DEVICE="CPU", CPU_NUM_DEVICES="2")
    assert result.returncode == 0, result.stderr


def test_fact_1_8_a_function_is_given_its_rank_on_this_host(
    device: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    """torch_xla hands it the rank among all hosts, but under torchrun the one on its host."""
    monkeypatch.setattr(xla_replicas.xr, "local_ordinal", lambda: 2)
    monkeypatch.setattr(xla_replicas, "_is_launched", False)  # Restored after the call.
    seen: list[Any] = []
    xla_replicas._Process(lambda *args: seen.append(args))(6, "n")
    assert seen == [(2, "n")]


def test_eager_processes_know_their_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCAL_RANK", "unset")
    ranks: list[Any] = []
    eager_backend._Process(lambda rank, name: ranks.append((rank, name, os.environ["LOCAL_RANK"])))(
        3, "n"
    )
    assert ranks == [(3, "n", "3")]


@pytest.mark.e2e
def test_fact_1_9_nothing_that_a_script_asks_before_launch_starts_the_runtime() -> None:
    script = """
import sys
from xla_migrate import runtime as xla
assert "torch_xla" not in sys.modules, "importing is cheap"
assert (xla.device_type(), xla.is_available(), xla.device_count()) == ("xla", True, 1)
assert xla.is_accelerator("cuda") and xla.is_bf16_supported() and xla.is_master()
xla.world_size(), xla.rank(), xla.local_rank(), xla.metrics()
xla.autocast("cuda"), xla.inference_mode(), xla.compile(print)
xla.MpDeviceLoader([], "cuda")
import torch_xla
assert not torch_xla._XLAC._xla_runtime_is_initialized()
import logging
assert not logging.getLogger().handlers, "the script's basicConfig is to have an effect"
import torch_xla.core.xla_model as xm
seed = xm.get_rng_state()
assert seed == 101, seed  # fact 1.31
xla.xla_device()
assert torch_xla._XLAC._xla_runtime_is_initialized()
assert xm.get_rng_state() == __import__("torch").initial_seed()
"""
    result = in_a_warm_process("reference", script)
    assert result.returncode == 0, result.stderr
    # fact 1.11: one line, ours, and nothing of torch_xla's.
    lines = [line for line in result.stderr.splitlines() if "PJRT_DEVICE" in line]
    assert len(lines) == 1
    assert "no TPU or Neuron device found" in lines[0]


def test_without_torch_xla_the_same_script_trains() -> None:
    script = """
import sys
import torch
from torch.utils.data import DataLoader, TensorDataset
from xla_migrate import runtime as xla
xla.manual_seed(0)
device = xla.xla_device("cuda")
model = xla.compile(torch.nn.Linear(4, 2)).to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
data = TensorDataset(torch.randn(64, 4), torch.randint(0, 2, (64,)))
losses = []
for epoch in range(3):
    for x, y in xla.MpDeviceLoader(DataLoader(data, batch_size=16, num_workers=epoch % 2), device):
        optimizer.zero_grad()
        with xla.autocast("cuda", dtype=torch.float16, enabled=False):
            loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        xla.optimizer_step(optimizer)
        losses.append(loss.item())
assert losses[-1] < losses[0]
assert "torch_xla" not in sys.modules
xla.synchronize()
"""
    result = in_a_warm_process("reference", script, XLA_MIGRATE_BACKEND="eager")
    assert result.returncode == 0, result.stderr
    assert not result.stderr


def test_the_backend_is_chosen_once(device: torch.device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XLA_MIGRATE_BACKEND", "eager")
    assert _backend.backend() is torch_xla_backend
    monkeypatch.setattr(_backend, "_chosen", None)
    assert _backend.backend() is eager_backend
    monkeypatch.setenv("XLA_MIGRATE_BACKEND", "jax")
    with pytest.raises(ValueError, match="XLA_MIGRATE_BACKEND=jax"):
        _backend.uses_torch_xla()


@pytest.mark.parametrize(
    ("told", "number"),
    [
        ({"of_all_hosts": False}, 1),
        ({"of_all_hosts": True}, 3),
        ({"of_all_hosts": True, "TORCHELASTIC_USE_AGENT_STORE": "True"}, 1),
    ],
)
def test_a_launched_function_is_told_its_rank_as_torch_xla_tells_it(
    eager: None, monkeypatch: pytest.MonkeyPatch, told: dict[str, Any], number: int
) -> None:
    """xmp.spawn counts the processes of all hosts; under torchrun torch_xla.launch hands over the local rank (fact 1.8)."""
    of_all_hosts = told.pop("of_all_hosts")
    launched = {"RANK": "3", "LOCAL_RANK": "1", "WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "2"}
    for name, value in {**launched, **told}.items():
        monkeypatch.setenv(name, value)
    called: list[int] = []
    xla.launch(called.append, of_all_hosts=of_all_hosts)
    assert called == [number]


@pytest.mark.parametrize("backend", ["xla", "gloo", None])
def test_torch_xlas_address_is_the_launchers_elsewhere(
    eager: None, backend: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MASTER_PORT", str(free_port()))  # another run may listen on torch_xla's
    xla.init_process_group(backend, init_method="xla://")
    assert torch.distributed.is_initialized()
    xla.destroy_process_group()
