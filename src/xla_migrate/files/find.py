"""Find the files of a run: the files on the command line, and the files in the folders given there.

A file given by name is always taken, whatever its name. A folder contributes its `.py` and `.ipynb` files and
possible launch files, without the ones excluded by `.gitignore` or settings. Links in folders are not
followed: their targets are found at their own path, so a walk ends, stays inside, and takes nothing twice.
"""

from __future__ import annotations

import os
import stat

from ..settings import NAME, Finder, Settings
from . import vendored
from .ignore import Patterns
from .launch_names import may_launch, says_something

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

ENDINGS = (".py", ".ipynb")

# A folder's .gitignore files that are in force, innermost first: length of the path in front, patterns.
_Levels = tuple[tuple[int, Patterns], ...]


class FoundFile:
    """One file: `path` to open it, `shown` to the user, its settings, and whether the user named it."""

    __slots__ = ("base", "named", "path", "settings", "shown")

    def __init__(self, path: str, shown: str, settings: Settings, named: bool, base: str) -> None:
        self.path = path
        self.shown = shown
        self.settings = settings
        self.named = named
        self.base = base  # the folder on the command line that contains it; for a file given by name, its folder


class Walk:
    """Collects files; what could not be looked at is in `problems`, as (shown path, reason).

    Args:
        finder: gives each folder its settings.
        force_exclude: leave out named files too that the settings exclude or that need no analysis.
        without: absolute path of a folder that is not entered (where the output goes).
        endings: of the files that folders give; empty: all files.
    """

    def __init__(
        self,
        finder: Finder,
        force_exclude: bool = False,
        without: str = "",
        endings: tuple[str, ...] = ENDINGS,
    ) -> None:
        self.endings = endings
        self.finder = finder
        self.force_exclude = force_exclude
        self.without = without
        self.problems: list[tuple[str, str]] = []
        self._here = os.getcwd()
        self._seen: set[str] = set()

    def files(self, paths: Iterable[str]) -> list[FoundFile]:
        """The files of `paths`, each once, sorted by the path that is shown.

        Raises:
            SettingsError: settings of one of them cannot be used.
        """
        found: list[FoundFile] = []
        for path in paths:
            found += self._named(path)
        found.sort(key=lambda file: file.shown)
        return found

    def _named(self, path: str) -> Iterator[FoundFile]:
        absolute = os.path.normpath(os.path.join(self._here, path))
        try:
            mode = os.stat(absolute).st_mode
        except (OSError, ValueError) as error:
            self.problems.append((path, getattr(error, "strerror", None) or str(error)))
            return
        if stat.S_ISDIR(mode):
            settings = self.finder.of(absolute)
            if self.force_exclude and settings.excludes_named(absolute, True):
                return
            yield from self._folder(absolute, settings, _levels_above(absolute), absolute)
            return
        if not stat.S_ISREG(mode):
            self.problems.append((path, f"is {_kind(mode)}, not a file"))
            return
        folder = os.path.dirname(absolute)
        settings = self.finder.of(folder)
        if self.force_exclude and not _is_analysed(absolute, settings):
            return
        if self._is_new(os.path.realpath(absolute)):
            yield FoundFile(absolute, shown(absolute, self._here), settings, True, folder)

    def _is_new(self, real: str) -> bool:
        if real in self._seen:
            return False
        self._seen.add(real)
        return True

    def _folder(
        self, folder: str, settings: Settings, levels: _Levels, base: str
    ) -> Iterator[FoundFile]:
        """The files in `folder` and below, without recursion: trees can be deep."""
        ends = self.endings
        stack = [(folder, settings, levels)]
        while stack:
            folder, settings, levels = stack.pop()
            try:
                with os.scandir(folder) as listing:
                    entries = list(listing)
            except OSError as error:
                self.problems.append((shown(folder, self._here), error.strerror or str(error)))
                continue
            names = {entry.name for entry in entries}
            settings = self.finder.below(folder, settings, NAME in names)
            levels = self._levels(folder, names, levels)
            for entry in entries:
                name = entry.name
                is_wanted = not ends or name.endswith(ends)
                launches = not is_wanted and settings.launch_files and may_launch(name)
                if (is_wanted or launches) and entry.is_file(follow_symlinks=False):
                    path = entry.path
                    wanted = self._wanted(path, False, settings, levels)
                    if wanted and (is_wanted or says_something(path)) and self._is_new(path):
                        yield FoundFile(path, shown(path, self._here), settings, False, base)
                elif entry.is_dir(follow_symlinks=False):
                    path = entry.path
                    if name == vendored.NAME and vendored.is_ours(path):
                        continue
                    if path != self.without and self._wanted(path, True, settings, levels):
                        stack.append((path, settings, levels))

    def _wanted(self, path: str, is_folder: bool, settings: Settings, levels: _Levels) -> bool:
        if settings.excludes(path, is_folder):
            return False
        for length, patterns in levels:
            decision = patterns.decide(_slashed(path[length:]), is_folder)
            if decision is not None:
                return not decision
        return True

    def _levels(self, folder: str, names: set[str], levels: _Levels) -> _Levels:
        """`levels` with the .gitignore of `folder`; another repository begins anew."""
        if ".git" in names:
            levels = _excluded_in(folder)
        if ".gitignore" in names:
            own = _level(folder, os.path.join(folder, ".gitignore"))
            levels = (*own, *levels)
        return levels


def _is_analysed(path: str, settings: Settings) -> bool:
    """True if the settings let the file be analysed, and it is Python, a notebook or a launch file."""
    if settings.excludes_named(path):
        return False
    name = os.path.basename(path)
    if name.endswith((*ENDINGS, ".pyw")):
        return True
    if may_launch(name):
        return settings.launch_files and says_something(path)
    return not os.path.splitext(name)[1] and _starts_python(path)


def _starts_python(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            line = file.readline(200)
    except OSError:
        return True  # to be reported
    return line.startswith(b"#!") and b"python" in line


def shown(path: str, here: str) -> str:
    """The absolute `path` as it is shown: relative where it lies below the folder `here`."""
    prefix = here if here.endswith(os.sep) else here + os.sep
    return path[len(prefix) :] if path.startswith(prefix) else path


def _levels_above(folder: str) -> _Levels:
    """Return the patterns of the folders above `folder`, up to the root of its repository, if it has one."""
    above = []
    current = folder
    while not os.path.exists(os.path.join(current, ".git")):
        parent = os.path.dirname(current)
        if parent == current:
            return ()
        current = parent
        above.append(current)
    levels: _Levels = _excluded_in(current)
    for place in reversed(above):
        levels = (*_level(place, os.path.join(place, ".gitignore")), *levels)
    return levels


def _excluded_in(root: str) -> _Levels:
    """A repository's own `info/exclude`."""
    return _level(root, os.path.join(root, ".git", "info", "exclude"))


def _level(folder: str, path: str) -> _Levels:
    try:
        with open(path, encoding="utf-8-sig", errors="surrogateescape", newline="\n") as file:
            patterns = Patterns(file)
    except (OSError, ValueError):
        return ()
    length = len(folder) if folder.endswith(os.sep) else len(folder) + 1
    return ((length, patterns),) if patterns else ()


def _slashed(path: str) -> str:
    return path if os.sep == "/" else path.replace(os.sep, "/")


def _kind(mode: int) -> str:
    if stat.S_ISFIFO(mode):
        return "a pipe"
    if stat.S_ISSOCK(mode):
        return "a socket"
    return "a device"
