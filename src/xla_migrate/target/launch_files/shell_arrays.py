"""Arguments that a shell script keeps in arrays and variables: `ARGS=(--fp16 ...)`, then `"${ARGS[@]}"` or `$ARGS`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from xla_codemods.analysis.commands.launchers import Command, Word, commands

_START = re.compile(
    r"^[ \t]*(?:(?:declare|export|local|readonly)[ \t]+(?:-\w+[ \t]+)?)?"
    r"(?P<name>[A-Za-z_]\w*)\+?=(?P<opening>[(\"'])",
    re.MULTILINE,
)
_READ = re.compile(r"\"?\$\{(?P<array>\w+)\[[@*]\]\}\"?|\$\{?(?P<text>\w+)\}?")
_CLOSING = {"(": ")", '"': '"', "'": "'"}


class Expanded(NamedTuple):
    """The words of a command with those of the arrays and variables in it, and the names of these."""

    words: tuple[Word, ...]
    names: frozenset[str]


def kept_arguments(text: str) -> Mapping[str, list[Word]]:
    """Return the words that each array and variable of the script `text` holds, where they stand."""
    found: dict[str, list[Word]] = {}
    for start in _START.finditer(text):
        end = _end(text, start.end(), start["opening"])
        if end is not None and not _is_computed(text[start.end() : end]):
            inside = commands(text, start.end(), end)
            found.setdefault(start["name"], []).extend(w for c in inside for w in c.words)
    # A path or a number in a variable holds no arguments.
    return {name: words for name, words in found.items() if any(map(_is_option, words))}


def expanded(command: Command, kept: Mapping[str, Sequence[Word]]) -> Expanded:
    """Return `command` with the words that its arrays and variables hold."""
    names, words = set[str](), list[Word]()
    for word in command.words:
        read = _READ.fullmatch(word.text)
        name = (read["array"] or read["text"]) if read is not None else ""
        words += kept.get(name, [word])
        names |= kept.keys() & {name}
    return Expanded(tuple(words), frozenset(names))


def _end(text: str, start: int, opening: str) -> int | None:
    """Return where the value that begins at `start` ends."""
    quote = ""
    for at in range(start, len(text)):
        char = text[at]
        if text[at - 1] == "\\":
            continue
        if char == (quote or _CLOSING[opening]):
            if not quote:
                return at
            quote = ""
        elif not quote and opening == "(" and char in "\"'":
            quote = char
    return None


def _is_computed(value: str) -> bool:
    """Return True if commands give parts of `value`."""
    return "$(" in value or "`" in value


def _is_option(word: Word) -> bool:
    return word.text.startswith("--")


def holder_of(offset: int, kept: Mapping[str, Sequence[Word]]) -> str:
    """Return the name of the array or variable that has a word at `offset`; "" for none."""
    for name, words in kept.items():
        if any(word.start <= offset < word.end for word in words):
            return name
    return ""
