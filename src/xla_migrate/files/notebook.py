"""Notebooks: the code cells as one Python program, and back.

Names and imports carry over from cell to cell, so the cells are judged and rewritten together. Between them, and in
the place of what only IPython understands (`%magic`, `!command`, `help?`), stand names that occur nowhere else.
Only the `source` of a cell that changed is written anew, line by line: the rest of the file stays byte for byte.
"""

from __future__ import annotations

import json
import re
from json.decoder import scanstring  # type: ignore[attr-defined]

from .line_magics import MARK, closed, opened

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

# Cell magics whose body is Python that runs in the notebook's own names.
_PYTHON_MAGICS = frozenset({"capture", "prun", "time", "timeit"})
_MAGIC = re.compile(r"\s*(?:[%!?]|[\w.*]+\?{1,2}\s*$)")
_ASSIGNED = re.compile(r"(?P<target>\s*[\w.,\[\]'\"() ]+?\s*=\s*)[%!](?!=)")
# What stands before a command of the shell: `!`, `files = !`, `%pip` (whose name is the command's).
_COMMAND = re.compile(
    r"\s*(?:[\w.,\[\]'\"() ]+?=\s*)?(?:!{1,2}|%sx\s|%system\s|%(?=(?:pip|conda|mamba|uv)\s))"
)
_SHELL_CELL = re.compile(r"%%\s*(?:bash|sh|script\s+(?:bash|sh))\b|%%!")
_WRITES = re.compile(r"(?P<line>%%(?:writefile|file)\s+(?:-a\s+)?(?P<name>\S+)[^\n]*)\n")
_TOKENS = re.compile(
    r"""#.*|\"{3}|'{3}|"(?:\\.|[^"\\\n])*"?|'(?:\\.|[^'\\\n])*'?|[(\[{]|[)\]}]|\\(?=\n?$)"""
)
_SPACE = re.compile(r"[ \t\r\n]*")
_DECODER = json.JSONDecoder()


