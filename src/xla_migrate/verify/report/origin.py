"""The origin of a report: who made it, when, where and how to repeat it."""

from __future__ import annotations

import platform
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone

from ... import __version__


@dataclass(frozen=True)
class Origin:
    """Attributes: xla-migrate's `version`, the `date` (UTC, ISO 8601), the `host`, the `command` that repeats it."""

    version: str = ""
    date: str = ""
    host: str = ""
    command: str = ""


def here_and_now(words: Sequence[str]) -> Origin:
    """The origin of what is made now, by `xla-migrate` with these words."""
    host = f"{platform.node()} ({platform.system()} {platform.machine()})"
    date = datetime.now(timezone.utc).isoformat(timespec="seconds")
    return Origin(__version__, date, host, shlex.join(["xla-migrate", *words]))
