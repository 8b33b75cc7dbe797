"""Reading: whole, and only files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from xla_migrate.files import read as module
from xla_migrate.files.read import ReadError, read, state_of


def test_bytes_and_state(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_bytes(b"x = 1\r\n\xff")
    data, state = read(str(path))
    assert data == b"x = 1\r\n\xff"
    assert state == state_of(os.stat(path))


def test_the_state_differs_when_the_content_does(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_bytes(b"1")
    before = read(str(path))[1]
    times = os.stat(path)
    path.unlink()
    (tmp_path / "b.py").touch()  # takes the inode
    path.write_bytes(b"2")
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert read(str(path))[1] != before


def test_a_pipe_does_not_hang(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.py")
    with pytest.raises(ReadError, match="is not a regular file"):
        read(str(tmp_path / "a.py"))


def test_large_files_are_refused_unread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.py"
    with path.open("wb") as file:
        file.truncate(module.MAX_SOURCE + 1)  # a hole: no space is taken
    monkeypatch.setattr(os, "read", None)
    with pytest.raises(ReadError, match="8 MiB large; files beyond 8 MiB are not analysed"):
        read(str(path))


def test_a_vanished_file(tmp_path: Path) -> None:
    with pytest.raises(ReadError, match="No such file"):
        read(str(tmp_path / "a.py"))


def test_a_file_that_grows_is_read_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.py"
    path.write_bytes(b"ab" * 10)
    real = os.read
    monkeypatch.setattr(os, "read", lambda handle, size: real(handle, min(size, 7)))
    assert read(str(path))[0] == b"ab" * 10
