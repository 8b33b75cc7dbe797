"""Find the original of a project that was migrated in place: copies next to the files, git, or a folder."""

from __future__ import annotations

import filecmp
import os
import re
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ...files.launch_names import may_launch
from .imported import modules
from .workspace import LARGE_FILE, SKIPPED

# A file that imports the runtime, or the copy of it that `--style native` writes.
_IMPORTS = re.compile(
    rb"""^\s*(?:from\s+(?:xla_migrate|xla_runtime)\b|import\s+(?:xla_migrate|xla_runtime)\b)"""
    rb"""|["']\s*(?:from|import)\s+xla_(?:migrate|runtime)\b""",
    re.MULTILINE,
)
_RUNTIME_COPY = "xla_runtime"
_MOST_VERSIONS = 200  # of one file in git that are looked at


class NoOriginalError(Exception):
    """The original was not found: one line that says what to type."""


@dataclass
class Originals:
    """The project as it was before the migration.

    Attributes:
        version: the source, for the report: "train.py.orig", "git 1a2b3c4d".
        files: contents by path in the project, of files that are different now. None: the file did not exist.
    """

    version: str
    files: dict[str, bytes | None] = field(default_factory=dict)


def is_migrated(data: bytes) -> bool:
    """Return True if a Python file or notebook imports the runtime."""
    return _IMPORTS.search(data) is not None


def find(script: Path, project: Path, against: str = "") -> Originals | None:
    """Return the original of a project that was migrated in place, or None if nothing that the script imports was migrated.

    Args:
        script: the script that is run.
        project: its folder.
        against: a revision of git or a folder with the original; "" to look for `.orig` copies, then in git.

    Raises:
        NoOriginalError: there is none, or what was found there is migrated too.
    """
    name = os.path.relpath(script.resolve(), project)
    if against:
        found = _chosen(project, name, against)
        if is_migrated(found.files.get(name) or script.read_bytes()):
            raise NoOriginalError(
                f"{against}: {name} is migrated there too: choose an earlier version"
            )
        return found
    migrated = migrated_modules(script, project)
    return _looked_for(project, name, migrated) if migrated else None


def migrated_modules(script: Path, project: Path) -> list[str]:
    """Return the paths in the project of the migrated files among the script and the modules that it imports."""
    files = [file for file in modules(script, project) if is_migrated(file.read_bytes())]
    return sorted(os.path.relpath(file, project.resolve()) for file in files)


