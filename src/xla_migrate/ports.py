"""A port that processes which are about to start can meet at."""

from __future__ import annotations

import socket


def free_port() -> int:
    """Return a free TCP port of this host; another process may take it before it is used."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
