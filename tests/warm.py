"""Interpreters that have imported torch already: where many short runs would spend most of their time on imports.

`python(*modules)` names an executable that is used as `python` is, for scripts, `-m` and `-c`: a server that has
imported the modules forks a process per run, in which the script is `__main__`, with its own arguments, folder,
environment, streams and `sitecustomize`. What is read once when Python starts (hash seed, OMP_NUM_THREADS) is the
server's. Tests of how processes start and end, and of what imports do, want the real Python.
"""

from __future__ import annotations

import atexit
import fcntl
import functools
import os
import shutil
import subprocess
import sys
import tempfile
import zlib
from pathlib import Path

_SERVER = Path(__file__).with_name("warm_server.py")
_CLIENT = """\
#!{python} -IS
import json, os, socket, sys
with socket.socket(socket.AF_UNIX) as server:
    server.connect({address!r})
    words = json.dumps([sys.argv[1:], os.getcwd(), dict(os.environ)]).encode()
    socket.send_fds(server, [len(words).to_bytes(8, "big")], [0, 1, 2])
    server.sendall(words)
    told = server.recv(8)
code = int.from_bytes(told, "big", signed=True) if told else 70
if code < 0:  # by a signal
    os.kill(os.getpid(), -code)
sys.exit(code)
"""
_SHARED = "XLA_MIGRATE_TESTS_WARM"  # the folder of the interpreters, in the environment
_kept: list[object] = []  # until this process ends
TORCH = ("torch", "torch._dynamo", "numpy")
# What torch_xla's own import changes is a target's, never a reference's (fact 1.106).
TORCH_XLA = (*TORCH, "torch_xla", "torch_xla.core.xla_model", "torch_xla.debug.metrics")


def for_side(side: str) -> str:
    """The interpreter for one side of a verification."""
    return python(*(TORCH_XLA if side == "target" else TORCH))


def share() -> None:
    """Let all processes that this one starts use the same interpreters; they end with this one."""
    folder = tempfile.mkdtemp(prefix="warm-")
    alive = os.path.join(folder, "alive")
    os.mkfifo(alive)
    _kept.append(os.open(alive, os.O_RDWR))  # servers read it, to its end
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    os.environ[_SHARED] = folder


@functools.cache
def python(*modules: str) -> str:
    """An interpreter that has imported the modules, started where no process has asked for it yet."""
    if _SHARED not in os.environ:
        share()
    folder = Path(os.environ[_SHARED])
    client = folder / f"{zlib.crc32(' '.join(modules).encode()):x}" / "python"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not client.exists():
            client.parent.mkdir(exist_ok=True)
            _start(client, modules)
    return str(client)


def _start(client: Path, modules: tuple[str, ...]) -> None:
    address = str(client.with_name("socket"))
    env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0", "PYTHONUNBUFFERED": "1"}
    env |= {"PJRT_DEVICE": "CPU"}
    with (client.parents[1] / "alive").open("rb") as alive:  # the server ends where this does
        server = subprocess.Popen(
            [sys.executable, str(_SERVER), address, *modules],
            env=env,
            stdin=alive,
            stdout=subprocess.PIPE,
            cwd=client.parent,
        )
    _kept.append(server)
    assert server.stdout is not None
    assert server.stdout.readline() == b"ready\n", f"no {', '.join(modules)}"
    made = client.with_name("made")
    made.write_text(_CLIENT.format(python=sys.executable, address=address))
    made.chmod(0o755)
    made.rename(client)
