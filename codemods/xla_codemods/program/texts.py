"""The texts of a program's modules, searched once for all modules that ask."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cached_property

from ..patterns import Pattern

_WORD = Pattern(r"[^\W\d]\w*")
_DEFINITION = Pattern(r"(?m)^(?:class|def) (\w+)")
_FUNCTION = Pattern(r"\bdef (\w+)\(")
_NONE: frozenset[str] = frozenset()


class Texts:
    """The Python files of one program as text, by path. They are read on demand."""

    def __init__(self, files: Mapping[str, bytes]) -> None:
        self.files = files
        self._texts: dict[str, str] = {}
        self._where: dict[object, frozenset[str]] = {}

    def text(self, path: str) -> str:
        """Return the file at `path`, decoded for searching; nothing for a file that is analysed alone."""
        if path not in self._texts:
            self._texts[path] = self.files.get(path, b"").decode("utf-8", "replace")
        return self._texts[path]

    def with_word(self, word: str) -> frozenset[str]:
        """Return the paths of the files that contain the identifier `word` as a whole."""
        return self._by_word.get(word, _NONE)

    def with_word_like(self, pattern: Pattern) -> frozenset[str]:
        """Return the paths of the files that contain an identifier in which `pattern` is found."""
        key = "identifier", pattern
        if key not in self._where:
            is_like = pattern.compiled.search
            found = (paths for word, paths in self._by_word.items() if is_like(word))
            self._where[key] = _NONE.union(*found)
        return self._where[key]

    @cached_property
    def functions(self) -> frozenset[str]:
        """Return the names of all functions and methods that the files define."""
        return _NONE.union(*(_FUNCTION.findall(self.text(path)) for path in self.files))

    @cached_property
    def definitions(self) -> frozenset[str]:
        """Return the names of all classes and functions that the files define at module level."""
        return _NONE.union(*(_DEFINITION.findall(self.text(path)) for path in self.files))

    def having(self, parts: tuple[str, ...]) -> frozenset[str]:
        """Return the paths of the files that contain one of `parts`, also inside a longer word."""
        return self._search(parts, lambda text: any(part in text for part in parts))

    def matching(self, pattern: re.Pattern[str] | Pattern) -> frozenset[str]:
        """Return the paths of the files in which `pattern` is found."""
        return self._search(pattern, lambda text: pattern.search(text) is not None)

    def where(self, holds: Callable[[str], bool]) -> frozenset[str]:
        """Return the paths of the files for whose text the function `holds` returns True."""
        return self._search(holds, holds)

    def _search(self, key: object, holds: Callable[[str], bool]) -> frozenset[str]:
        if key not in self._where:
            self._where[key] = frozenset(p for p in self.files if holds(self.text(p)))
        return self._where[key]

    @cached_property
    def _by_word(self) -> dict[str, frozenset[str]]:
        found: dict[str, list[str]] = {}
        for path in self.files:
            for word in set(_WORD.findall(self.text(path))):
                found.setdefault(word, []).append(path)
        return {word: frozenset(paths) for word, paths in found.items()}
