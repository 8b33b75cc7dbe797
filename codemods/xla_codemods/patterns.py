"""Regular expressions that are compiled when they are first asked: a run needs few of them, and compiling all takes a
tenth of its start. What they say of a name is remembered: files ask the same of the same names.
"""

from __future__ import annotations

import re
from collections.abc import Callable

_LONGEST_NAME = 40  # characters
_MOST_NAMES = 5000


class Pattern:
    """What `re.compile` gives, later."""

    __slots__ = ("_compiled", "_flags", "_known", "_text")

    def __init__(self, text: str, flags: int = 0) -> None:
        self._text = text
        self._flags = flags
        self._compiled: re.Pattern[str] | None = None
        self._known: dict[str, re.Match[str] | None] = {}

    @property
    def compiled(self) -> re.Pattern[str]:
        """What `re.compile` gives."""
        if self._compiled is None:
            # Without regard to case, letters outside ASCII double the time; names have hardly any.
            is_ascii = re.ASCII if self._flags == re.IGNORECASE else 0
            self._compiled = re.compile(self._text, self._flags | is_ascii)
        return self._compiled

    def search(self, text: str) -> re.Match[str] | None:
        """The first match anywhere in `text`; remembered where `text` is no longer than a name."""
        known = self._known
        if text in known:
            return known[text]
        found = self.compiled.search(text)
        if len(text) <= _LONGEST_NAME:
            if len(known) >= _MOST_NAMES:
                known.clear()
            known[text] = found
        return found

    def match(self, text: str, start: int = 0) -> re.Match[str] | None:
        """The match that begins at `start`."""
        return self.compiled.match(text, start)

    def fullmatch(self, text: str) -> re.Match[str] | None:
        """The match of the whole of `text`."""
        return self.compiled.fullmatch(text)

    def sub(self, new: str | Callable[[re.Match[str]], str], text: str) -> str:
        """Return `text` with `new` in place of all matches."""
        return self.compiled.sub(new, text)

    def findall(self, text: str) -> list[str]:
        """All matches, as `re.findall` gives them."""
        return self.compiled.findall(text)
