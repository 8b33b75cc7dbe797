"""Find the current line of the user's code."""

from __future__ import annotations

import os
import sys
from functools import cache
from pathlib import Path
from types import FrameType

_HARNESS = str(Path(__file__).parents[2])
_project: tuple[str, ...] = ()
_NEVER = ("/site-packages/torch/", "/dist-packages/torch/", _HARNESS, "<frozen", "<string>")


def set_project(folder: str) -> None:
    """The folder whose files are the user's."""
    global _project
    _project = (folder.rstrip("/") + "/",)
    within_project.cache_clear()


def is_in_project(file: str) -> bool:
    """Return True for a file of the user's project."""
    return bool(within_project(file))


@cache
def within_project(file: str) -> str:
    """Return the path of a file of the user's project, relative to the project; "" for other files.

    A module that `sys.path.append("tools/../lib")` finds has a path with `..`.
    """
    path = os.path.normpath(file) if "/.." in file else file
    if not path.startswith(_project) or "site-packages" in path:
        return ""
    return path[len(_project[0]) :]


def in_project(file: str) -> str:
    """Return the path of a file that is given relative to the project."""
    return "".join(_project) + file


def caller() -> str:
    """`file:line` of the innermost frame in the user's project (relative to it).

    Where no frame is the project's (a thread of a library), the innermost one outside torch and the
    harness.
    """
    fallback = ""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        if inside := within_project(name):
            return f"{inside}:{frame.f_lineno}"
        if not fallback and not any(part in name for part in _NEVER):
            fallback = f"{name}:{frame.f_lineno}"
        frame = frame.f_back
    return fallback


def importer() -> FrameType | None:
    """Return the frame of the code that imports something; None if it only asks whether there is a package."""
    frame, only_asks = _outside_importlib(sys._getframe(1))
    return None if only_asks else frame


def is_asked_in_project() -> bool:
    """Return True if the user's code asks whether there is a package: `importlib.util.find_spec("apex")`."""
    frame, only_asks = _outside_importlib(sys._getframe(1))
    return only_asks and frame is not None and is_in_project(frame.f_code.co_filename)


def _outside_importlib(frame: FrameType | None) -> tuple[FrameType | None, bool]:
    """Return the innermost frame outside importlib and the harness, and whether it only asks for a package."""
    only_asks = False
    while frame is not None:
        name = frame.f_code.co_filename
        if name.endswith(("importlib/util.py", "importlib.util>")):  # the second where frozen
            only_asks = True
        elif "importlib" not in name and not name.startswith(_HARNESS):
            break
        frame = frame.f_back
    return frame, only_asks


def stack() -> tuple[str, ...]:
    """All `file:line` of the user's project that led here, the innermost first."""
    found = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if inside := within_project(frame.f_code.co_filename):
            found.append(f"{inside}:{frame.f_lineno}")
        frame = frame.f_back
    return tuple(found)


def loaded() -> list[str]:
    """The files of the user's project that this process has imported, or runs, relative to it."""
    found = set()
    for module in list(sys.modules.values()):
        name = getattr(module, "__file__", None) or ""
        if isinstance(name, str) and (inside := within_project(name)):
            found.add(inside)
    return sorted(found)
