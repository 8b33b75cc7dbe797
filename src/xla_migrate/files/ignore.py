"""Patterns of `.gitignore`, with git's own meaning of them (gitignore(5), and wildmatch.c for the fine points).

Most patterns are a name, a path or `*.suffix`, and are answered from a table; only the others become regular
expressions, when they are first needed. Names are matched as bytes there, as git does.

Not pathspec: of the 60 sets of patterns of `tests/files/test_ignore.py` its version 1.1 differs from git in 18, it takes
100 ms to import where a whole check of a clean file takes 30, and 11 microseconds a path with the default excludes (this:
0.8), of the 50 that a walk has for each file.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re
    from collections.abc import Iterable, Sequence

_SPECIAL = frozenset("*?[\\")
_CLASSES = {
    b"alnum": rb"0-9A-Za-z",
    b"alpha": rb"A-Za-z",
    b"blank": rb" \t",
    b"cntrl": rb"\x00-\x1f\x7f",
    b"digit": rb"0-9",
    b"graph": rb"!-~",
    b"lower": rb"a-z",
    b"print": rb" -~",
    b"punct": rb"!-/:-@\[-`{-~",
    b"space": rb"\t-\r ",
    b"upper": rb"A-Z",
    b"xdigit": rb"0-9A-Fa-f",
}


class Patterns:
    """The patterns of one `.gitignore`, in order. The last one that matches decides.

    Args:
        lines: as they stand in the file.
        endings: endings of the file names that will be asked for: patterns that no such name can match are left
            out of the table for files. Empty: any name may come.
    """

    __slots__ = ("_files", "_folders", "_negated")

    def __init__(self, lines: Iterable[str], endings: Sequence[str] = ()) -> None:
        self._negated: list[bool] = []
        self._files = _Table()
        self._folders = _Table()
        for line in lines:
            self._add(line, endings)

    def __bool__(self) -> bool:
        """True if there are any patterns."""
        return bool(self._negated)

    def decide(self, path: str, is_folder: bool) -> bool | None:
        """True if `path` (relative to the patterns' folder, with `/`) is ignored; None if no pattern matches.

        A path below an ignored folder is ignored too; that is for the caller, who does not enter the folder.
        """
        table = self._folders if is_folder else self._files
        last = table.last(path)
        return None if last < 0 else not self._negated[last]

    def covers(self, path: str, is_folder: bool = False) -> bool:
        """True if `path`, or a folder that it lies in, is ignored."""
        end = path.find("/")
        while end >= 0:
            if self.decide(path[:end], True):
                return True
            end = path.find("/", end + 1)
        return bool(self.decide(path, is_folder))

    def _add(self, line: str, endings: Sequence[str]) -> None:
        pattern = _without_trailing_spaces(line)
        if not pattern or pattern.startswith("#"):
            return
        negated = pattern.startswith("!")
        pattern = pattern[negated:]
        folders_only = pattern.endswith("/")
        pattern = pattern[: len(pattern) - folders_only]
        on_path = "/" in pattern
        pattern = pattern[pattern.startswith("/") :]
        if not pattern:
            return
        index = len(self._negated)
        self._negated.append(negated)
        self._folders.add(index, pattern, on_path)
        if not folders_only and _can_end(pattern, endings):
            self._files.add(index, pattern, on_path)


class _Table:
    """Pattern -> its index, by the way it is matched."""

    __slots__ = ("names", "paths", "suffixes", "wild")

    def __init__(self) -> None:
        self.names: dict[str, int] = {}
        self.paths: dict[str, int] = {}
        self.suffixes: list[tuple[str, int]] = []
        self.wild: list[_Wild] = []

    def add(self, index: int, pattern: str, on_path: bool) -> None:
        if _SPECIAL.isdisjoint(pattern):
            (self.paths if on_path else self.names)[pattern] = index
        elif not on_path and pattern[0] == "*" and _SPECIAL.isdisjoint(pattern[1:]):
            self.suffixes.append((pattern[1:], index))
        else:
            self.wild.append(_Wild(index, pattern, on_path))

    def last(self, path: str) -> int:
        """The greatest index of the patterns that match `path`, or -1."""
        name = path[path.rfind("/") + 1 :]
        found = self.names.get(name, -1)
        if self.paths:
            found = max(found, self.paths.get(path, -1))
        for suffix, index in self.suffixes:
            if index > found and name.endswith(suffix):
                found = index
        for wild in self.wild:
            if wild.index > found and wild.matches(path if wild.on_path else name):
                found = wild.index
        return found


class _Wild:
    """A pattern with wildcards, compiled when it is first asked."""

    __slots__ = ("compiled", "index", "on_path", "pattern")

    def __init__(self, index: int, pattern: str, on_path: bool) -> None:
        self.index = index
        self.pattern = pattern
        self.on_path = on_path
        self.compiled: re.Pattern[bytes] | None = None

    def matches(self, text: str) -> bool:
        if self.compiled is None:
            import re  # most patterns need none, and it takes as long to import as a tree to walk

            self.compiled = re.compile(translate(os.fsencode(self.pattern)), re.DOTALL)
        return self.compiled.fullmatch(os.fsencode(text)) is not None


def _without_trailing_spaces(line: str) -> str:
    r"""The line as git reads it: without its end, and without spaces behind it that no `\` protects."""
    line = line.removesuffix("\n").removesuffix("\r")
    stripped = line.rstrip(" ")
    if len(stripped) == len(line):
        return line
    backslashes = len(stripped) - len(stripped.rstrip("\\"))
    return stripped + " " if backslashes % 2 else stripped


def _can_end(pattern: str, endings: Sequence[str]) -> bool:
    """True if a name with one of `endings` can match: the text behind the last wildcard must agree with it."""
    if not endings:
        return True
    literal = _SPECIAL.isdisjoint(pattern)
    last = max(pattern.rfind(char) for char in "*?[]\\/")
    tail = pattern[last + 1 :]
    return any(tail.endswith(end) or (not literal and end.endswith(tail)) for end in endings)


def translate(pattern: bytes) -> bytes:
    """A regular expression, for `fullmatch`, of what the wildcard `pattern` matches; `(?!)` if nothing."""
    import re

    out = []
    at = 0
    start = _literal_length(pattern)
    while at < len(pattern):
        char = pattern[at : at + 1]
        if char == b"*":
            piece, at = _stars(pattern, at, start)
        elif char == b"[":
            piece, at = _bracket(pattern, at + 1)
            if not piece:
                return rb"(?!)"
        elif char == b"\\":
            if at + 1 == len(pattern):
                return rb"(?!)"
            piece, at = re.escape(pattern[at + 1 : at + 2]), at + 2
        else:
            piece, at = (rb"[^/]" if char == b"?" else re.escape(char)), at + 1
        out.append(piece)
    return b"".join(out)


def _literal_length(pattern: bytes) -> int:
    """Length of the beginning without wildcards, which git compares by itself before it looks at the rest."""
    return next((k for k, char in enumerate(pattern) if char in b"*?[\\"), len(pattern))


def _stars(pattern: bytes, at: int, start: int) -> tuple[bytes, int]:
    """`*` stays within a name; `**` between slashes (or at an end) goes over any number of folders.

    `start` is where the wildcards begin: to git that is the beginning, so `a**/b` is read like `a` and `**/b`.
    """
    end = at
    while pattern[end : end + 1] == b"*":
        end += 1
    rest = pattern[end:]
    bounded = at == start or pattern[at - 1 : at] == b"/"
    if end - at == 1 or not bounded or not (rest == b"" or rest.startswith((b"/", b"\\/"))):
        return rb"[^/]*", end
    if rest.startswith(b"/"):
        return rb"(?:.*/)?", end + 1
    return rb".*", end


def _bracket(pattern: bytes, at: int) -> tuple[bytes, int]:
    """A set of characters from behind its `[`; never the slash. An empty result: it is malformed."""
    import re

    negated = pattern[at : at + 1] in (b"!", b"^")
    at += negated
    items: list[bytes] = []
    previous = b""
    first = True
    while first or pattern[at : at + 1] != b"]":
        first = False
        char = pattern[at : at + 1]
        if not char:
            return b"", at
        if char == b"[" and pattern[at + 1 : at + 2] == b":":
            name, end = _class_name(pattern, at + 2)
            if end < 0:
                return b"", at
            if name is not None:
                if name not in _CLASSES:
                    return b"", at
                items.append(_CLASSES[name])
                previous, at = b"", end
                continue
        if char == b"-" and previous and pattern[at + 1 : at + 2] not in (b"", b"]"):
            high, at = _character(pattern, at + 1)
            if not high:
                return b"", at
            if previous <= high:
                items.append(re.escape(previous) + b"-" + re.escape(high))
            previous = b""
            continue
        previous, at = _character(pattern, at)
        if not previous:
            return b"", at
        items.append(re.escape(previous))
    inside = b"".join(items)
    if negated:
        return b"[^/" + inside + b"]", at + 1
    return b"(?!/)[" + inside + b"]", at + 1


def _character(pattern: bytes, at: int) -> tuple[bytes, int]:
    r"""One character of a set, `\` taken as "the next as it is", and where the next one stands."""
    if pattern[at : at + 1] == b"\\":
        at += 1
    return pattern[at : at + 1], at + 1


def _class_name(pattern: bytes, at: int) -> tuple[bytes | None, int]:
    """`alpha` of `[:alpha:]`, and where it ends; (None, ...) for no such thing, -1 for no end at all."""
    close = pattern.find(b"]", at)
    if close < 0:
        return None, -1
    if close == at or pattern[close - 1 : close] != b":":
        return None, at
    return pattern[at : close - 1], close + 1
