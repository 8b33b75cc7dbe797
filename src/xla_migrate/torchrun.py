"""What torchrun gives the processes that it starts: a port to meet at, and variables of the environment."""

from __future__ import annotations

import socket

_ALONE = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "LOCAL_WORLD_SIZE": "1"}


def free_port() -> int:
    """Return a free TCP port of this host; another process may take it before it is used."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def environment_of_one() -> dict[str, str]:
    """Return the variables that `torchrun --nproc_per_node=1` sets for its one process."""
    return {**_ALONE, "MASTER_ADDR": "localhost", "MASTER_PORT": str(free_port())}
