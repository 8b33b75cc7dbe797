"""Lines of the migrated files, as lines of the originals."""

from __future__ import annotations

import difflib
from collections.abc import Mapping


class SourceLines:
    """Lines of migrated files -> lines of the originals."""

    def __init__(self, files: Mapping[str, tuple[str, str]]) -> None:
        """From the (original, migrated) text of each changed file, by path in the project."""
        self._texts = files
        self._maps: dict[str, list[int]] = {}

    def original(self, path: str, line: int) -> int:
        """The line (from 1) of the original that `line` of the migrated file came from."""
        if path not in self._texts:
            return line
        if path not in self._maps:
            self._maps[path] = self._map(*self._texts[path])
        known = self._maps[path]
        return known[min(line, len(known)) - 1] if known else line

    @staticmethod
    def _map(before: str, after: str) -> list[int]:
        old, new = before.splitlines(), after.splitlines()
        places = [1] * len(new)
        matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
        for _, i, i_end, j, j_end in matcher.get_opcodes():
            for k in range(j, j_end):
                places[k] = min(i + k - j, max(i_end - 1, i)) + 1
        return places

    def place(self, where: str) -> tuple[str, int]:
        """`file:line` of the migrated project, as a place in the original."""
        path, _, line = where.rpartition(":")
        if not path or not line.isdigit():
            return where, 0
        return path, self.original(path, int(line))
