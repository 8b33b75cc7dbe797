"""The bytes of one Python file: decoded, split into lines, parsed; or refused with a reason."""

from __future__ import annotations

import ast
import io
import re
import warnings

from .patterns import Pattern

# What Python itself takes for a line break. `str.splitlines` knows a dozen more (form feed among them).
_LINE = Pattern(r"[^\r\n]*(?:\r\n|\r|\n|\Z)")

BOM = b"\xef\xbb\xbf"

# Every byte that is no part of a name becomes a blank.
_TO_BLANKS = bytes(
    c if c >= 0x80 or chr(c).isalnum() or c == ord("_") else ord(" ") for c in range(256)
)


class SourceError(Exception):
    """A file that cannot be judged: `line` and `column` count from 1."""

    def __init__(self, reason: str, line: int = 1, column: int = 1) -> None:
        super().__init__(reason)
        self.reason = reason
        self.line = line
        self.column = column


class Source:
    """One file: `text` as Python reads it, `lines` with their own endings, `tree` of the standard `ast`."""

    __slots__ = ("_names", "_vocabulary", "bom", "encoding", "lines", "newline", "text", "tree")

    def __init__(self, data: bytes) -> None:
        self.bom = data.startswith(BOM)
        self.encoding = _encoding(data)
        self._read(_decode(data[len(BOM) :] if self.bom else data, self.encoding))

    def _read(self, text: str) -> None:
        self.text = text
        self.lines = split_lines(text)
        self.newline = _newline(text)
        self.tree = parse(text)
        self._names: set[str] | None = None
        self._vocabulary: str | None = None

    @property
    def names(self) -> set[str]:
        """The names, keywords and numbers in the file, comments and strings, each once, in small letters."""
        if self._names is None:
            lowered = self.text.lower().encode(errors="replace")
            self._names = set(lowered.translate(_TO_BLANKS).decode().split())
        return self._names

    def mentions(self, *words: str) -> bool:
        """True if any of `words`, parts of names in small letters, stands anywhere in the file, in whatever letters.

        Many rules ask this first. The names, each once, are an eighth of a usual file.
        """
        if self._vocabulary is None:
            self._vocabulary = "\n".join(self.names)
        vocabulary = self._vocabulary
        for word in words:  # noqa: SIM110 - a generator for `any` costs more than the search
            if word in vocabulary:
                return True
        return False

    def edited(self, text: str) -> Source:
        """The same file with another text.

        Raises:
            SourceError: `text` cannot be parsed.
        """
        source = Source.__new__(Source)
        source.bom, source.encoding = self.bom, self.encoding
        source._read(text)
        return source

    def with_lines(self, lines: list[str]) -> Source:
        """The same file where comments read otherwise: line for line the same code, the same tree."""
        source = Source.__new__(Source)
        source.bom, source.encoding = self.bom, self.encoding
        source.text, source.lines = "".join(lines), lines
        source.newline, source.tree = self.newline, self.tree
        source._names = source._vocabulary = None
        return source

    def encode(self, text: str) -> bytes:
        """`text` as bytes in this file's encoding.

        Raises:
            SourceError: a character that the encoding has no byte for.
        """
        try:
            data = text.encode(self.encoding)
        except UnicodeEncodeError as error:
            raise SourceError(f"the result does not fit the file's encoding: {error}") from error
        return BOM + data if self.bom else data

    def segment(self, node: ast.expr | ast.stmt) -> str:
        """The source text of `node`, without comments before or behind it."""
        first, last = node.lineno - 1, (node.end_lineno or node.lineno) - 1
        start = self.column(node.lineno, node.col_offset)
        end = self.column(last + 1, node.end_col_offset or 0)
        if first == last:
            return self.lines[first][start:end]
        return "".join(
            (self.lines[first][start:], *self.lines[first + 1 : last], self.lines[last][:end])
        )

    def column(self, line: int, offset: int) -> int:
        """Characters before the UTF-8 byte `offset` (what `ast` counts) of `line` (from 1)."""
        text = self.lines[line - 1]
        return offset if text.isascii() else len(text.encode()[:offset].decode(errors="ignore"))


def split_lines(text: str) -> list[str]:
    """Lines of `text` as Python counts them, each with its own line break."""
    if "\r" not in text:
        lines = text.split("\n")
        return [line + "\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])
    return [line for line in _LINE.findall(text) if line]


def parse(text: str) -> ast.Module:
    """`ast.parse` whose every failure is a `SourceError` with its place."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore"
            )  # invalid escapes in the user's strings are not our business
            return ast.parse(text)
    except SyntaxError as error:
        raise SourceError(
            error.msg or "syntax error", error.lineno or 1, error.offset or 1
        ) from error
    except ValueError as error:
        raise SourceError(str(error)) from error
    except (RecursionError, MemoryError) as error:
        raise SourceError("nested too deeply to be parsed") from error


def _encoding(data: bytes) -> str:
    head = data[: data.find(b"\n", data.find(b"\n") + 1)]  # the two lines that may tell
    if head.isascii() and b"coding" not in head:
        return (
            "utf-8"  # as of nearly all; to import `tokenize` takes as long as to check a small file
        )
    import tokenize

    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
    except SyntaxError as error:
        raise SourceError(f"cannot be decoded: {error.msg}") from error
    return "utf-8" if encoding == "utf-8-sig" else encoding


def _decode(data: bytes, encoding: str) -> str:
    if b"\0" in data:
        raise SourceError(
            "holds null bytes: not Python source", data[: data.index(b"\0")].count(b"\n") + 1
        )
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise SourceError(
            f"cannot be decoded as {encoding}: byte {data[error.start]:#04x}", line
        ) from error


def _newline(text: str) -> str:
    """The line break that added lines get: the first one's."""
    match = re.search(r"\r\n|\r|\n", text)
    return match.group() if match else "\n"
