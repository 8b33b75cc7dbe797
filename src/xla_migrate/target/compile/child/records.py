"""What the traced process tells: a line of JSON for each event, written at once."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

_folder: Path | None = None


def open_in(folder: str) -> None:
    """Write into this folder from now on."""
    global _folder
    _folder = Path(folder)


def write(kind: str, **what: Any) -> None:
    """Append an event. Each process has a file of its own."""
    if _folder is not None:
        line = json.dumps({"kind": kind, **what}) + "\n"
        with (_folder / f"events.{os.getpid()}.jsonl").open("a", encoding="utf-8") as file:
            file.write(line)


def keep(name: str, text: str) -> str:
    """Write a file of text beside the events; its name."""
    assert _folder is not None
    own = f"{os.getpid()}.{name}"
    (_folder / own).write_text(text, encoding="utf-8")
    return own


def crash_file() -> Any:
    """Where Python writes its stack if the process is aborted. Stays open."""
    assert _folder is not None
    return (_folder / f"crash.{os.getpid()}.txt").open("w", encoding="utf-8")
