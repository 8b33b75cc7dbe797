"""The events of the traced process: a line of JSON for each, written at once."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

# The runtime replaces `open`, and computes deferred values before a file is opened again. A graph is recorded in the
# middle of such a computation, which would begin again.
_open = open

_folder: Path | None = None


def open_in(folder: str) -> None:
    """Write into this folder from now on."""
    global _folder
    _folder = Path(folder)


def write(kind: str, **what: Any) -> None:
    """Append an event. Each process writes a separate file."""
    if _folder is not None:
        line = json.dumps({"kind": kind, **what}) + "\n"
        with _open(_folder / f"events.{os.getpid()}.jsonl", "a", encoding="utf-8") as file:
            file.write(line)


def keep(name: str, text: str) -> str:
    """Write a file of text beside the events; its name."""
    assert _folder is not None
    own = f"{os.getpid()}.{name}"
    with _open(_folder / own, "w", encoding="utf-8") as file:
        file.write(text)
    return own


def crash_file() -> Any:
    """Return the file to which Python writes its stack if the process is aborted. Stays open."""
    assert _folder is not None
    return _open(_folder / f"crash.{os.getpid()}.txt", "w", encoding="utf-8")
