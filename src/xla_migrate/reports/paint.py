"""Colours of a terminal, or none."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TextIO

_CODES = {
    "bold": "1",
    "red": "1;31",
    "yellow": "1;33",
    "blue": "1;34",
    "green": "32",
    "removed": "31",
    "dim": "2",
}


class Paint:
    """Colours text, where `on`."""

    def __init__(self, on: bool) -> None:
        self.on = on

    def __call__(self, text: str, style: str) -> str:
        """`text` in a style; see `_CODES`."""
        return f"\x1b[{_CODES[style]}m{text}\x1b[0m" if self.on and text else text


def wanted(when: str, out: TextIO) -> bool:
    """Return True if `out` should be coloured: `when` is auto, always or never (`--color`).

    NO_COLOR (any text) switches auto off and FORCE_COLOR on; see no-color.org.
    """
    if when != "auto":
        return when == "always"
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return bool(os.environ.get("FORCE_COLOR")) or out.isatty()
