"""The progress of a run over folders: one line on a terminal's standard error, with the remaining time."""

from __future__ import annotations

import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

_FIRST = 0.5  # seconds before anything is shown
_EVERY = 0.1
_SURE = 2.0  # seconds before an estimate of the remaining time is reliable


class FileProgress:
    """Counts files, and the work that they are, so that percentage and time go steadily whatever their sizes.

    Args:
        weights: of each file, in any unit of work.
    """

    def __init__(self, weights: Sequence[int]) -> None:
        self._files = len(weights)
        self._work = sum(weights) or 1
        self._did_files = 0
        self._did = 0
        self._start = time.monotonic()
        self._next = self._start + _FIRST if sys.stderr.isatty() else float("inf")
        self._shown = False

    def step(self, weight: int) -> None:
        """A file of this weight is done."""
        self._did_files += 1
        self._did += weight
        now = time.monotonic()
        if now > self._next:
            self._next = now + _EVERY
            self._shown = True
            print(f"\r{self.line(now)}\x1b[K", end="", file=sys.stderr, flush=True)

    def line(self, now: float) -> str:
        """` 42 %  310 of 742 files, 8 s left`."""
        share = self._did / self._work
        text = f"{100 * share:3.0f} %  {self._did_files} of {self._files} files"
        elapsed = now - self._start
        if elapsed > _SURE and share > 0.02:
            left = elapsed * (1 - share) / share
            text += f", {_time(left)} left"
        return text

    def end(self) -> None:
        """Take the line away."""
        if self._shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def _time(seconds: float) -> str:
    if seconds < 60:
        return f"{max(seconds, 1):.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
