"""Regular expressions that are compiled when they are first asked: a run needs few of them, and compiling all takes a
tenth of its start.
"""

from __future__ import annotations

import re


class Pattern:
    """What `re.compile` gives, later."""

    __slots__ = ("_compiled", "_flags", "_text")

    def __init__(self, text: str, flags: int = 0) -> None:
        self._text = text
        self._flags = flags
        self._compiled: re.Pattern[str] | None = None

    @property
    def compiled(self) -> re.Pattern[str]:
        if self._compiled is None:
            self._compiled = re.compile(self._text, self._flags)
        return self._compiled

    def search(self, text: str) -> re.Match[str] | None:
        return (self._compiled or self.compiled).search(text)

    def match(self, text: str, start: int = 0) -> re.Match[str] | None:
        return self.compiled.match(text, start)

    def fullmatch(self, text: str) -> re.Match[str] | None:
        return self.compiled.fullmatch(text)

    def findall(self, text: str) -> list[str]:
        return self.compiled.findall(text)