class NotebookError(Exception):
    """A notebook that cannot be analysed; the place is in `cell`, or in the file if `cell` is None."""

    def __init__(
        self, reason: str, line: int = 1, column: int = 1, cell: int | None = None
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.line = line
        self.column = column
        self.cell = cell


class _Cell:
    """A code cell: its number (from 1, among all cells), text, and where its source stands in the file."""

    __slots__ = ("end", "is_list", "number", "start", "text")

    def __init__(self, number: int, text: str, start: int, end: int, is_list: bool) -> None:
        self.number = number
        self.text = text
        self.start = start
        self.end = end
        self.is_list = is_list


class Notebook:
    """A parsed notebook. `program` is the source of its Python cells.

    Raises:
        NotebookError: it is no notebook, or a cell is not Python.
    """

    def __init__(self, data: bytes) -> None:
        self._bom = data.startswith(b"\xef\xbb\xbf")
        try:
            self._raw = data.decode("utf-8-sig")
            cells = _code_cells(self._raw)
        except UnicodeDecodeError as error:
            line = data.count(b"\n", 0, error.start) + 1
            raise NotebookError("cannot be decoded as utf-8", line) from error
        except (json.JSONDecodeError, RecursionError) as error:
            line, column = getattr(error, "lineno", 1), getattr(error, "colno", 1)
            reason = getattr(error, "msg", "nested too deeply")
            raise NotebookError(f"no notebook: {reason}", line, column) from error
        self._token = _unused_name(self._raw)
        self._kept: list[str] = []  # the lines that names stand for
        self._opened: list[str] = []  # what stood before the code of magics that run it
        self._may_open = not any(MARK in cell.text for cell in cells)
        self._all = cells
        self._cells = [cell for cell in cells if not _is_foreign(cell.text)]
        masked = (self._mask(cell).removesuffix("\n") for cell in self._cells)
        self.program = f"\n{self._token}C\n".join(masked) + "\n"

    def place(self, program: str, line: int) -> tuple[int, int]:
        """Cell number and line in that cell of `line` of `program` (this one, or an edited one)."""
        index, start = 0, 0
        mark = f"{self._token}C"
        for number, text in enumerate(program.split("\n")[: line - 1], 1):
            if text == mark:
                index, start = index + 1, number
        return self._cells[index].number, line - start

    def texts(self) -> dict[int, str]:
        """Cell number -> source, of the Python cells."""
        return {cell.number: cell.text for cell in self._cells}

    def all_texts(self) -> dict[int, str]:
        """Cell number -> source, of all code cells, those in other languages too."""
        return {cell.number: cell.text for cell in self._all}

    def shell(self) -> dict[int, str]:
        """Cell number -> its text with all but the commands of a shell blank, of the cells that have some."""
        views = {cell.number: _shell_of(cell.text) for cell in self._all}
        return {number: view for number, view in views.items() if not view.isspace() and view}

    def written(self) -> dict[int, tuple[str, str]]:
        """Cell number -> name and content of the file that the cell writes (`%%writefile`), behind an empty line."""
        found = {cell.number: (_WRITES.match(cell.text), cell.text) for cell in self._all}
        return {
            number: (match["name"].strip("\"'"), text[match.end("line") :])
            for number, (match, text) in found.items()
            if match is not None
        }

    def rebuilt(self, program: str) -> bytes:
        """The file with the cells' sources out of `program`, an edited `self.program`.

        Raises:
            NotebookError: cells or kept lines have been lost.
        """
        texts = self._split(program)
        out, at = [], 0
        for cell, text in zip(self._cells, texts):
            if text != cell.text:
                out += [self._raw[at : cell.start], self._source(cell, text)]
                at = cell.end
        out.append(self._raw[at:])
        data = "".join(out).encode()
        return b"\xef\xbb\xbf" + data if self._bom else data

    # Masking.

    def _mask(self, cell: _Cell) -> str:
        """The cell's text as Python, one line for each of its lines."""
        from xla_codemods.source import SourceError, parse

        text = cell.text
        if not text.startswith("%%"):
            try:
                parse(text)
                return text
            except SourceError:
                pass  # IPython, most likely
        masked = self._without_magics(text)
        try:
            parse(masked)
        except SourceError as error:
            raise NotebookError(error.reason, error.line, error.column, cell.number) from error
        return masked

    def _without_magics(self, text: str) -> str:
        lines = text.split("\n")
        starts = _logical_starts(lines)
        for k, is_start in enumerate(starts):
            if is_start and self._open(lines, k):
                continue
            if is_start and _MAGIC.match(lines[k]):
                self._hide(lines, k, re.match(r"\s*", lines[k]).group())  # type: ignore[union-attr]
            elif is_start and (assigned := _ASSIGNED.match(lines[k])):
                self._hide(lines, k, assigned["target"])
        return "\n".join(lines)

    def _open(self, lines: list[str], k: int) -> bool:
        """True if line `k` is a magic that runs a statement: that stands there alone then."""
        found = opened(lines[k]) if self._may_open else None
        if found is not None:
            self._opened.append(found[0])
            lines[k] = found[1]
        return found is not None

    def _hide(self, lines: list[str], k: int, before: str) -> None:
        """Put a name in the place of the magic on line `k`, and of the lines that it goes on on."""
        goes_on = True
        indentation = before[: len(before) - len(before.lstrip())]
        while goes_on and k < len(lines):
            line = lines[k]
            goes_on = line.endswith("\\")
            lines[k] = f"{before}{self._token}M{len(self._kept)}"
            self._kept.append(line)
            before = indentation
            k += 1

    # Unmasking.

    def _split(self, program: str) -> list[str]:
        """The new text of each cell."""
        if not self._cells:
            return []
        mark = re.compile(rf"^{self._token}C$\n?", re.MULTILINE)
        parts = mark.split(program)
        if len(parts) != len(self._cells):
            raise NotebookError(
                "the boundaries of its cells were lost in the rewrite; the notebook is unchanged"
            )
        texts = []
        returned = 0
        before = list(self._opened)
        for cell, part in zip(self._cells, parts):
            text, count = self._unmask(part)
            if before:
                text, _ = closed(text, before)
            returned += count
            texts.append(text if cell.text.endswith("\n") else text.removesuffix("\n"))
        if before or returned != len(self._kept):
            raise NotebookError(
                "a line that only IPython understands would be lost; the notebook is unchanged"
            )
        return texts

    def _unmask(self, text: str) -> tuple[str, int]:
        """`text` with its magics back, and how many they were; a cell magic goes first."""
        name = re.compile(rf"^(?P<space>[ \t]*).*{self._token}M(?P<index>\d+)$", re.MULTILINE)
        first = ""

        def original(match: re.Match[str]) -> str:
            nonlocal first
            line = self._kept[int(match["index"])]
            if line.startswith("%%") and not first:
                first = line
            continued = int(match["index"]) > 0 and self._kept[int(match["index"]) - 1].endswith(
                "\\"
            )
            return line if continued else match["space"] + line.lstrip()

        text, count = name.subn(original, text)
        if first and not text.startswith(first):
            before, _, behind = text.partition(first + "\n")
            text = f"{first}\n{before}{behind}"
        return text, count

    def _source(self, cell: _Cell, text: str) -> str:
        """`text` as JSON, in the way this cell's source is written."""
        ascii_only = self._raw.isascii()
        if not cell.is_list:
            return json.dumps(text, ensure_ascii=ascii_only)
        written, lead, between, tail = _list_style(self._raw, cell.start)
        lines = re.findall(r"[^\n]*\n|[^\n]+", text)
        if not lines:
            return "[]"
        new = (written.get(line) or json.dumps(line, ensure_ascii=ascii_only) for line in lines)
        return f"[{lead}{between.join(new)}{tail}]"


def _is_foreign(text: str) -> bool:
    """True if the cell is for another program than Python: `%%bash` and the like."""
    match = re.match(r"%%\s*(\w*)", text)
    return match is not None and match[1] not in _PYTHON_MAGICS


def _shell_of(text: str) -> str:
    """`text`, every place kept, with spaces for what no shell runs."""
    lines = text.split("\n")
    if text.startswith("%%"):
        lines[0] = " " * len(lines[0])
        return "\n".join(lines) if _SHELL_CELL.match(text) else ""
    goes_on = False
    for k, (line, is_start) in enumerate(zip(lines, _logical_starts(lines))):
        command = _COMMAND.match(line) if is_start else None
        if command is not None:
            lines[k] = " " * command.end() + line[command.end() :]
        elif not goes_on:
            lines[k] = " " * len(line)
        goes_on = (command is not None or goes_on) and line.endswith("\\")
    return "\n".join(lines)


def _unused_name(text: str) -> str:
    number = 0
    while f"_xla_migrate_{number}_" in text:
        number += 1
    return f"_xla_migrate_{number}_"


def _logical_starts(lines: list[str]) -> list[bool]:
    """For each line, whether a statement begins on it: not inside brackets, strings or continued lines."""
    starts = []
    depth, quote, continued = 0, "", False
    for line in lines:
        is_start = depth == 0 and not quote and not continued
        starts.append(is_start)
        if is_start and (_MAGIC.match(line) or _ASSIGNED.match(line)):
            continued = line.endswith("\\")
            continue
        continued = False
        at = 0
        while at < len(line):
            if quote:
                end = re.compile(rf"(?:\\.|(?!{quote}).)*").match(line, at).end()  # type: ignore[union-attr]
                if not line.startswith(quote, end):
                    break
                at, quote = end + 3, ""
                continue
            match = _TOKENS.search(line, at)
            if match is None:
                break
            token, at = match.group(), match.end()
            if token in ('"""', "'''"):
                quote = token
            elif token == "\\":
                continued = True
            elif len(token) == 1 and token in "([{)]}":
                depth += 1 if token in "([{" else -1
    return starts


# Reading JSON with the places of its parts.


def _code_cells(text: str) -> list[_Cell]:
    """The code cells of a Python notebook; none where its language is another."""
    cells: list[_Cell] = []
    top: dict[str, Any] = {}

    def member(key: str, at: int) -> int:
        if key == "cells" and text.startswith("[", at):
            top[key] = True
            return _array(text, at, lambda index, item: _cell(text, index, item, cells))
        top[key], at = _value(text, at)
        return at

    start = _skip(text, 0)
    end = _skip(text, _object(text, start, member))
    if end != len(text):
        raise json.JSONDecodeError("there is text after its end", text, end)
    if "cells" not in top:
        old = "version 3 or older: convert it with `jupyter nbconvert --to notebook`"
        raise json.JSONDecodeError(old if "worksheets" in top else "no cells", text, start)
    return cells if _language(top.get("metadata")) in {"", "python"} else []


def _language(metadata: Any) -> str:
    if not isinstance(metadata, dict):
        return ""
    for key, name in (("kernelspec", "language"), ("language_info", "name")):
        entry = metadata.get(key)
        if isinstance(entry, dict) and isinstance(entry.get(name), str):
            return str(entry[name]).lower()
    return ""


def _cell(text: str, index: int, at: int, cells: list[_Cell]) -> int:
    """Read the cell at `at`, and add it to `cells` if it is code; where it ends."""
    found: dict[str, Any] = {}
    span = (at, at)

    def member(key: str, at: int) -> int:
        nonlocal span
        found[key], end = _value(text, at)
        if key == "source":
            span = (at, end)
        return end

    end = _object(text, at, member)
    source = found.get("source", "")
    is_list = isinstance(source, list)
    if is_list and all(isinstance(line, str) for line in source):
        source = "".join(source)
    if not isinstance(source, str):
        raise json.JSONDecodeError("a cell's source is not text", text, span[0])
    if found.get("cell_type") == "code":
        cells.append(_Cell(index + 1, source, *span, is_list))
    return end


def _list_style(text: str, at: int) -> tuple[dict[str, str], str, str, str]:
    """Return how each string of a list is written, and the text before, between and after them."""
    written: dict[str, str] = {}
    spans: list[tuple[int, int]] = []

    def element(_: int, at: int) -> int:
        value, end = _value(text, at)
        written.setdefault(value, text[at:end])
        spans.append((at, end))
        return end

    end = _array(text, at, element)
    if not spans:
        return written, "", ", ", ""
    lead = text[at + 1 : spans[0][0]]
    between = text[spans[0][1] : spans[1][0]] if len(spans) > 1 else "," + (lead or " ")
    return written, lead, between, text[spans[-1][1] : end - 1]


def _skip(text: str, at: int) -> int:
    return _SPACE.match(text, at).end()  # type: ignore[union-attr]


def _value(text: str, at: int) -> tuple[Any, int]:
    try:
        return _DECODER.raw_decode(text, at)
    except StopIteration as error:  # what some versions raise at the end of the text
        raise json.JSONDecodeError("a value is missing", text, at) from error


def _object(text: str, at: int, member: Callable[[str, int], int]) -> int:
    """Read the object at `at`; `member(key, start)` reads a value and tells where it ends."""

    def pair(_: int, at: int) -> int:
        if not text.startswith('"', at):
            raise json.JSONDecodeError("a key is missing", text, at)
        key, at = scanstring(text, at + 1, True)
        at = _skip(text, at)
        if not text.startswith(":", at):
            raise json.JSONDecodeError("a colon is missing", text, at)
        return member(key, _skip(text, at + 1))

    return _items(text, at, "{", "}", pair)


def _array(text: str, at: int, element: Callable[[int, int], int]) -> int:
    """Read the array at `at`; `element(index, start)` reads one and tells where it ends."""
    return _items(text, at, "[", "]", element)


def _items(text: str, at: int, opened: str, closed: str, item: Callable[[int, int], int]) -> int:
    if not text.startswith(opened, at):
        raise json.JSONDecodeError(f"{opened!r} is missing", text, at)
    at = _skip(text, at + 1)
    if text.startswith(closed, at):
        return at + 1
    index = 0
    while True:
        at = _skip(text, item(index, at))
        if text.startswith(closed, at):
            return at + 1
        if not text.startswith(",", at):
            raise json.JSONDecodeError("a comma is missing", text, at)
        at = _skip(text, at + 1)
        index += 1
