"""A copy of the project for a run, so that the original tree is never written.

Code and small files are copied; large files and large folders of data are linked. What is linked is
guarded in the run's processes (`observe.process.guard`): a linked file that the script opens for writing becomes
a copy first, a linked folder refuses.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

LARGE_FILE = 16 << 20
LARGE_FOLDER = 64 << 20
MANY_FILES = 2_000
MOST_ENTRIES = 200_000

SKIPPED = {
    ".git",
    ".hg",
    ".svn",
    "__pycache__",
    "node_modules",
    ".mypy_cache",
    ".pytest_cache",
    ".ruff_cache",
    ".tox",
    ".nox",
    ".ipynb_checkpoints",
    ".xla_migrate_cache",
}


class WorkspaceError(Exception):
    """The project cannot be copied; the message says why and what to do."""


def project_of(script: Path, cwd: Path | None) -> Path:
    """The folder to copy: the working folder where the script lies in it, else the script's own.

    The home folder, the root and the folder for temporary files hold more than one project.
    """
    folder = (cwd or Path.cwd()).resolve()
    inside = folder in script.resolve().parents
    everyones = (Path.home(), Path(folder.anchor), Path(tempfile.gettempdir()).resolve())
    return folder if inside and folder not in everyones else script.resolve().parent


def copy(project: Path, into: Path, replaced: Mapping[str, str | bytes] | None = None) -> None:
    """Copy `project` to the new folder `into`, with some files' contents replaced.

    Args:
        project: the original; it is only read.
        into: must not exist.
        replaced: new contents by path relative to the project (the migrated files).

    Raises:
        WorkspaceError: the folder is too large to be a project.
    """
    sizes = _sizes(project)
    _mirror(project, into, sizes)
    for name, content in (replaced or {}).items():
        target = into / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.unlink(missing_ok=True)
        target.write_bytes(content if isinstance(content, bytes) else content.encode())


def mark(folder: Path) -> None:
    """Make a folder for runs, which is no part of the project that it may lie in."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / _OF_RUNS).touch()


def _skipped(entry: os.DirEntry[str]) -> bool:
    inside = ("pyvenv.cfg", _OF_RUNS)
    return entry.name in SKIPPED or any(os.path.exists(f"{entry.path}/{name}") for name in inside)


_OF_RUNS = ".xla-migrate-runs"


def _sizes(project: Path) -> dict[str, tuple[int, int, bool]]:
    """Folder -> (bytes, files, has Python files), everything below it included."""
    totals: dict[str, tuple[int, int, bool]] = {}
    seen = 0

    def measure(folder: str) -> tuple[int, int, bool]:
        nonlocal seen
        size = files = 0
        code = False
        for entry in os.scandir(folder):
            seen += 1
            if seen > MOST_ENTRIES:
                raise WorkspaceError(
                    f"{project} contains more than {MOST_ENTRIES:,} files: too much to copy for a "
                    "run; run from the script's own project folder"
                )
            if entry.is_dir(follow_symlinks=False):
                if not _skipped(entry):
                    below = measure(entry.path)
                    size, files, code = size + below[0], files + below[1], code or below[2]
            else:
                files += 1
                code = code or entry.name.endswith(".py")
                if entry.is_file(follow_symlinks=False):
                    size += entry.stat(follow_symlinks=False).st_size
        totals[folder] = (size, files, code)
        return totals[folder]

    measure(str(project))
    return totals


def _mirror(source: Path, target: Path, sizes: Mapping[str, tuple[int, int, bool]]) -> None:
    target.mkdir(parents=True)
    for entry in os.scandir(source):
        to = target / entry.name
        if entry.is_symlink():
            to.symlink_to(os.path.realpath(entry.path))
        elif entry.is_dir():
            if _skipped(entry):
                continue
            size, files, code = sizes[entry.path]
            if not code and (size > LARGE_FOLDER or files > MANY_FILES):
                to.symlink_to(os.path.abspath(entry.path))
            else:
                _mirror(Path(entry.path), to, sizes)
        elif entry.is_file():
            if entry.stat().st_size > LARGE_FILE:
                to.symlink_to(os.path.abspath(entry.path))
            else:
                shutil.copy2(entry.path, to)