def sources(project: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the path in the project and the content of each Python file and notebook."""
    for name in _files(project):
        if name.endswith((".py", ".ipynb")):
            yield name, (project / name).read_bytes()


def differing(folder: Path, project: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the path and the content of each file of a folder that the project lacks or has with other content."""
    for name in _files(folder):
        other = project / name
        if not other.is_file() or not filecmp.cmp(folder / name, other, shallow=False):
            yield name, (folder / name).read_bytes()


def _files(project: Path) -> Iterator[str]:
    """Yield the paths in the project of its files, without large ones."""
    for folder, folders, names in os.walk(project):
        folders[:] = [
            each
            for each in folders
            if each not in SKIPPED
            and each != _RUNTIME_COPY
            and not os.path.exists(os.path.join(folder, each, "pyvenv.cfg"))
        ]
        for each in sorted(names):
            path = os.path.join(folder, each)
            if os.path.isfile(path) and os.path.getsize(path) <= LARGE_FILE:
                yield os.path.relpath(path, project)


def _looked_for(project: Path, script: str, migrated: list[str]) -> Originals | None:
    copies = {name: data for name in migrated if (data := _copy_of(project / name)) is not None}
    if copies:
        copies |= _launch_copies(project)
    git = _Git.of(project)
    others = [name for name in migrated if name not in copies]
    revision = git.before_migration(others) if git is not None and others else ""
    files: dict[str, bytes | None] = {}
    if git is not None and revision:
        files |= git.changed_since(revision)
    files |= copies
    without = [name for name in others if name not in files]
    if script in without or (without and _are_needed(without, files)):
        raise NoOriginalError(_advice(script if script in without else without[0], script))
    if not files:
        return None
    unchanged = [] if revision else _without_original(project, script, files)
    return Originals(_version(script, copies, revision, unchanged), files)


def _without_original(project: Path, script: str, files: Mapping[str, bytes | None]) -> list[str]:
    """Return the modules that the script imports and both sides load as they are now."""
    used = (os.path.relpath(m, project.resolve()) for m in modules(project / script, project))
    return sorted(name for name in used if name not in files)


def _version(
    script: str, copies: Mapping[str, bytes], revision: str, unchanged: Sequence[str]
) -> str:
    shown = [f"{name}.orig" for name in sorted(copies, key=lambda name: name != script)]
    parts = shown if len(shown) < 3 else [shown[0], f"{len(shown) - 1} more .orig files"]
    if revision:
        parts.append(f"git {revision[:8]}")
    if len(unchanged) == 1:
        parts.append(f"{unchanged[0]} as it is now")
    elif unchanged:
        parts.append(f"{len(unchanged)} other modules as they are now")
    return ", ".join(parts)


def _advice(name: str, script: str) -> str:
    return (
        f"{name} is migrated, and its original was not found (no {name}.orig, no earlier version in git): "
        f"run `xla-migrate verify {script} --against REV` or `--against FOLDER`"
    )


def _are_needed(names: Iterable[str], originals: Mapping[str, bytes | None]) -> bool:
    """Return True if an original imports one of the modules, which then cannot be new."""
    texts = [data for data in originals.values() if data]
    words = [re.compile(rb"\b" + Path(name).stem.encode() + rb"\b") for name in names]
    return any(word.search(text) for word in words for text in texts)


def _copy_of(path: Path) -> bytes | None:
    copy = path.with_name(f"{path.name}.orig")
    data = copy.read_bytes() if copy.is_file() else None
    return None if data is None or is_migrated(data) else data


def _launch_copies(project: Path) -> dict[str, bytes]:
    """Return the launch files that the migration has rewritten too, such as a YAML file that the script reads."""
    names = [name.removesuffix(".orig") for name in _files(project) if name.endswith(".orig")]
    return {
        name: (project / f"{name}.orig").read_bytes()
        for name in names
        if may_launch(os.path.basename(name)) and (project / name).is_file()
    }


def _chosen(project: Path, script: str, against: str) -> Originals:
    folder = Path(against)
    if folder.is_dir():
        files = _of_folder(folder, project, script)
        return Originals(str(folder), files)
    git = _Git.of(project)
    revision = git.resolve(against) if git is not None else ""
    if git is None or not revision:
        raise NoOriginalError(f"--against {against}: neither a folder nor a revision of git")
    files = git.changed_since(revision)
    if script not in files and not git.has(revision, script):
        raise NoOriginalError(f"--against {against}: {script} does not exist there")
    return Originals(f"git {revision[:8]} ({against})", files)


def _of_folder(folder: Path, project: Path, script: str) -> dict[str, bytes | None]:
    """The files of a folder with the original, which stands for the project or for the script's own folder."""
    below = Path(script).parent
    root = "" if (folder / script).is_file() else str(below)
    if not (folder / os.path.relpath(script, root or ".")).is_file():
        raise NoOriginalError(f"--against {folder}: {Path(script).name} does not exist there")
    return {
        os.path.normpath(os.path.join(root, name)): data
        for name, data in differing(folder, project / root)
    }


@dataclass(frozen=True)
class _Git:
    """The repository that a project lies in.

    Attributes:
        root: of the working tree.
        project: the folder of the project.
    """

    root: Path
    project: Path

    @classmethod
    def of(cls, project: Path) -> _Git | None:
        """Return the repository, or None if there is no git, or nothing was committed."""
        found = _git(project, "rev-parse", "--show-toplevel")
        if found is None or _git(project, "rev-parse", "--verify", "-q", "HEAD") is None:
            return None
        return cls(Path(found.decode().strip()), project)

    def resolve(self, revision: str) -> str:
        """Return the full name of a commit, or ""."""
        found = _git(self.project, "rev-parse", "--verify", "-q", f"{revision}^{{commit}}")
        return found.decode().strip() if found is not None else ""

    def has(self, revision: str, name: str) -> bool:
        """Return True if the file exists in the commit."""
        return self._content(revision, name) is not None

    def before_migration(self, names: Iterable[str]) -> str:
        """Return the last commit in which none of the files was migrated; "" if there is none."""
        revisions = [found for name in names if (found := self._last_original(name))]
        if not revisions:
            return ""
        order = _git(self.project, "rev-list", "HEAD") or b""
        place = {each: number for number, each in enumerate(order.decode().split())}
        return max(revisions, key=lambda each: place.get(each, len(place)))

    def _last_original(self, name: str) -> str:
        """Return the newest commit whose version of the file is not migrated; "" if there is none."""
        head = self._content("HEAD", name)
        if head is not None and not is_migrated(head):
            return self.resolve("HEAD")
        command = ("log", "--format=%H", f"-n{_MOST_VERSIONS}", "--", name)
        for revision in (_git(self.project, *command) or b"").decode().split():
            content = self._content(revision, name)
            if content is not None and not is_migrated(content):
                return self._newest_with(revision, name)
        return ""

    def _newest_with(self, revision: str, name: str) -> str:
        """Return the last commit before the file's next version, so that the other files match its time."""
        command = ("log", "--format=%H", "--reverse", f"{revision}..HEAD", "--", name)
        later = (_git(self.project, *command) or b"").decode().split()
        parent = self.resolve(f"{later[0]}^") if later else ""
        return parent or revision

    def _content(self, revision: str, name: str) -> bytes | None:
        return _git(self.project, "show", f"{revision}:./{name}")

    def changed_since(self, revision: str) -> dict[str, bytes | None]:
        """Return the files of the project, as they were in the commit, that are different in the working tree."""
        command = ("diff", "--name-only", "--no-renames", "-z", "--relative", revision, "--", ".")
        names = (_git(self.project, *command) or b"").decode(errors="surrogateescape").split("\0")
        out: dict[str, bytes | None] = {}
        for name in filter(None, names):
            content = self._content(revision, name)
            if content is None or len(content) <= LARGE_FILE:
                out[name] = content
        return out


def _git(folder: Path, *words: str) -> bytes | None:
    """Return what git prints, or None if it fails or is not installed."""
    command = ["git", "-C", str(folder), "--literal-pathspecs", *words]
    try:
        done = subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL, check=False)
    except OSError:
        return None
    return done.stdout if done.returncode == 0 else None
