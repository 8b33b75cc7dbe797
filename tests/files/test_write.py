"""Writing back: the original is never lost, whatever happens."""

from __future__ import annotations

import errno
import os
import resource
import signal
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from xla_migrate.files import write as module
from xla_migrate.files.read import State, state_of
from xla_migrate.files.write import WriteError, create, rewrite

OLD, NEW = b"old = 1\n", b"new = 2\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "train.py"
    path.write_bytes(OLD)
    return path


def state(path: Path) -> State:
    return state_of(path.stat())


def names(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


def test_written_and_nothing_else_left(file: Path) -> None:
    assert rewrite(str(file), OLD, NEW, state(file), keep=False) == ""
    assert file.read_bytes() == NEW
    assert names(file.parent) == ["train.py"]


@pytest.mark.parametrize("mode", [0o644, 0o755, 0o600, 0o664])
def test_the_mode_stays(file: Path, mode: int) -> None:
    file.chmod(mode)
    rewrite(str(file), OLD, NEW, state(file), keep=True)
    assert stat.S_IMODE(file.stat().st_mode) == mode


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_the_owner_stays(file: Path) -> None:
    os.chown(file, 1234, 2345)
    file.chmod(0o4755)  # a change of owner drops the set-user-ID bit
    rewrite(str(file), OLD, NEW, state(file), keep=False)
    found = file.stat()
    assert (found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)) == (1234, 2345, 0o4755)


def test_extended_attributes_stay(file: Path) -> None:
    try:
        os.setxattr(file, "user.note", b"kept")
    except OSError:
        pytest.skip("this file system has none")
    rewrite(str(file), OLD, NEW, state(file), keep=False)
    assert os.getxattr(file, "user.note") == b"kept"


