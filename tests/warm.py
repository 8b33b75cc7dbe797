"""Interpreters that have imported torch already: where many short runs would spend most of their time on imports.

`python(*modules)` names an executable that is used as `python` is, for scripts, `-m` and `-c`: a server that has
imported the modules forks a process per run, in which the script is `__main__`, with its own arguments, folder,
environment, streams and `sitecustomize`. What is read once when Python starts (hash seed, OMP_NUM_THREADS) is the
server's. Tests of how processes start and end, and of what imports do, want the real Python.

`choosing()` names one for processes that start others, by `sys.executable` or as multiprocessing spawns them. It
chooses by what is run: a side of a verification, the command `xla-migrate`, or a migrated script.
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
# Without what Python imports at its start or a module of Python code: that takes half of its time.
_CLIENT = """\
#!{python} -IS
import os, sys
from _socket import AF_UNIX, SCM_RIGHTS, SOCK_STREAM, SOL_SOCKET, socket
address = {address!r}
{choice}
def opened(number):
    try:
        os.fstat(number)
    except OSError:  # that of the list itself
        return False
    return True

server = socket(AF_UNIX, SOCK_STREAM)
server.connect(address)
files = [n for n in map(int, os.listdir("/dev/fd")) if n != server.fileno() and opened(n)]
words = ascii([sys.argv[1:], os.getcwd(), dict(os.environ), files]).encode()
numbers = b"".join(n.to_bytes(4, sys.byteorder) for n in files)
server.sendmsg([len(words).to_bytes(8, "big")], [(SOL_SOCKET, SCM_RIGHTS, numbers)])
server.sendall(words)
told = server.recv(8)
code = int.from_bytes(told, "big", signed=True) if told else 70
if code < 0:  # by a signal
    os.kill(os.getpid(), -code)
sys.exit(code)
"""
_CHOICE = """\
os.environ[{executable!r}] = sys.argv[0]
if plan := os.environ.get({plan!r}):
    import json
    with open(plan) as file:
        address = {sides!r}[json.load(file)["side"]]
elif sys.argv[1:3] != ["-m", "xla_migrate"]:
    is_eager = os.environ.get("XLA_MIGRATE_BACKEND") == "eager"
    address = {sides!r}["reference" if is_eager else "target"]
"""
_EXECUTABLE = "XLA_MIGRATE_TESTS_EXECUTABLE"  # what `sys.executable` is
_SHARED = "XLA_MIGRATE_TESTS_WARM"  # the folder of the interpreters, in the environment
_kept: list[object] = []  # until this process ends
TORCH = ("torch", "torch._dynamo", "numpy")
COMMAND = (
    "xla_migrate.cli",
    "xla_codemods.engine",
    "xla_codemods.rewriting.rewrite",
    "xla_migrate.cli.verify",
)
# What torch_xla's own import changes is a target's, never a reference's (fact 1.106).
TORCH_XLA = (*TORCH, "torch_xla", "torch_xla.core.xla_model", "torch_xla.debug.metrics")


def for_side(side: str, *more: str) -> str:
    """The interpreter for one side of a verification, which has also imported the modules `more`."""
    return python(*(TORCH_XLA if side == "target" else TORCH), *more)


@functools.cache
def choosing() -> str:
    """The interpreter that forks one process or another, by what it is to run; as `sys.executable`, too."""
    from xla_migrate.verify.observe.plan import VARIABLE

    sides = {side: _address(for_side(side)) for side in ("reference", "target")}
    choice = _CHOICE.format(executable=_EXECUTABLE, plan=VARIABLE, sides=sides)
    client = Path(os.environ[_SHARED]) / "python"
    server = python(*COMMAND, executable=str(client))
    _write(client, _address(server), choice)
    return str(client)


def shared() -> str:
    """The folder that all processes of this session share."""
    if _SHARED not in os.environ:
        share()
    return os.environ[_SHARED]


def share() -> None:
    """Let all processes that this one starts use the same interpreters; they end with this one."""
    folder = tempfile.mkdtemp(prefix="warm-")
    alive = os.path.join(folder, "alive")
    os.mkfifo(alive)
    _kept.append(os.open(alive, os.O_RDWR))  # servers read it, to its end
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    os.environ[_SHARED] = folder


@functools.cache
def python(*modules: str, executable: str = sys.executable) -> str:
    """An interpreter that has imported the modules, started where no process has asked for it yet."""
    folder = Path(shared())
    client = folder / f"{zlib.crc32(' '.join(modules).encode()):x}" / "python"
    base = next((b for b in (TORCH_XLA, TORCH) if modules[: len(b)] == b != modules), ())
    start_with = python(*base) if base else sys.executable
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not client.exists():
            client.parent.mkdir(exist_ok=True)
            _start(client, modules, executable, start_with)
    return str(client)


def _start(client: Path, modules: tuple[str, ...], executable: str, start_with: str) -> None:
    """Start the interpreter with `start_with`: another one that has imported some of the modules, or Python."""
    address = _address(str(client))
    env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0", "PYTHONUNBUFFERED": "1"}
    env |= {"PJRT_DEVICE": "CPU", _EXECUTABLE: executable}
    errors = client.with_name("errors")
    with (client.parents[1] / "alive").open("rb") as alive:  # the server ends where this does
        server = subprocess.Popen(
            [start_with, str(_SERVER), address, *modules],
            env=env,
            stdin=alive,
            stdout=subprocess.PIPE,
            stderr=errors.open("wb"),
            cwd=client.parent,
        )
    _kept.append(server)
    assert server.stdout is not None
    assert server.stdout.readline() == b"ready\n", f"no {', '.join(modules)}:\n{errors.read_text()}"
    _write(client, address)


def _address(client: str) -> str:
    return str(Path(client).with_name("socket"))


def _write(client: Path, address: str, choice: str = "") -> None:
    made = client.with_name(f"made{os.getpid()}")
    made.write_text(_CLIENT.format(python=sys.executable, address=address, choice=choice))
    made.chmod(0o755)
    made.rename(client)
