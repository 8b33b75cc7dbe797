"""The other modules of a file's project, read when the analysis needs them.

A project is what lies below the nearest folder with `.git`, `pyproject.toml`, `setup.py` or `setup.cfg`; without one,
below the folder that the command was given. The folder around a named file, if none of these marks a project,
is searched for at most `MOST` Python files, because it can be a whole home directory.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from functools import cached_property

from . import vendored
from .cache import trusted
from .read import MAX_SOURCE, ReadError, State, read, state_of

try:
    from _blake2 import blake2b  # see `cache`
except ImportError:
    from hashlib import blake2b

TYPE_CHECKING = False
if TYPE_CHECKING:
    from xla_codemods.analysis.projects.project import Modules, Project

    from .find import FoundFile

MOST = 2000
# Other files that the analysis may read: settings, which are small.
BESIDE = (".json",)
MOST_BESIDE = 1 << 16  # bytes
_MARKS = (".git", "pyproject.toml", "setup.py", "setup.cfg")
_SKIPPED = frozenset(
    {"__pycache__", "build", "dist", "node_modules", "site-packages", "venv", "wandb"}
)


class Files(Mapping[str, bytes]):
    """The Python files below the folder `root`, by path from there with `/`; with `endings` others, of `most` bytes.

    Modules are listed with their states on first use, and each is read on demand. An unreadable module
    is empty. If `is_bounded`, a folder with more than `MOST` modules has none.
    """

    def __init__(
        self,
        root: str,
        endings: tuple[str, ...] = (".py",),
        most: int = MAX_SOURCE,
        *,
        is_bounded: bool = False,
    ) -> None:
        self.root = root
        self.is_bounded = is_bounded
        self._endings = endings
        self._most = most

    @cached_property
    def states(self) -> dict[str, State]:
        return _list(self.root, self._endings, self._most, MOST if self.is_bounded else sys.maxsize)

    def __getitem__(self, path: str) -> bytes:
        if path not in self.states:
            raise KeyError(path)
        try:
            return read(os.path.join(self.root, path))[0]
        except ReadError:
            return b""

    def __contains__(self, path: object) -> bool:
        return path in self.states

    def __iter__(self) -> Iterator[str]:
        return iter(self.states)

    def __len__(self) -> int:
        return len(self.states)

    @cached_property
    def fingerprint(self) -> bytes:
        """A hash of all states, which changes when any file does; empty where one of them cannot be trusted."""
        if any(trusted(state) is None for state in self.states.values()):
            return b""
        listed = repr((self.root, sorted(self.states.items())))
        return blake2b(listed.encode(errors="surrogatepass"), digest_size=16).digest()


class Projects:
    """The projects of one run's files. What is found out is kept: files that change meanwhile are not seen to."""

    def __init__(self) -> None:
        self._roots: dict[tuple[str, str], str] = {}
        self._files: dict[str, Files] = {}
        self._beside: dict[str, Files] = {}
        self._modules: dict[str, Modules] = {}

    def of(self, found: FoundFile) -> Project | None:
        """Return the file's project, or None if the file is neither Python nor a notebook."""
        if not found.path.endswith((".py", ".ipynb")):
            return None
        from xla_codemods.analysis.projects.project import Modules, Project

        files = self._files_of(found)
        modules = self._modules.get(files.root)
        if modules is None:
            modules = self._modules[files.root] = Modules(files, self._extra_files_of(files))
        return Project(modules, _within(found.path, files.root))

    def fingerprint(self, found: FoundFile, with_others: bool = False) -> bytes:
        """Return the fingerprint of the file's project; with `with_others`, also of files that are not Python."""
        files = self._files_of(found)
        if not with_others:
            return files.fingerprint
        both = files.fingerprint, self._extra_files_of(files).fingerprint
        return b"".join(both) if all(both) else b""

    def is_as_it_was(self, found: FoundFile, fingerprint: bytes) -> bool:
        """True if the file's project has this fingerprint, of either kind."""
        return fingerprint == self.fingerprint(found) or fingerprint == self.fingerprint(
            found, True
        )

    def _extra_files_of(self, files: Files) -> Files:
        root = files.root
        if root not in self._beside:
            self._beside[root] = Files(root, BESIDE, MOST_BESIDE, is_bounded=files.is_bounded)
        return self._beside[root]

    def _files_of(self, found: FoundFile) -> Files:
        folder = os.path.dirname(found.path)
        root = self._roots.get((folder, found.base))
        if root is None:
            root = self._roots[folder, found.base] = _root(folder, found.base)
        files = self._files.get(root)
        if files is None:
            is_bounded = found.named and not _is_marked(root)
            files = self._files[root] = Files(root, is_bounded=is_bounded)
        return files


def _root(folder: str, base: str) -> str:
    current = folder
    while not _is_marked(current):
        above = os.path.dirname(current)
        if above == current:
            return base
        current = above
    return current


def _is_marked(folder: str) -> bool:
    return any(os.path.exists(os.path.join(folder, mark)) for mark in _MARKS)


def _list(root: str, endings: tuple[str, ...], most: int, most_files: int) -> dict[str, State]:
    states: dict[str, State] = {}
    stack = [root]
    visited = 0
    while stack:
        folder = stack.pop()
        visited += 1
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    if entry.name.endswith(endings):
                        if not entry.is_file(follow_symlinks=False):
                            continue
                        state = state_of(entry.stat(follow_symlinks=False))
                        if state[2] <= most:
                            states[_within(entry.path, root)] = state
                    elif entry.is_dir(follow_symlinks=False) and not _is_skipped(entry):
                        stack.append(entry.path)
        except OSError:
            continue
        if len(states) > most_files or visited > most_files:
            return {}
    return states


def _is_skipped(entry: os.DirEntry[str]) -> bool:
    return (
        entry.name in _SKIPPED
        or entry.name.startswith(".")
        or os.path.exists(os.path.join(entry.path, "pyvenv.cfg"))
        or (entry.name == vendored.NAME and vendored.is_ours(entry.path))
    )


def _within(path: str, root: str) -> str:
    """The way from `root` to `path`, which lies below it."""
    inside = path[len(root) :].lstrip(os.sep)
    return inside if os.sep == "/" else inside.replace(os.sep, "/")
