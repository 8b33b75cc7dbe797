"""The changes of a run, as a patch that `patch` and `git apply` take."""

from __future__ import annotations

import difflib
import re
from bisect import bisect_left

from xla_codemods.line_diff import opcodes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..results import Diagnostic

# What patch takes for a line: it ends with a line feed, and nothing else.
_LINE = re.compile(rb"[^\n]*\n|[^\n]+")


def difference(old: bytes, new: bytes, path: str) -> bytes:
    """The unified diff from `old` to `new`; of a notebook, that of each cell's source."""
    if not path.endswith(".ipynb"):
        return b"".join(_unified(old, new, path))
    from ..files.notebook import Notebook

    before, after = Notebook(old).texts(), Notebook(new).texts()
    out = b""
    for number, text in before.items():
        changed = after.get(number, "")
        if changed != text:
            shown = f"{path}:cell {number}"
            out += b"".join(_unified(text.encode() + b"\n", changed.encode() + b"\n", shown))
    return out


def in_original(
    rows: tuple[Diagnostic, ...], old: bytes, new: bytes, path: str
) -> tuple[Diagnostic, ...]:
    """Return findings of `new` with line numbers of `old`, since `--diff` leaves the file unchanged.

    A finding on a line that the diff changes has the line that this one is most like, of those that it takes the place of.
    """
    if not rows:
        return rows
    before, after = _texts(old, path), _texts(new, path)
    maps = {cell: _Lines(before.get(cell, b""), text) for cell, text in after.items()}
    return tuple(_moved(row, maps[row.cell]) for row in rows)


def _texts(data: bytes, path: str) -> dict[int | None, bytes]:
    if not path.endswith(".ipynb"):
        return {None: data}
    from ..files.notebook import Notebook

    return {cell: text.encode() for cell, text in Notebook(data).all_texts().items()}


class _Lines:
    """Which line of the old text one of the new is, or takes the place of."""

    def __init__(self, old: bytes, new: bytes) -> None:
        self.before, self.after = old.splitlines(), new.splitlines()
        found = opcodes(self.before, self.after)
        self.codes = [code for code in found if code[3] < code[4]]
        self._lasts = [last for _, _, _, _, last in self.codes]

    def old(self, line: int) -> tuple[int, bool]:
        """Its number in the old text, and whether it is the same line."""
        place = bisect_left(self._lasts, line)
        if place == len(self.codes) or line <= self.codes[place][3]:
            return line, True
        tag, start, end, first, _ = self.codes[place]
        if tag == "equal":
            return start + line - first, True
        likest = max(range(start, end), key=lambda k: self._likeness(k, line), default=start)
        return min(likest + 1, len(self.before)), False

    def _likeness(self, old: int, line: int) -> float:
        one, other = (
            self.before[old].decode(errors="replace"),
            self.after[line - 1].decode(errors="replace"),
        )
        return difflib.SequenceMatcher(None, one, other, autojunk=False).ratio()


def _moved(row: Diagnostic, lines: _Lines) -> Diagnostic:
    line, same = lines.old(row.line)
    if not same:
        return row.replace(line=line, column=1, end_line=line, end_column=1)
    return row.replace(line=line, end_line=line + row.end_line - row.line)


def _unified(old: bytes, new: bytes, path: str) -> Iterator[bytes]:
    name = path.encode(errors="surrogateescape")
    lines = difflib.diff_bytes(
        difflib.unified_diff, _LINE.findall(old), _LINE.findall(new), name, name, lineterm=b"\n"
    )
    for line in lines:
        yield line if line.endswith(b"\n") else line + b"\n\\ No newline at end of file\n"
