"""What a run would change, as a patch that `patch` and `git apply` take."""

from __future__ import annotations

import difflib
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

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


def _unified(old: bytes, new: bytes, path: str) -> Iterator[bytes]:
    name = path.encode(errors="surrogateescape")
    lines = difflib.diff_bytes(
        difflib.unified_diff, _LINE.findall(old), _LINE.findall(new), name, name, lineterm=b"\n"
    )
    for line in lines:
        yield line if line.endswith(b"\n") else line + b"\n\\ No newline at end of file\n"
