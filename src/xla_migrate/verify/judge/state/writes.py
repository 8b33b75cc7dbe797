"""The line by which a tensor is written to more often, or less, than in the original."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

from ..observed import ObservedRun
from ..source_lines import SourceLines


def of_tensor(tensor: str, reference: ObservedRun, target: ObservedRun) -> tuple[str, str] | None:
    """Return (message, `file:line` of the migrated script or "") of the line that differs most.

    Args:
        tensor: its name.
        reference: the original's run, with `explain`.
        target: the migrated script's, likewise.

    Returns:
        None where both write alike, as far as was seen.
    """
    if not reference.traces or not target.traces:
        return None
    known = _Places(reference.project, target.project)
    theirs, _ = _times(reference, tensor, lambda line: line)
    ours, places = _times(target, tensor, known.original)
    depth = {line: i for i, line in enumerate([*ours, *theirs])}  # the innermost first

    def order(line: str) -> tuple[float, int]:
        x, y = theirs[line], ours[line]
        return -abs(x - y) / max(x, y), depth[line]

    differ = [line for line in depth if theirs[line] != ours[line]]
    if not differ:
        return None
    line = min(differ, key=order)
    told = (
        f"{line} of the original writes to it {theirs[line]} times there, {ours[line]} times here"
    )
    return told, places.get(line, "")


class _Places:
    """Map lines of the migrated project to lines of the original."""

    def __init__(self, before: Path, after: Path) -> None:
        self.before = before
        self.after = after

    def original(self, place: str) -> str:
        path, _, line = place.rpartition(":")
        try:
            texts = [
                (base / path).read_text(encoding="utf-8") for base in (self.before, self.after)
            ]
        except OSError:
            return place
        return f"{path}:{SourceLines({path: (texts[0], texts[1])}).original(path, int(line))}"


def _times(
    run: ObservedRun, tensor: str, original: Callable[[str], str]
) -> tuple[Counter[str], dict[str, str]]:
    """Return how often each line of the original took part in a write, and the lines' own places."""
    times: Counter[str] = Counter()
    places: dict[str, str] = {}
    for write in run.traces[0].writes.get(tensor, []):
        for line in dict.fromkeys(write.lines):
            places.setdefault(original(line), line)
            times[original(line)] += write.times
    return times, places
