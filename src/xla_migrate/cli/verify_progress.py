"""How far a verification is, on standard error."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from ..verify.experiments.process import Phase, Progress

_EVERY = 30.0  # seconds between lines where standard error is no terminal


def shower(name: str) -> Callable[[Progress | None], None]:
    """Shows how far a run is: on one line of a terminal, else by a line every half minute."""
    terminal = sys.stderr.isatty()
    last = time.monotonic()

    def show(progress: Progress | None) -> None:
        nonlocal last
        if progress is None:
            if terminal:
                print("\r\x1b[K", end="", file=sys.stderr, flush=True)
            return
        line = _told(name, progress)
        if terminal:
            print(f"\r\x1b[K{line}", end="", file=sys.stderr, flush=True)
        elif time.monotonic() - last > _EVERY:
            last = time.monotonic()
            print(line, file=sys.stderr, flush=True)

    return show


def _told(name: str, progress: Progress) -> str:
    """What the run is doing, and for how long: "migrated: compiling, 40 s (step 3 of 20)"."""
    if progress.phase is Phase.TRAINING:
        of = f" of {progress.of}" if progress.of else ""
        return f"{name}: step {progress.steps}{of}, {progress.seconds:.0f} s"
    where = f" (after step {progress.steps})" if progress.steps else ""
    words = "starting: imports, data, model" if progress.phase is Phase.STARTING else progress.phase
    return f"{name}: {words}, {progress.in_phase:.0f} s{where}"
