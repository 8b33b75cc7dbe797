"""Ranks that SLURM and MPI give, in the environment of a lone process."""

from __future__ import annotations

import os

import pytest
import torch.distributed as dist

from xla_migrate import runtime as xla
from xla_migrate.runtime import _launchers

TORCHRUNS = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "CPU_NUM_DEVICES")


@pytest.fixture(autouse=True)
def _nothing_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """No launcher, before; and whatever a test says is forgotten afterwards."""
    known = [*TORCHRUNS, *_launchers._LOCAL_RANK, *_launchers._LOCAL_SIZE, *_launchers._SLURM_TASKS]
    for name in (*known, "SLURM_NTASKS", "SLURM_NNODES", "SLURM_NODEID", "SLURM_PROCID"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)


@pytest.mark.parametrize(
    ("told", "rank", "size"),
    [
        ({"SLURM_LOCALID": "1", "SLURM_NTASKS": "2", "SLURM_PROCID": "1"}, 1, 2),
        ({"SLURM_LOCALID": "1", "SLURM_NTASKS": "8", "SLURM_NNODES": "2"}, 1, None),
        ({"SLURM_LOCALID": "0", "SLURM_TASKS_PER_NODE": "4(x2),3", "SLURM_NODEID": "2"}, 0, 3),
        ({"SLURM_LOCALID": "0", "SLURM_TASKS_PER_NODE": "4(x2),3", "SLURM_NODEID": "1"}, 0, 4),
        ({"SLURM_STEP_TASKS_PER_NODE": "1", "SLURM_TASKS_PER_NODE": "8"}, None, 1),
        ({"SLURM_NTASKS_PER_NODE": "8"}, None, 8),
        ({"OMPI_COMM_WORLD_LOCAL_RANK": "3", "OMPI_COMM_WORLD_LOCAL_SIZE": "4"}, 3, 4),
        ({"MV2_COMM_WORLD_LOCAL_RANK": "1", "MV2_COMM_WORLD_LOCAL_SIZE": "2"}, 1, 2),
        ({"MPI_LOCALRANKID": "1", "MPI_LOCALNRANKS": "2", "SLURM_LOCALID": "0"}, 1, 2),
        ({"LOCAL_RANK": "5", "LOCAL_WORLD_SIZE": "8", "SLURM_LOCALID": "0"}, 5, 8),
        ({}, None, None),
    ],
    ids=lambda value: "+".join(value) if isinstance(value, dict) else str(value),
)
def test_ranks_on_this_host(
    monkeypatch: pytest.MonkeyPatch, told: dict[str, str], rank: int | None, size: int | None
) -> None:
    for name, value in told.items():
        monkeypatch.setenv(name, value)
    assert (_launchers.local_rank(), _launchers.local_size()) == (rank, size)


def test_an_allocation_does_not_make_a_replica(
    device: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`sbatch --ntasks=8` sets these for a script that is started once, too."""
    for name, value in (("SLURM_PROCID", "0"), ("SLURM_NTASKS", "8"), ("SLURM_LOCALID", "0")):
        monkeypatch.setenv(name, value)
    assert (xla.rank(), xla.world_size()) == (0, 1)


def test_devices_are_counted_as_processes(device: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """For `args.gpu = args.rank % torch.cuda.device_count()`."""
    monkeypatch.setenv("SLURM_NTASKS", "2")
    assert xla.device_count() == 2
    monkeypatch.setenv("CPU_NUM_DEVICES", "4")
    assert xla.device_count() == 4


def test_what_a_script_says_is_what_the_environment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_LOCALID", "1")
    monkeypatch.setenv("SLURM_NTASKS_PER_NODE", "2")
    for name in TORCHRUNS:
        monkeypatch.setenv(name, "")
    _launchers.tell(3, 4)
    assert [os.environ[name] for name in TORCHRUNS[:4]] == ["3", "1", "4", "2"]
    assert _launchers.replica_of_environment() == (3, 1, 4)


def test_under_torchrun_replicas_meet_at_its_agent(
    eager: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At an address of the script's own all would call, and none listen; a file that each has made is another one."""
    asked: list[dict[str, object]] = []
    monkeypatch.setattr(dist, "init_process_group", lambda **options: asked.append(options))
    for name in TORCHRUNS:
        monkeypatch.setenv(name, "")
    for given in ("tcp://localhost:1", "file:///tmp/shared"):
        for agent, address in (("True", "env://"), ("", given)):
            monkeypatch.setenv("TORCHELASTIC_USE_AGENT_STORE", agent)
            xla.init_process_group("nccl", given, rank=1, world_size=2)
            assert asked[-1]["init_method"] == address
            assert (asked[-1]["rank"], asked[-1]["world_size"]) == (1, 2)


def test_addresses_may_name_them() -> None:
    address = "tcp://10.0.0.1:2345?rank=1&world_size=4"
    assert _launchers.of_address(address, -1, -1) == (1, 4)
    assert _launchers.of_address(address, 2, 8) == (2, 8)
    assert _launchers.of_address("env://", -1, -1) == (-1, -1)
    assert _launchers.of_address(None, 0, 2) == (0, 2)
