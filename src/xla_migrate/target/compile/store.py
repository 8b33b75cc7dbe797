"""The compiler's results, kept so that the same graph is not compiled again.

A file for each in the user's cache folder; its name is a hash of all that the reply depends on: the graph's text, the
topology, how many devices, the optimisation level, the compiler's versions, and the form of a reply.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

_FORM = 1


def folder() -> Path:
    """Return the folder of the results."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(Path.home(), ".cache")
    return Path(base) / "xla-migrate" / "compiled"


def key(text: str, topology: dict[str, Any], devices: int, level: str, compiler: str) -> str:
    """The name of a reply."""
    said = json.dumps([_FORM, text, topology, devices, level, compiler], sort_keys=True)
    return hashlib.sha256(said.encode()).hexdigest()


def load(name: str) -> dict[str, Any] | None:
    """The reply, if it is there and whole."""
    try:
        reply = json.loads((folder() / f"{name}.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return reply if isinstance(reply, dict) else None


def save(name: str, reply: dict[str, Any]) -> None:
    """Keep a reply, except for one that may come out otherwise next time. If it cannot be written it is not kept."""
    if reply.get("passing"):
        return
    try:
        folder().mkdir(parents=True, exist_ok=True)
        new = folder() / f"{name}.{os.getpid()}.new"
        new.write_text(json.dumps(reply), encoding="utf-8")
        new.replace(folder() / f"{name}.json")
    except OSError:
        return
