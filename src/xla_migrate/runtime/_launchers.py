"""The variables by which launchers describe a process: torchrun, SLURM's srun, and MPI's mpirun.

Only torchrun's variables make a replica by themselves: SLURM sets its own for a whole allocation,
also for a lone process in it. A script that wants ranks of SLURM or MPI hands them to
``init_process_group``, and from then on torchrun's variables say the same.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import parse_qsl, urlsplit

# torchrun, Open MPI, MVAPICH, Intel MPI, Cray's, SLURM. The first that is there counts.
_LOCAL_RANK = (
    "LOCAL_RANK",
    "OMPI_COMM_WORLD_LOCAL_RANK",
    "MV2_COMM_WORLD_LOCAL_RANK",
    "MPI_LOCALRANKID",
    "PALS_LOCAL_RANKID",
    "SLURM_LOCALID",
)
_LOCAL_SIZE = (
    "LOCAL_WORLD_SIZE",
    "OMPI_COMM_WORLD_LOCAL_SIZE",
    "MV2_COMM_WORLD_LOCAL_SIZE",
    "MPI_LOCALNRANKS",
    "PALS_LOCAL_SIZE",
)
_SLURM_TASKS = ("SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE", "SLURM_NTASKS_PER_NODE")


def replica_of_environment() -> tuple[int, int, int]:
    """Return rank, local rank and world size from torchrun's variables; 0, 0, 1 without them."""
    rank, local_rank, size = (os.environ.get(n) for n in ("RANK", "LOCAL_RANK", "WORLD_SIZE"))
    return int(rank or 0), int(local_rank or 0), int(size or 1)


def local_rank() -> int | None:
    """The number of this process on its host, from 0; None if no launcher says."""
    return _first(_LOCAL_RANK)


def local_size() -> int | None:
    """Return the number of this job's processes on this host; None if no launcher sets it."""
    found = _first(_LOCAL_SIZE)
    return found if found is not None else _slurm_tasks(os.environ)


def tell(rank: int, size: int) -> None:
    """Set rank and number of replicas in the environment, as torchrun does."""
    told: dict[str, int | None] = {"RANK": rank, "WORLD_SIZE": size, "LOCAL_RANK": local_rank()}
    told["LOCAL_WORLD_SIZE"] = local_size()
    os.environ.update({name: str(value) for name, value in told.items() if value is not None})


class Told:
    """The function that a started process runs; it sets the variables that torchrun would set."""

    def __init__(self, function: Callable[..., Any], size: int) -> None:
        self._function, self._size, self._port = function, size, _free_port()

    def __call__(self, rank: int, *args: Any) -> None:
        told = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": self._size}
        told |= {"LOCAL_WORLD_SIZE": self._size}
        os.environ.update({name: str(value) for name, value in told.items()})
        os.environ.setdefault("MASTER_ADDR", "localhost")
        os.environ.setdefault("MASTER_PORT", str(self._port))
        self._function(rank, *args)


def _free_port() -> int:
    """As `xla_migrate.script_environment` has it: the runtime imports nothing above itself, for it is copied into scripts."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def has_agent() -> bool:
    """True if torchrun's agent is where replicas meet.

    At any other address torch has all of them call, and none listen: a script that was made for
    ``mp.spawn`` and sets its own address would wait forever under torchrun.
    """
    return os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"


def of_address(address: str | None, rank: int, size: int) -> tuple[int, int]:
    """Rank and world size, which an address may name: ``tcp://host:port?rank=0&world_size=2``."""
    named = dict(parse_qsl(urlsplit(address or "").query))
    rank = rank if rank >= 0 else int(named.get("rank", -1))
    return rank, size if size > 0 else int(named.get("world_size", -1))


def _first(names: tuple[str, ...]) -> int | None:
    return next((int(os.environ[name]) for name in names if os.environ.get(name)), None)


def _slurm_tasks(env: Mapping[str, str]) -> int | None:
    """SLURM's tasks on this node, from "2(x3),1": three nodes with two each, and one with one."""
    for name in _SLURM_TASKS:
        nodes: list[int] = []
        for tasks, times in re.findall(r"(\d+)(?:\(x(\d+)\))?", env.get(name, "")):
            nodes += [int(tasks)] * int(times or 1)
        if nodes:
            return nodes[min(int(env.get("SLURM_NODEID", 0)), len(nodes) - 1)]
    if env.get("SLURM_NTASKS") and env.get("SLURM_NNODES", "1") == "1":
        return int(env["SLURM_NTASKS"])
    return None
