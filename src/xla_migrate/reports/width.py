"""Fit text into the width of a terminal: a long line continues below the column where its text begins."""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TextIO

WIDEST = 98  # for text that is not printed to a terminal, too
_NARROWEST = 24  # of a right column; if there is less room, it moves below the left one
_GAP = r"\S( {2,})(?=\S)"


def columns() -> int:
    """Return the width of the terminal, or of the variable COLUMNS; at most `WIDEST`."""
    import shutil

    return min(WIDEST, shutil.get_terminal_size((WIDEST, 24)).columns)


def of_terminal(out: TextIO) -> int | None:
    """Return the width of the terminal that `out` prints to; None for a file or a pipe."""
    if not out.isatty():
        return None
    import shutil

    return shutil.get_terminal_size().columns


def fitted(text: str, width: int) -> str:
    """Return `text` with lines of at most `width`, except for words that are longer.

    Lines without indentation are paragraphs, which are joined. Other lines may have two columns,
    separated by two blanks or more; a line that begins below the right column continues it.
    """
    rows: list[str] = []
    paragraph: list[str] = []
    for line in _whole_lines(text):
        if line and not line[0].isspace() and not re.search(_GAP, line):
            paragraph.append(line)
            continue
        rows += [*_joined(paragraph, width), *_row(line, width)]
        paragraph = []
    return "\n".join([*rows, *_joined(paragraph, width)])


def _whole_lines(text: str) -> list[str]:
    """Return the lines, with the parts of a right column joined."""
    found: list[str] = []
    column = 0
    for line in text.split("\n"):
        part = line.lstrip()
        gaps = list(re.finditer(_GAP, line))
        if column and part and not gaps and len(line) - len(part) == column:
            found[-1] += f" {part}"
            continue
        found.append(line)
        column = gaps[-1].end() if gaps else 0
    return found


def _joined(lines: list[str], width: int) -> list[str]:
    if all(len(line) <= width for line in lines):
        return lines
    after = 7 if lines[0].startswith("usage: ") else 0
    return wrapped(" ".join(lines), width, "", " " * after)


def _row(line: str, width: int) -> list[str]:
    if len(line) <= width:
        return [line]
    indent = len(line) - len(line.lstrip())
    gaps = list(re.finditer(_GAP, line))
    if not gaps:
        if indent + max(map(len, line.split())) > width:  # the usage of a command with long options
            indent = max(width - len(line.strip()), min(indent, 4))
        return wrapped(line.strip(), width, " " * indent, " " * indent)
    column = gaps[-1].end()
    if width - column >= max(_NARROWEST, *map(len, line[column:].split())):
        return wrapped(line[column:], width, line[:column], " " * column)
    left = wrapped(line[indent : gaps[-1].start(1)], width, " " * indent, " " * (indent + 2))
    below = " " * (indent + (13 if line.startswith("usage: ") else 6))
    return [*left, *wrapped(line[column:], width, below, below)]


def wrapped(text: str, width: int, first: str, others: str) -> list[str]:
    """Return the lines of `text`, the first after `first` and the others after `others`. Keep long words.

    Text that fits, or that consists of several lines, is returned unchanged.
    """
    if "\n" in text or len(first) + len(text) <= width:
        return [f"{first}{text}"]
    import textwrap

    wrapper = textwrap.TextWrapper(
        width, first, others, break_long_words=False, break_on_hyphens=False
    )
    return wrapper.wrap(text)
