"""Files that are not regular: devices, pipes, sockets and open file descriptors. They are written in place.

A rename over such a file would replace it: `--output-file /dev/null`, run as root, would turn the device into a
regular file for every program of the machine.
"""

from __future__ import annotations

import os
import re
import stat
import sys

_DESCRIPTOR = re.compile(r"/(?:dev|proc/(?:self|thread-self|\d+))/fd/(\d+)")
_FOLDERS = ("/dev/", "/proc/")


def is_special(path: str) -> bool:
    """Return True if `path`, or the file that it links to, must not be replaced by a new file."""
    if _descriptor(path) is not None:
        return True
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return os.path.abspath(path).startswith(_FOLDERS)
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def write_special(path: str, data: bytes) -> None:
    """Write `data` to a file for which `is_special` is True.

    Raises:
        OSError: the file cannot be written, or its reader has closed it.
    """
    descriptor = _descriptor(path)
    if descriptor is not None:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        handle = os.dup(descriptor)
    else:
        handle = os.open(path, os.O_WRONLY | getattr(os, "O_CLOEXEC", 0))
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(handle, view) :]
    finally:
        os.close(handle)


def _descriptor(path: str) -> int | None:
    """Return N if `path` is `/dev/fd/N`, `/dev/stdout` or a link to one of them, and N is open in this process."""
    seen: set[str] = set()
    path = os.path.abspath(path)
    while path not in seen:
        seen.add(path)
        found = _DESCRIPTOR.fullmatch(path)
        if found and _is_of_this_process(path):
            return int(found.group(1))
        if not os.path.islink(path):
            return None
        path = os.path.join(os.path.dirname(path), os.readlink(path))
        path = os.path.normpath(path)
    return None


def _is_of_this_process(path: str) -> bool:
    owner = path.split("/")[2]
    return not owner.isdigit() or int(owner) == os.getpid()
