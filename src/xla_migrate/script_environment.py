"""The environment of a user's script that a command runs: quiet libraries, and what torchrun would give it."""

from __future__ import annotations

import socket

# Libraries draw and upload nothing, output is there at once, and hydra shows tracebacks.
QUIET = {
    "MPLBACKEND": "Agg",
    "WANDB_MODE": "offline",
    "PYTHONUNBUFFERED": "1",
    "HYDRA_FULL_ERROR": "1",
}
_ALONE = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "LOCAL_WORLD_SIZE": "1"}


def free_port() -> int:
    """Return a free TCP port of this host; another process may take it before it is used."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def environment_of_one() -> dict[str, str]:
    """Return the variables that `torchrun --nproc_per_node=1` sets for its one process."""
    return {**_ALONE, "MASTER_ADDR": "localhost", "MASTER_PORT": str(free_port())}
