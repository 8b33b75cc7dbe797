"""Writes a file back so that at every moment either the old or the new one is there, whole."""

from __future__ import annotations

import os
import signal
import threading
from contextlib import contextmanager

from .read import ReadError, State, read, state_of
from .special import is_special, write_special

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_BINARY = getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)


class WriteError(Exception):
    """A file that was not written and is as it was, with the reason in one line."""


def rewrite(path: str, old: bytes, new: bytes, state: State, keep: bool) -> str:
    """Put `new` in the place of `old`, with the same mode, owner and attributes; links stay links.

    Args:
        path: a file, or a link to it.
        old: what was read.
        new: what must be written.
        state: the file's state when it was read; if it has changed since, nothing is written.
        keep: keep the original beside the file.

    Returns:
        Where the original is kept, or an empty string.

    Raises:
        WriteError: the file is as it was.
    """
    real = os.path.realpath(path)
    with _uninterrupted():
        return _rewrite(real, old, new, state, keep)


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """An interrupt (Ctrl-C) waits until the block is done.

    It may fall between any two instructions, even between making a file and noting that it was made.
    """
    before = signal.getsignal(signal.SIGINT)
    if before is None or threading.current_thread() is not threading.main_thread():
        yield  # no handler to install: another thread handles signals
        return
    came: list[int] = []
    signal.signal(signal.SIGINT, lambda number, _: came.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if came:
            signal.raise_signal(signal.SIGINT)


def _rewrite(real: str, old: bytes, new: bytes, state: State, keep: bool) -> str:
    copy, made = "", False
    try:
        if is_special(real):
            raise WriteError("is not a regular file; not written: use `-` to read standard input")
        found = os.stat(real)
        if state_of(found) != state:
            if _holds(real, new):  # another run did the same at the same time
                return ""
            raise WriteError("changed while it was being migrated; not written")
        # Root may write anything, but who makes a file read-only means it.
        if not found.st_mode & 0o222 or not os.access(real, os.W_OK):
            raise WriteError("is read-only; not written")
        temporary = _temporary(real, new, 0o600, lambda handle: _take_over(handle, real, found))
        try:
            if keep:
                copy, made = _keep(real, old, found)
            os.replace(temporary, real)
        except BaseException:
            os.unlink(temporary)
            if made:
                os.unlink(copy)
            raise
    except OSError as error:
        raise WriteError(f"cannot be written: {error.strerror}; it is unchanged") from error
    _sync_folder(real)
    return copy


def create(path: str, data: bytes, like: str = "", keep: bool = False) -> str:
    """Write `data` to `path`, over what is there, with the mode of the file `like`; folders are made.

    Devices, pipes, sockets and open file descriptors such as `/dev/stdout` are written in place.

    Args:
        path: where it goes.
        data: what must be written.
        like: a file whose mode it has.
        keep: if the existing file differs, keep a copy of it next to the new file.

    Returns:
        Where that is kept, or an empty string.

    Raises:
        WriteError: it cannot be written.
    """
    try:
        folder = os.path.dirname(path)
        if folder:
            os.makedirs(folder, exist_ok=True)
        if os.path.isdir(path):
            raise WriteError("cannot be written: a folder has this name")
        if is_special(path):
            write_special(path, data)
            return ""
        real = os.path.realpath(path)
        mode = os.stat(like).st_mode & 0o777 if like else 0o666
        with _uninterrupted():
            copy = _kept_before(real, data) if keep else ""
            _create(real, data, mode)
    except OSError as error:
        raise WriteError(f"cannot be written: {error.strerror}") from error
    _sync_folder(real)
    return copy


def _kept_before(real: str, data: bytes) -> str:
    """Keep the file at `real` unless it is absent, equal to `data`, or restorable by git; return the copy's path."""
    from .git import can_restore

    try:
        old, _ = read(real)
    except ReadError:
        return ""
    if old == data or can_restore(real, old):
        return ""
    return _keep(real, old, os.stat(real))[0]


def _create(real: str, data: bytes, mode: int) -> None:
    temporary = _temporary(real, data, mode)
    try:
        os.replace(temporary, real)
    except BaseException:
        os.unlink(temporary)
        raise


def _temporary(
    real: str, data: bytes, mode: int, finish: Callable[[int], None] | None = None
) -> str:
    """A new file beside `real` that holds `data` safely on the disk."""
    path = os.path.join(os.path.dirname(real), f".xla-migrate-{os.getpid():x}.tmp")
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _BINARY, mode)
    try:
        try:
            _write_all(handle, data)
            if finish is not None:
                finish(handle)
            os.fsync(handle)
        finally:
            os.close(handle)
    except BaseException:
        os.unlink(path)
        raise
    return path


def _write_all(handle: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(handle, view) :]


def _take_over(handle: int, real: str, found: os.stat_result) -> None:
    """Give the new file the owner, attributes and mode of the old one, as far as this user may."""
    if hasattr(os, "fchown"):
        for owner, group in ((found.st_uid, -1), (-1, found.st_gid)):
            try:
                os.fchown(handle, owner, group)
            except OSError:
                continue
    if hasattr(os, "listxattr"):
        try:
            for name in os.listxattr(real):
                os.setxattr(handle, name, os.getxattr(real, name))
        except OSError:
            pass  # a file system without them, or an attribute that only the system sets
    if hasattr(os, "fchmod"):
        os.fchmod(handle, found.st_mode & 0o7777)


def _keep(real: str, old: bytes, found: os.stat_result) -> tuple[str, bool]:
    """A copy of the original beside it: its path, and whether it was made now.

    Names that are taken are passed over, unless that copy is of the same bytes: a later run adds none.
    """
    for path in _copy_names(real):
        try:
            if found.st_nlink == 1:
                _link(real, path, old)
            else:  # another name could still change what a link would show
                _copy(path, old, found)
            return path, True
        except FileExistsError:
            if _holds(path, old):
                return path, False
    raise AssertionError("unreachable: names do not end")


def _copy_names(real: str) -> Iterator[str]:
    yield real + ".orig"
    number = 1
    while True:
        yield f"{real}.orig{number}"
        number += 1


def _link(real: str, path: str, old: bytes) -> None:
    """A second name for the original: it costs no space, and is the very file."""
    try:
        os.link(real, path)
    except FileExistsError:
        raise
    except OSError:  # a file system without links
        _copy(path, old, os.stat(real))


def _copy(path: str, old: bytes, found: os.stat_result) -> None:
    handle = os.open(
        path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _BINARY, found.st_mode & 0o777 | 0o200
    )
    try:
        try:
            _write_all(handle, old)
            os.fsync(handle)
        finally:
            os.close(handle)
    except BaseException:
        os.unlink(path)
        raise


def _holds(path: str, data: bytes) -> bool:
    try:
        return read(path)[0] == data
    except ReadError:
        return False


def _sync_folder(real: str) -> None:
    """The new name too is on the disk before we say that it is."""
    try:
        handle = os.open(os.path.dirname(real), os.O_RDONLY)
    except OSError:  # Windows opens no folders
        return
    try:
        os.fsync(handle)
    except OSError:
        pass
    finally:
        os.close(handle)
