"""Lines of the migrated files, as lines of the originals, and the other way round."""

from __future__ import annotations

import difflib
from collections.abc import Mapping


class SourceLines:
    """Which line of an original became which line of the migrated file."""

    def __init__(self, files: Mapping[str, tuple[str, str]]) -> None:
        """From the (original, migrated) text of each changed file, by path in the project."""
        self._texts = files
        self._maps: dict[str, list[int]] = {}

    def original(self, path: str, line: int) -> int:
        """The line (from 1) of the original that `line` of the migrated file came from."""
        known = self._originals(path)
        return known[min(line, len(known)) - 1] if known else line

    def migrated(self, path: str, line: int) -> int:
        """The line (from 1) of the migrated file that came from `line` of the original, or from the nearest.

        Of several lines it is the one that has not changed, or else the first.
        """
        known = self._originals(path)
        if not known:
            return line
        before, after = (text.splitlines() for text in self._texts[path])

        def order(place: int) -> tuple[int, bool]:
            came_from = known[place]
            text = before[
                came_from - 1 : came_from
            ]  # nothing, for what was added behind the last line
            return abs(came_from - line), text != [after[place]]

        return min(range(len(known)), key=order) + 1

    def _originals(self, path: str) -> list[int]:
        """Return the line of the original for each line of the migrated file; [] if it is not changed."""
        if path not in self._texts:
            return []
        if path not in self._maps:
            self._maps[path] = self._map(*self._texts[path])
        return self._maps[path]

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
