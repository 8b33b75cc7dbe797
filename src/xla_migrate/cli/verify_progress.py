"""The progress of a verification, on standard error."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from ..verify.experiments.process import Phase, Progress
from ..verify.judge.compare import Comparison
from ..verify.judge.judgement import Check, Status

_EVERY = 30.0  # seconds between lines where standard error is no terminal
_LONG = 600.0  # seconds that are left, from which on there is advice
_ADVICE = (
    "xla-migrate: {name}: about {left} left. To finish sooner, give fewer --steps, or arguments for a smaller"
    " model, batch or sequence"
)


def shower(name: str) -> Callable[[Progress | None], None]:
    """Shows how far a run is: on one line of a terminal, else by a line every half minute."""
    terminal = sys.stderr.isatty()
    last = time.monotonic()
    estimate, advised = TimeLeft(), False

    def show(progress: Progress | None) -> None:
        nonlocal last, advised
        if progress is None:
            if terminal:
                print("\r\x1b[K", end="", file=sys.stderr, flush=True)
            return
        left = estimate.left(progress)
        if left is not None and left > _LONG and not advised:
            advised = True
            start = "\r\x1b[K" if terminal else ""
            advice = _ADVICE.format(name=name, left=_duration(left))
            print(start + advice, file=sys.stderr, flush=True)
        line = _progress_text(name, progress, left)
        if terminal:
            print(f"\r\x1b[K{line}", end="", file=sys.stderr, flush=True)
        elif time.monotonic() - last > _EVERY:
            last = time.monotonic()
            print(line, file=sys.stderr, flush=True)

    return show


def tell_first_result(comparison: Comparison, may_be_rounding: bool) -> None:
    """Print the checks that failed, before the runs that look for the reasons.

    Args:
        comparison: the first result.
        may_be_rounding: these runs find out whether the numbers differ by rounding alone.
    """
    print("xla-migrate: first result; more runs look for the reasons:", file=sys.stderr)
    for verdict in comparison.verdicts:
        is_failed = verdict.status is Status.FAILED
        if is_failed and may_be_rounding and verdict.name == Check.NUMBERS:
            difference = verdict.detail.partition("; ")[0]
            line = f"unclear {verdict.name}: {difference}; is this rounding?"
        elif is_failed or verdict.name == Check.NUMBERS:
            where = f"  [{verdict.where}]" if verdict.where else ""
            state = "FAILED" if is_failed else verdict.status
            line = f"{state} {verdict.name}: {verdict.detail}{where}"
        else:
            continue
        print(f"  {line}", file=sys.stderr, flush=True)


class TimeLeft:
    """The remaining time of a run, estimated from the steps after its first."""

    def __init__(self) -> None:
        self._first: Progress | None = None
        self._last: Progress | None = None

    def left(self, progress: Progress) -> float | None:
        """Return the seconds that are left, or None while that is not known."""
        if not progress.steps:
            return None
        if self._first is None:
            self._first = progress
        if self._last is None or progress.steps != self._last.steps:
            self._last = progress
        done = self._last.steps - self._first.steps
        if not done or progress.of is None or progress.steps >= progress.of:
            return None
        each = (self._last.seconds - self._first.seconds) / done
        elapsed = progress.seconds - self._last.seconds
        return max(each * (progress.of - self._last.steps) - elapsed, 0.0)


def _progress_text(name: str, progress: Progress, left: float | None = None) -> str:
    """Return what the run is doing, and for how long: "migrated: compiling, 40 s (step 3 of 20)"."""
    rest = f", about {_duration(left)} left" if left else ""
    if progress.phase is Phase.TRAINING:
        of = f" of {progress.of}" if progress.of else ""
        return f"{name}: step {progress.steps}{of}, {progress.seconds:.0f} s{rest}"
    where = f" (after step {progress.steps})" if progress.steps else ""
    starting = "starting: imports, data, model, first step"
    words = starting if progress.phase is Phase.STARTING else progress.phase
    return f"{name}: {words}, {progress.in_phase:.0f} s{where}{rest}"


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"
