"""Why torch_xla compiled, by its own account: the file that PT_XLA_DEBUG_FILE names."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

_PREFIX = "Compilation Analysis:"
_FRAME = re.compile(r"\s*(?P<function>.*) \((?P<path>.*):(?P<line>\d+)\)$")


@dataclass(frozen=True)
class Compilation:
    """One compilation: its cause in torch_xla's words, the place in the script, where it stands."""

    cause: str
    where: str
    offset: int


def read(path: Path, project: str) -> list[Compilation]:
    """All compilations in the file, in order.

    Args:
        path: what torch_xla wrote; may not exist.
        project: the folder whose files are the user's; places are relative to it.
    """
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    found = []
    for match in re.finditer(rf"^{_PREFIX} Compilation Cause$", text, re.MULTILINE):
        block = text[match.end() :].split("-" * 40, 1)[0]
        lines = [line.removeprefix(_PREFIX).strip() for line in block.strip().splitlines()]
        found.append(Compilation(lines[0] if lines else "", _place(lines, project), match.start()))
    return found


def _place(lines: list[str], project: str) -> str:
    root = project.rstrip("/") + "/"
    frames = [m for m in map(_FRAME.fullmatch, lines) if m]
    for frame in frames:
        path = os.path.normpath(frame["path"])
        if path.startswith(root):
            return f"{path.removeprefix(root)}:{frame['line']}"
    for frame in frames:
        if "torch_xla" not in frame["path"]:
            return f"{frame['path']}:{frame['line']}"
    return ""
