"""The findings of an earlier run, so that an unchanged file is not read again.

One file per settings, in the user's cache folder: nothing is written into projects. It maps each path to the
file's state (times, size, inode), the hash of its content, and the verdict. The state is compared first,
then the hash. The name of the cache file is a hash of all else that a verdict depends on: the tool's version,
the sources of its rules, the Python version, the settings. A verdict in which other modules of the project had a say
carries their fingerprint, and is good while that is the same. A cache file that is damaged is as good as none.
"""

from __future__ import annotations

import marshal
import os
import sys
import time

from .. import __version__
from ..results import Diagnostic, FileVerdict
from .read import State

try:
    from _blake2 import blake2b  # hashlib is the same, but loads OpenSSL: 3 ms
except ImportError:
    from hashlib import blake2b

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_FORMAT = b"xla-migrate cache 3\n"
_DIGEST = 16
_HEX = frozenset("0123456789abcdef")
_MONTH = 30 * 24 * 3600
# The coarsest clock ticks of file systems (ns): of current ones, and of those that count whole seconds.
_GRAIN = 20_000_000
_COARSE_GRAIN = 2_000_000_000

# State (None: not to be trusted), hash of the content (empty: no trigger word in it), verdict.
_Entry = tuple["State | None", bytes, "tuple[Any, ...] | None"]


class Cache:
    """The verdicts on the files with the same settings. `is_new`: there was nothing to load."""

    def __init__(self, folder: str, key: tuple[object, ...]) -> None:
        self._path = os.path.join(
            folder, blake2b(repr(key).encode(), digest_size=_DIGEST).hexdigest()
        )
        self._entries = _load(self._path)
        self.is_new = self._entries is None
        self._known: dict[str, _Entry] = self._entries or {}
        self._seen: set[str] = set()
        self._changed = False

    def by_state(self, path: str, state: State, named: bool) -> FileVerdict | None:
        """The verdict on the file at `path`, if its state is the one it was judged in.

        That nothing in it concerns us says nothing of a file that is `named` and so looked at whole.
        """
        entry = self._known.get(path)
        if entry is None or (named and not entry[1]):
            return None
        self._seen.add(path)
        return _verdict(entry[2]) if entry[0] == state else None

    def by_content(self, path: str, digest: bytes) -> FileVerdict | None:
        """The verdict on the file at `path`, if its content has the hash it was judged with."""
        entry = self._known.get(path)
        return _verdict(entry[2]) if entry is not None and entry[1] == digest else None

    def put(self, path: str, state: State | None, digest: bytes, verdict: FileVerdict) -> None:
        """Remember the verdict on the content with this hash (empty: nothing in it concerns us).

        `state` is the file's `trusted` one.
        """
        if digest:
            self._put(path, (state, digest, _plain(verdict)))
        elif state is not None:
            self._put(path, (state, b"", None))

    def _put(self, path: str, entry: _Entry) -> None:
        self._seen.add(path)
        if self._known.get(path) != entry:
            self._known[path] = entry
            self._changed = True

    def save(self) -> None:
        """Write the cache if it has changed. A cache that cannot be written is ignored."""
        if not self._changed and not self.is_new:
            return
        if len(self._known) > 2 * len(self._seen) + 10_000:  # of files long gone, most likely
            self._known = {path: self._known[path] for path in self._seen if path in self._known}
        payload = marshal.dumps(self._known)
        data = _FORMAT + blake2b(payload, digest_size=_DIGEST).digest() + payload
        temporary = f"{self._path}.{os.getpid():x}"
        try:
            os.makedirs(os.path.dirname(self._path), mode=0o700, exist_ok=True)
            with open(temporary, "wb") as file:
                file.write(data)
            os.replace(temporary, self._path)
            if self.is_new:
                _remove_old(os.path.dirname(self._path))
        except OSError:
            return


def folder() -> str:
    """Return the folder of caches: `$XLA_MIGRATE_CACHE_DIR`, or the user's cache folder on this system."""
    given = os.environ.get("XLA_MIGRATE_CACHE_DIR")
    if given:
        return given
    if sys.platform == "win32":
        home = os.environ.get("LOCALAPPDATA") or os.path.expanduser("~")
    elif sys.platform == "darwin":
        home = os.path.expanduser("~/Library/Caches")
    else:
        home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return os.path.join(home, "xla-migrate")


def trusted(state: State) -> State | None:
    """`state`, or None if it cannot vouch for the content; to be asked as soon as the file is read.

    A file that changed this very moment can change again within the same tick of the file system's clock.
    """
    last = max(state[0], state[1])
    coarse = state[0] % 1_000_000_000 == 0 and state[1] % 1_000_000_000 == 0
    return state if last + (_COARSE_GRAIN if coarse else _GRAIN) < time.time_ns() else None


def tool_key() -> tuple[object, ...]:
    """Return what every result depends on: the version, the sources of the rules and of this command, Python."""
    import xla_codemods

    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    rules = os.path.dirname(os.path.abspath(xla_codemods.__file__))
    sources = []
    for place in (rules, *(os.path.join(here, room) for room in ("cli", "files", "target"))):
        sources += _sources(place)
    return (__version__, sys.version, marshal.version, tuple(sources))


def _sources(place: str) -> list[tuple[str, int, int]]:
    """Path, time of change and size of the Python files in and below `place`."""
    found = []
    with os.scandir(place) as entries:
        for entry in sorted(entries, key=lambda e: e.name):
            if entry.name.endswith(".py"):
                state = entry.stat()
                found.append((entry.path, state.st_mtime_ns, state.st_size))
            elif entry.name != "__pycache__" and entry.is_dir():
                found += _sources(entry.path)
    return found


def _load(path: str) -> dict[str, _Entry] | None:
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError:
        return None
    start = len(_FORMAT) + _DIGEST
    payload = data[start:]
    digest = blake2b(payload, digest_size=_DIGEST).digest()
    if data[:start] != _FORMAT + digest:
        return None
    try:
        # The digest says that these are our own bytes: marshal must never see others.
        known = marshal.loads(payload)
    except (ValueError, EOFError, TypeError):
        return None
    return known if isinstance(known, dict) else None


def _remove_old(place: str) -> None:
    """Caches that nothing was added to for a month: of projects, settings or versions that are gone."""
    with os.scandir(place) as entries:
        for entry in entries:
            ours = len(entry.name) >= 2 * _DIGEST and _HEX.issuperset(entry.name[: 2 * _DIGEST])
            if ours and time.time() - entry.stat().st_mtime > _MONTH:
                os.unlink(entry.path)


def content_hash(data: bytes) -> bytes:
    """The hash by which content is known again."""
    return blake2b(data, digest_size=_DIGEST).digest()


def _plain(verdict: FileVerdict) -> tuple[Any, ...]:
    return (
        tuple(row.fields() for row in verdict.left),
        verdict.notes,
        verdict.failed,
        verdict.settled,
        verdict.project,
    )


def _verdict(plain: tuple[Any, ...] | None) -> FileVerdict:
    if plain is None:
        return _NOTHING
    left, notes, failed, settled, project = plain
    rows = tuple(Diagnostic.of(row) for row in left)
    return FileVerdict(rows, notes=notes, failed=failed, settled=settled, project=project)


_NOTHING = FileVerdict()
