"""Tables in place of the list of findings: `--statistics` by code, `--effort` by file."""

from __future__ import annotations

from ..results import Diagnostic, FileOutcome, Run
from .tally import Tally
from .text import is_concerned, one_line, plural

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


def statistics(run: Run) -> Iterator[str]:
    """Return the number of remaining findings of each code, the most frequent first."""
    found: dict[str, list[tuple[Diagnostic, FileOutcome]]] = {}
    for outcome in run.outcomes:
        for row in outcome.verdict.left:
            found.setdefault(row.code, []).append((row, outcome))
    width = max((len(str(len(rows))) for rows in found.values()), default=0)
    for code, rows in sorted(found.items(), key=lambda item: (-len(item[1]), item[0])):
        fixed = not run.rewriting and any(row.is_fixed_by_a_run(o.unsafe) for row, o in rows)
        yield f"{len(rows):>{width}}  {code}  {'[*]' if fixed else '   '} {rows[0][0].name}"


_HEAD = ("findings", "by a run", "--unsafe", "left to you", "low", "medium", "high")


def effort(run: Run) -> Iterator[str]:
    """By file and in all: how much of the work a run does by itself, and what needs a manual change."""
    rows = [(one_line(o.path), _figures(run.replace(outcomes=(o,)))) for o in run.outcomes]
    rows = [row for row in rows if row[1][0]]
    rows.sort(key=lambda row: (-row[1][3], -row[1][0], row[0]))
    if len(rows) > 1:
        rows.append(("all", _figures(run)))
    width = max((len(name) for name, _ in rows), default=0)
    if rows:
        yield _table_line("file", _HEAD, width)
        for name, figures in rows:
            yield _table_line(name, figures, width)
    yield from _in_all(run)


def _figures(run: Run) -> tuple[int, ...]:
    counts = Tally(run)
    by_run = counts.migrated + counts.safe
    return (counts.total, by_run, counts.unsafe, counts.by_hand, *counts.by_effort.values())


def _table_line(name: str, figures: Sequence[object], width: int) -> str:
    cells = (f"{figure!s:>{len(head)}}" for figure, head in zip(figures, _HEAD))
    return "  ".join([name.ljust(width), *cells])


def _in_all(run: Run) -> Iterator[str]:
    counts = Tally(run)
    concerned = sum(1 for outcome in run.outcomes if is_concerned(outcome))
    by_run = counts.migrated + counts.safe
    yield f"files        {concerned} of {counts.files} have findings"
    share = f" ({100 * by_run / counts.total:.0f} %)" if counts.total else ""
    yield f"by a run     {by_run} of {plural(counts.total, 'finding')}{share}"
    if counts.unsafe:
        yield f"--unsafe     {counts.unsafe} more"
    if counts.refused:
        yield f"refused      {counts.refused}: a run without --effort lists them"
    each = ", ".join(f"{number} {name}" for name, number in counts.by_effort.items())
    yield f"left to you  {counts.by_hand}, by effort: {each}"
