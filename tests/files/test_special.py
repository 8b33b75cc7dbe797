"""Devices, pipes, sockets and descriptors are written in place and never replaced."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from xla_migrate.files.read import state_of
from xla_migrate.files.special import is_special, write_special
from xla_migrate.files.write import WriteError, create, rewrite

DATA = b"report\n"


@pytest.fixture
def device(tmp_path: Path) -> Path:
    """A node of the null device that a test may lose."""
    path = tmp_path / "null"
    try:
        os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(1, 3))
        path.write_bytes(b"")
    except OSError as error:
        pytest.skip(f"no device node can be made here: {error}")
    return path


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    return path


def read_pipe(pipe: Path) -> tuple[threading.Thread, list[bytes]]:
    found: list[bytes] = []
    thread = threading.Thread(target=lambda: found.append(pipe.read_bytes()), daemon=True)
    thread.start()
    return thread, found


def test_a_device_stays_a_device(device: Path) -> None:
    assert create(str(device), DATA, keep=True) == ""
    assert stat.S_ISCHR(device.stat().st_mode)
    assert os.listdir(device.parent) == ["null"]


def test_a_link_to_a_device_stays_a_link(device: Path, tmp_path: Path) -> None:
    link = tmp_path / "report.txt"
    link.symlink_to(device)
    create(str(link), DATA)
    assert link.is_symlink()
    assert stat.S_ISCHR(device.stat().st_mode)


def test_a_link_to_a_regular_file_stays_a_link(tmp_path: Path) -> None:
    target, link = tmp_path / "real.txt", tmp_path / "report.txt"
    target.write_bytes(b"old")
    link.symlink_to(target)
    create(str(link), DATA)
    assert link.is_symlink()
    assert target.read_bytes() == DATA


def test_the_reader_of_a_pipe_gets_everything(pipe: Path) -> None:
    thread, found = read_pipe(pipe)
    large = b"x" * 200_000
    create(str(pipe), large)
    thread.join(10)
    assert found == [large]
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_a_socket_cannot_be_written_and_stays(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        with pytest.raises(WriteError, match="cannot be written"):
            create(str(path), DATA)
    assert stat.S_ISSOCK(path.stat().st_mode)


@pytest.mark.parametrize("name", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"])
@pytest.mark.parametrize("redirected", [True, False], ids=["to a file", "to a pipe"])
def test_a_descriptor_is_written_after_what_was_printed(
    name: str, redirected: bool, tmp_path: Path
) -> None:
    script = (
        "from xla_migrate.files.write import create\n"
        f"print('before')\ncreate({name!r}, b'report\\n')\nprint('after')\n"
    )
    out = tmp_path / "out.txt"
    with out.open("wb") as file:
        done = subprocess.run(
            [sys.executable, "-c", script],
            stdout=file if redirected else subprocess.PIPE,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert done.stderr == b""
    assert (out.read_bytes() if redirected else done.stdout) == b"before\nreport\nafter\n"


def test_a_process_substitution_gets_the_report(tmp_path: Path) -> None:
    out = tmp_path / "out.txt"
    command = f'{sys.executable} -c "{_CREATE}" >(cat > {out}); wait; sleep 0.2'
    subprocess.run(["bash", "-c", command], check=True)
    assert out.read_bytes() == DATA


_CREATE = (
    "import sys; from xla_migrate.files.write import create; create(sys.argv[1], b'report\\n')"
)


def test_a_closed_descriptor_is_an_error() -> None:
    with pytest.raises(WriteError, match="cannot be written"):
        create("/dev/fd/987", DATA)


def test_a_pipe_is_not_rewritten_in_place(pipe: Path) -> None:
    with pytest.raises(WriteError, match="not a regular file"):
        rewrite(str(pipe), b"old", b"new", state_of(pipe.stat()), keep=True)
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_regular_files_and_new_files_are_not_special(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    assert not is_special(str(file))
    file.write_bytes(b"")
    assert not is_special(str(file))
    assert not is_special(str(tmp_path))


def test_a_device_is_special(device: Path) -> None:
    assert is_special(str(device))
    write_special(str(device), DATA)


@pytest.mark.parametrize(
    "words",
    [
        ["check", "train.py", "--output-format", "json", "--output-file", "OUT"],
        ["train.py", "--output", "OUT"],
        ["check", "train.py", "--output-format", "sarif", "--output-file", "OUT"],
    ],
    ids=["report", "output", "sarif"],
)
def test_the_command_leaves_a_device(device: Path, tmp_path: Path, words: list[str]) -> None:
    script = tmp_path / "train.py"
    script.write_text("import torch\nx = torch.ones(2).cuda()\n")
    own = [str(device) if word == "OUT" else word for word in words]
    done = subprocess.run(
        [sys.executable, "-m", "xla_migrate", *own], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode in (0, 1), done.stderr
    assert stat.S_ISCHR(device.stat().st_mode)
