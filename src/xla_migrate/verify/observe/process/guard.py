"""Keeps the run's processes from writing into the original project.

Python announces every `open`, `mkdir`, `remove` and the like to audit hooks before it happens.
`torch.save` to a path writes from C++ without an audit event, so it is checked separately.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from typing import Any

_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_CHANGES = (
    "os.mkdir",
    "os.remove",
    "os.rename",
    "os.rmdir",
    "os.truncate",
    "os.link",
    "os.symlink",
)


def install(original: str, copy: str) -> None:
    """Guard the folder `original`; the run works in `copy`."""
    protected = os.path.realpath(original) + os.sep
    inside = _runs_folder(os.path.realpath(copy)) + os.sep  # may lie in the project itself

    def ours(path: Any) -> str | None:
        """The real path, where it lies in the original."""
        try:
            real = os.path.realpath(os.fsdecode(path)) if not isinstance(path, int) else ""
        except (TypeError, ValueError):
            return None
        return (
            real if (real + os.sep).startswith(protected) and not real.startswith(inside) else None
        )

    def check(event: str, args: tuple[Any, ...]) -> None:
        if event == "open":
            path, mode, flags = args
            if (isinstance(mode, str) and set(mode) & set("wax+")) or (flags or 0) & _WRITES:
                write(path, ours, truncates=isinstance(mode, str) and "w" in mode)
        elif event in _CHANGES and not (args and isinstance(args[0], int)):  # an open file
            # A link itself may go; what it leads to may not.
            folder = os.path.dirname(os.path.abspath(os.fsdecode(args[0]))) if args else ""
            if ours(folder):
                raise PermissionError(
                    _message(os.path.join(folder, os.path.basename(str(args[0]))))
                )

    sys.addaudithook(check)
    global before_writing
    before_writing = lambda path: write(path, ours, truncates=True)  # noqa: E731


def _runs_folder(copy: str) -> str:
    """The outermost folder above the copy that was made for runs, or the copy itself."""
    found, folder = copy, os.path.dirname(copy)
    while os.path.exists(os.path.join(folder, ".xla-migrate-runs")):
        found, folder = folder, os.path.dirname(folder)
    return found


def _nothing(path: Any) -> None:
    """Without a guard."""


before_writing: Callable[[Any], None] = _nothing


def _message(path: str) -> str:
    return (
        f"{path}: the verified run must not write into the original project; large folders are linked"
        " from there. Let the script write to another folder, or move the large data out of this folder"
    )


def write(path: Any, ours: Callable[[Any], str | None], *, truncates: bool) -> None:
    """The script is about to open `path` for writing: a linked file becomes its own first."""
    real = ours(path)
    if real is None:
        return
    name = os.fsdecode(path)
    if os.path.islink(name) and not ours(os.path.dirname(os.path.abspath(name))):
        os.unlink(name)
        if not truncates:
            shutil.copyfile(real, name)
        return
    raise PermissionError(_message(name))
