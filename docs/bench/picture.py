"""The picture in the README: what a command printed, as an SVG.

    xla-migrate verify train.py -- 3 | python docs/bench/picture.py "xla-migrate verify train.py" docs/report.svg

Needs rich. Fonts are the reader's own: nothing is fetched.
"""

from __future__ import annotations

import io
import re
import sys
from pathlib import Path

from rich.console import Console
from rich.text import Text


def picture(command: str, printed: str) -> str:
    """An SVG of a terminal with the command and what it printed."""
    console = Console(record=True, width=108, file=io.StringIO(), force_terminal=True)
    console.print(Text(f"$ {command}", style="bold"))
    for line in printed.rstrip().splitlines():
        text = Text.from_ansi(line)
        text.highlight_regex(r"^(ok|proven)\b", "bold green")
        text.highlight_regex(r"^(differs|not proven)\b", "bold red")
        console.print(text, highlight=False)
    svg = console.export_svg(title="xla-migrate")
    return re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(picture(sys.argv[1], sys.stdin.read()), encoding="utf-8")
