"""Interpreters that have imported torch already: where many short runs would spend most of their time on imports.

`python(*modules)` names an executable that is used as `python` is, for scripts, `-m` and `-c`: a server that has
imported the modules forks a process per run, in which the script is `__main__`, with its own arguments, folder,
environment, streams and `sitecustomize`. What is read once when Python starts (hash seed, OMP_NUM_THREADS) is the
server's. Tests of how processes start and end, and of what imports do, want the real Python.
"""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import subprocess
import sys
import tempfile
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
TORCH = ("torch", "torch._dynamo", "numpy")
# What torch_xla's own import changes is a target's, never a reference's (fact 1.106).
TORCH_XLA = (*TORCH, "torch_xla", "torch_xla.core.xla_model", "torch_xla.debug.metrics")


def for_side(side: str) -> str:
    """The interpreter for one side of a verification."""
    return python(*(TORCH_XLA if side == "target" else TORCH))


@functools.cache
def python(*modules: str) -> str:
    """An interpreter that has imported the modules; its server ends with this process."""
    folder = Path(tempfile.mkdtemp(prefix="warm-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    address = str(folder / "socket")
    env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0", "PYTHONUNBUFFERED": "1"}
    env |= {"PJRT_DEVICE": "CPU"}
    server = subprocess.Popen(
        [sys.executable, str(_SERVER), address, *modules],
        env=env,
        stdin=subprocess.PIPE,  # the server ends where this is closed
        stdout=subprocess.PIPE,
        cwd=folder,
    )
    atexit.register(_end, server)
    assert server.stdout is not None
    assert server.stdout.readline() == b"ready\n", f"no {', '.join(modules)}"
    client = folder / "python"
    client.write_text(_CLIENT.format(python=sys.executable, address=address))
    client.chmod(0o755)
    return str(client)


def _end(server: subprocess.Popen[bytes]) -> None:
    assert server.stdin is not None
    server.stdin.close()
    server.wait()
