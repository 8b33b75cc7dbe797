"""The simple commands of a shell script, with the place of every word. A reader, not a shell: nothing is expanded.

Quotes, comments, line continuations, here-documents, operators and `$(...)` are distinguished; commands inside
`$(...)`, backquotes and quotes are part of the word that they stand in.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

_SPACE = " \t"
_ENDS = ";&|()\n"
# Words that a command can follow, as at the beginning of a line.
_KEYWORDS = frozenset("if then elif else while until do ! { } time".split())
_HEREDOC = re.compile(r"<<(?P<dash>-?)[ \t]*(?P<quote>['\"\\]?)(?P<end>[A-Za-z_][\w.]*)(?P=quote)?")


class Word(NamedTuple):
    """One word: its text as it is written, without outer quotes in `plain`, and where it stands."""

    text: str
    start: int
    end: int

    @property
    def plain(self) -> str:
        """The text without quotes around it, or around the value behind `=`."""
        text = self.text
        if len(text) > 1 and text[0] in "\"'" and text[-1] == text[0]:
            return text[1:-1]
        return text


class Command(NamedTuple):
    """One simple command; `alone` if nothing else stands on its lines."""

    words: tuple[Word, ...]
    alone: bool

    @property
    def start(self) -> int:
        """Where it begins."""
        return self.words[0].start

    @property
    def end(self) -> int:
        """Where it ends."""
        return self.words[-1].end


def commands(text: str, start: int = 0, end: int | None = None) -> Iterator[Command]:
    """The simple commands of `text` between two offsets, in order."""
    return _Reader(text, start, len(text) if end is None else end).commands()


def of_words(words: list[Word], text: str) -> Iterator[Command]:
    """The commands of a list of words, as JSON and YAML hold them; `sh -c` is given a script, which is read in turn.

    Args:
        words: each as it stands in `text`, without the quotes around it.
        text: the whole file.
    """
    shell = bool(words) and words[0].plain.rpartition("/")[2] in ("sh", "bash")
    options = [word.plain for word in words[1:-1]]
    if shell and options and re.fullmatch(r"-\w*c", options[-1]) and "\\" not in words[-1].text:
        yield from commands(text, words[-1].start, words[-1].end)
    elif words:
        yield Command(tuple(words), False)


class _Reader:
    def __init__(self, text: str, start: int, end: int) -> None:
        self.text, self.at, self.start, self.end = text, start, start, end
        self.waiting: list[tuple[str, bool]] = []  # here-documents that begin on the next line

    def commands(self) -> Iterator[Command]:
        words: list[Word] = []
        first_of_line = True
        while self.at < self.end:
            char = self.text[self.at]
            if char in _SPACE or self._continues():
                self.at += 2 if char == "\\" and self.text[self.at + 1] == "\n" else 1
                self.at += char == "\\" and self.text[self.at - 1] == "\r"
            elif char == "\r":
                self.at += 1
            elif char == "#":
                self.at = self._line_end()
            elif char == "<" and (here := _HEREDOC.match(self.text, self.at, self.end)):
                self.waiting.append((here["end"], bool(here["dash"])))
                self.at = here.end()
            elif char in _ENDS:
                yield from self._done(words, first_of_line and char == "\n")
                words = []
                first_of_line = char == "\n"
                self.at += 1
                if char == "\n":
                    self._skip_documents()
            else:
                word = self._word()
                if not words and word.text in _KEYWORDS:
                    first_of_line = False
                    continue
                words.append(word)
        yield from self._done(words, first_of_line)

    def _done(self, words: list[Word], alone: bool) -> Iterator[Command]:
        if words:
            yield Command(tuple(words), alone)

    def _continues(self) -> bool:
        return self.text.startswith(("\\\n", "\\\r\n"), self.at)

    def _line_end(self) -> int:
        end = self.text.find("\n", self.at, self.end)
        return self.end if end < 0 else end

    def _skip_documents(self) -> None:
        for name, dash in self.waiting:
            while self.at < self.end:
                stop = self._line_end()
                line = self.text[self.at : stop].rstrip("\r")
                self.at = min(stop + 1, self.end)
                if (line.lstrip("\t") if dash else line) == name:
                    break
        self.waiting.clear()

    def _word(self) -> Word:
        start = self.at
        while self.at < self.end:
            char = self.text[self.at]
            if char in _SPACE or char in _ENDS or char == "\r" or self._continues():
                break
            if char == "\\":
                self.at += 2
            elif char in "'\"`":
                self._quoted(char)
            elif self.text.startswith(("$(", "<(", ">("), self.at):
                self.at += 1
                self._nested()
            elif char in "<>" and self.at + 1 < self.end and self.text[self.at + 1] in "&>|<":
                self.at += 2
            else:
                self.at += 1
        self.at = min(self.at, self.end)
        return Word(self.text[start : self.at], start, self.at)

    def _quoted(self, quote: str) -> None:
        self.at += 1
        while self.at < self.end and self.text[self.at] != quote:
            if self.text[self.at] == "\\" and quote != "'":
                self.at += 1
            elif quote == '"' and self.text.startswith("$(", self.at):
                self.at += 1
                self._nested()
                continue
            self.at += 1
        self.at += 1

    def _nested(self) -> None:
        """From an opening parenthesis behind the one that closes it."""
        depth = 0
        while self.at < self.end:
            char = self.text[self.at]
            if char in "'\"":
                self._quoted(char)
                continue
            depth += (char == "(") - (char == ")")
            self.at += 2 if char == "\\" else 1
            if depth == 0:
                return
