"""`xla-migrate doctor --cache -- COMMAND`: does a second start of a training read the compile cache?"""

from __future__ import annotations

import os

from .doctor_checks import FAULT, NOTE, OK, DoctorCheck

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..target.cache_check import CacheStart


def checks(command: Sequence[str]) -> list[DoctorCheck]:
    """Start `command` twice with one empty cache; the checks of both starts.

    Raises:
        NotHere: the command cannot be started.
    """
    from ..target.cache_check import two_starts

    return judged(*two_starts(command, os.environ))


def judged(first: CacheStart, second: CacheStart) -> list[DoctorCheck]:
    """Return a check for each start; the second one fails if it compiled again."""
    if first.code or second.code:
        code = first.code or second.code
        return [DoctorCheck("compile cache", FAULT, f"the command failed with exit code {code}")]
    if first.hits is None or second.hits is None:
        advice = "start a script that imports xla_migrate.runtime and trains with torch_xla"
        return [DoctorCheck("compile cache", NOTE, "no process reported compilations", advice)]
    return [
        DoctorCheck("first start", OK, _counted(first)),
        DoctorCheck("second start", *_outcome(second)),
    ]


def _outcome(second: CacheStart) -> tuple[str, str, str]:
    """Return status, detail and advice for the second start."""
    seen = _counted(second)
    if second.unreadable:
        advice = (
            "do not rely on this cache: torch_xla 2.9 writes it on TPUs and on the CPU, but cannot read it"
            " (pytorch/xla issue 9094)"
        )
        return FAULT, f"{seen}; every start compiles again", advice
    if second.misses:
        advice = "the graphs of two starts differ: look for shapes, numbers or names that change between starts"
        return FAULT, seen, advice
    return OK, seen, ""


def _counted(start: CacheStart) -> str:
    parts = [f"{start.hits} graphs read from the cache", f"{start.misses} not in it"]
    if start.unreadable:
        parts.append(f"{start.unreadable} could not be read")
    if start.first_step is not None:
        parts.append(f"first step after {start.first_step:.0f} s")
    return ", ".join(parts)
