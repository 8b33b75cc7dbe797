"""Read a whole file, if it is a regular file small enough to be source code."""

from __future__ import annotations

import os
import stat

# The largest source that is judged. Beyond it stand generated tables; analysing one takes gigabytes.
MAX_SOURCE = 8 << 20
# Notebooks carry their pictures with them.
MAX_NOTEBOOK = 256 << 20


class ReadError(Exception):
    """A file that was not read, with the reason in one line."""


# What changes when a file does: its times of change in nanoseconds, its size and its inode.
State = tuple[int, int, int, int]


def state_of(found: os.stat_result) -> State:
    """The state that `os.stat` tells."""
    return (found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino)


def read(path: str, is_notebook: bool = False) -> tuple[bytes, State]:
    """The bytes of the file at `path`, and its state when they were read.

    Raises:
        ReadError: it is no regular file, too large, unreadable, or gone.
    """
    try:
        # Without O_NONBLOCK, opening a pipe that has taken the file's place would never return.
        handle = os.open(path, os.O_RDONLY | _NONBLOCK)
        try:
            found = os.fstat(handle)
            if not stat.S_ISREG(found.st_mode):
                raise ReadError("is not a regular file")
            limit = MAX_NOTEBOOK if is_notebook else MAX_SOURCE
            if found.st_size > limit:
                raise ReadError(
                    f"is {found.st_size >> 20} MiB large; files beyond {limit >> 20} MiB are not analysed: exclude it"
                )
            data = os.read(handle, found.st_size + 1)
            while len(data) != found.st_size:  # read in pieces, or growing
                more = os.read(handle, limit)
                if not more:
                    break
                data += more
        finally:
            os.close(handle)
    except (OSError, ValueError) as error:
        raise ReadError(getattr(error, "strerror", None) or str(error)) from error
    return data, state_of(found)


_NONBLOCK = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