def test_a_link_stays_a_link(file: Path, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    link = tmp_path / "sub" / "link.py"
    link.symlink_to("../train.py")
    copy = rewrite(str(link), OLD, NEW, state(file), keep=True)
    assert os.readlink(link) == "../train.py"
    assert file.read_bytes() == NEW
    assert copy == str(file) + ".orig"


def test_the_copy_is_the_original(file: Path) -> None:
    file.chmod(0o640)
    before = file.stat()
    copy = Path(rewrite(str(file), OLD, NEW, state(file), keep=True))
    assert copy.name == "train.py.orig"
    assert copy.read_bytes() == OLD
    after = copy.stat()
    assert (after.st_ino, after.st_mode, after.st_mtime_ns) == (
        before.st_ino,
        before.st_mode,
        before.st_mtime_ns,
    )


def test_copies_do_not_overwrite_and_do_not_pile_up(file: Path) -> None:
    (file.parent / "train.py.orig").write_bytes(b"somebody's own")
    (file.parent / "train.py.orig1").mkdir()
    assert rewrite(str(file), OLD, NEW, state(file), keep=True).endswith("train.py.orig2")
    file.write_bytes(OLD)
    assert rewrite(str(file), OLD, NEW, state(file), keep=True).endswith("train.py.orig2")
    assert names(file.parent) == ["train.py", "train.py.orig", "train.py.orig1", "train.py.orig2"]
    assert (file.parent / "train.py.orig").read_bytes() == b"somebody's own"


def test_a_copy_of_a_file_with_several_names_is_its_own(file: Path) -> None:
    other = file.parent / "other.py"
    os.link(file, other)
    copy = Path(rewrite(str(file), OLD, NEW, state(file), keep=True))
    other.write_bytes(b"edited")
    assert copy.read_bytes() == OLD


def test_where_there_are_no_links_the_copy_is_written(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_links(*_: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", no_links)
    copy = Path(rewrite(str(file), OLD, NEW, state(file), keep=True))
    assert copy.read_bytes() == OLD
    assert copy.stat().st_nlink == 1


def test_a_file_that_has_changed_is_not_overwritten(file: Path) -> None:
    before = state(file)
    file.write_bytes(b"edited meanwhile\n")
    with pytest.raises(WriteError, match="changed while it was being migrated"):
        rewrite(str(file), OLD, NEW, before, keep=True)
    assert file.read_bytes() == b"edited meanwhile\n"
    assert names(file.parent) == ["train.py"]


def test_read_only_files_are_left_alone(file: Path) -> None:
    file.chmod(0o444)
    with pytest.raises(WriteError, match="is read-only"):
        rewrite(str(file), OLD, NEW, state(file), keep=True)
    assert file.read_bytes() == OLD
    assert names(file.parent) == ["train.py"]


@pytest.mark.parametrize("stage", ["write", "fsync", "link", "replace"])
@pytest.mark.parametrize(
    "error", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()]
)
def test_whatever_fails_the_original_is_whole(
    file: Path, monkeypatch: pytest.MonkeyPatch, stage: str, error: BaseException
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(os, stage, fail)
    if stage == "link" and isinstance(error, OSError):
        monkeypatch.setattr(module, "_copy", fail)
    expected = WriteError if isinstance(error, OSError) else KeyboardInterrupt
    with pytest.raises(expected):
        rewrite(str(file), OLD, NEW, state(file), keep=True)
    monkeypatch.undo()
    assert file.read_bytes() == OLD
    assert names(file.parent) == ["train.py"]


@pytest.mark.parametrize("stage", ["open", "write", "fsync", "close", "link", "replace"])
@pytest.mark.parametrize("keep", [True, False])
def test_an_interrupt_waits_until_the_file_is_written(
    file: Path, monkeypatch: pytest.MonkeyPatch, stage: str, keep: bool
) -> None:
    """It falls right behind each call of the system, where nothing has yet been noted down."""
    monkeypatch.setattr(signal, "getsignal", lambda _: signal.default_int_handler)
    real = getattr(os, stage)

    def interrupted(*arguments: Any) -> Any:
        answer = real(*arguments)
        signal.raise_signal(signal.SIGINT)
        return answer

    before = state(file)
    monkeypatch.setattr(os, stage, interrupted)
    if stage == "link" and not keep:
        pytest.skip("nothing is linked")
    with pytest.raises(KeyboardInterrupt):
        rewrite(str(file), OLD, NEW, before, keep)
    monkeypatch.undo()
    assert file.read_bytes() == NEW
    assert names(file.parent) == ["train.py", "train.py.orig"][: 1 + keep]
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


def test_a_disk_that_is_really_full(file: Path) -> None:
    """A limit on the size of files is the nearest thing to a full disk that a test can make."""
    program = (
        "import resource, signal, sys\n"
        "from xla_migrate.files.write import WriteError, rewrite\n"
        "from xla_migrate.files.read import read\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))\n"
        "old, state = read(sys.argv[1])\n"
        "try:\n"
        "    rewrite(sys.argv[1], old, b'#' * 10_000, state, True)\n"
        "except WriteError as error:\n"
        "    print(error)\n"
    )
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] != 4096
    answer = subprocess.run(
        [sys.executable, "-c", program, file],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(os.path.abspath(p) for p in sys.path)},
        check=True,
    )
    assert answer.stdout == "cannot be written: File too large; it is unchanged\n"
    assert file.read_bytes() == OLD
    assert names(file.parent) == ["train.py"]


def test_create_makes_folders_and_takes_the_mode(file: Path) -> None:
    file.chmod(0o755)
    place = file.parent / "out" / "sub" / "train.py"
    create(str(place), NEW, str(file))
    assert place.read_bytes() == NEW
    assert stat.S_IMODE(place.stat().st_mode) == 0o755
    create(str(place), OLD)
    assert place.read_bytes() == OLD


def test_create_over_a_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    with pytest.raises(WriteError, match="a folder has this name"):
        create(str(tmp_path / "out"), NEW)
    (tmp_path / "file").touch()
    with pytest.raises(WriteError, match="cannot be written: "):
        create(str(tmp_path / "file" / "x.py"), NEW)


def test_another_run_that_did_the_same_is_no_fault(file: Path) -> None:
    before = state(file)
    old = file.read_bytes()
    rewrite(str(file), old, b"new", before, False)
    assert rewrite(str(file), old, b"new", before, True) == ""  # as it was when both began
    assert file.read_bytes() == b"new"
    assert names(file.parent) == [file.name]


def test_create_keeps_what_is_there(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    assert create(str(path), b"new", keep=True) == ""
    assert create(str(path), b"new", keep=True) == ""
    assert create(str(path), b"newer", keep=True) == f"{path}.orig"
    assert (tmp_path / "a.py.orig").read_bytes() == b"new"
    assert create(str(path), b"newest") == ""
    assert path.read_bytes() == b"newest"
