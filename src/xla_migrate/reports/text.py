"""For people: one line per finding, as other linters write them, and a closing summary."""

from __future__ import annotations

from ..results import CANNOT_PARSE, Outcome, Row, Run
from .tally import Tally

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


def lines(run: Run) -> Iterator[str]:
    """One line for each finding, problem and refused fix."""
    for outcome in run.outcomes:
        path = one_line(outcome.path)
        if outcome.verdict.problem:
            yield f"{path}: {outcome.verdict.problem}"
        for row in outcome.verdict.left:
            mark = "[*] " if not run.rewriting and row.is_fixed_by_a_run(outcome.unsafe) else ""
            yield f"{place(path, row)}: {row.code} {mark}{one_line(row.message)}"
        for line, cell, reason in outcome.verdict.notes:
            where = f"cell {cell}:{line}" if cell is not None else str(line)
            yield f"{path}:{where}: not rewritten: {reason}"


def place(path: str, row: Row) -> str:
    """`train.py:41:9`, or `train.ipynb:cell 3:2:9`."""
    cell = "" if row.cell is None else f"cell {row.cell}:"
    return f"{path}:{cell}{row.line}:{row.column}"


def copies(run: Run) -> Iterator[str]:
    """Where originals are kept that git could not give back."""
    for outcome in run.outcomes:
        if outcome.copy:
            yield f"{one_line(outcome.path)}: the original is kept as {one_line(outcome.copy)}"


def summary(run: Run) -> str:
    """The closing line."""
    counts = Tally(run)
    if counts.failed and counts.failed == counts.files:
        return f"{_plural(counts.failed, 'file')} could not be judged or written."
    text = _of_rewriting(counts, run) if run.rewriting else _of_check(counts, run)
    if counts.notes:
        text += f" {_plural(counts.notes, 'note')} besides."
    if run.known:
        text += f" {_plural(run.known, 'finding')} left out by the baseline."
    if run.stale:
        occur = "occurs" if run.stale == 1 else "occur"
        text += f" {_plural(run.stale, 'entry', 'entries')} of the baseline no longer {occur}: write it anew."
    if counts.failed:
        text += f" {_plural(counts.failed, 'file')} could not be judged or written."
    return text


def statistics(run: Run) -> Iterator[str]:
    """How many findings of each code are left, the most frequent first."""
    found: dict[str, list[tuple[Row, Outcome]]] = {}
    for outcome in run.outcomes:
        for row in outcome.verdict.left:
            found.setdefault(row.code, []).append((row, outcome))
    width = max((len(str(len(rows))) for rows in found.values()), default=0)
    for code, rows in sorted(found.items(), key=lambda item: (-len(item[1]), item[0])):
        fixed = not run.rewriting and any(row.is_fixed_by_a_run(o.unsafe) for row, o in rows)
        yield f"{len(rows):>{width}}  {code}  {'[*]' if fixed else '   '} {rows[0][0].name}"


def effort(run: Run) -> Iterator[str]:
    """How much of the work a run does by itself, and what is left to a person."""
    counts = Tally(run)
    concerned = sum(1 for outcome in run.outcomes if _is_concerned(outcome))
    by_run = counts.migrated + counts.safe
    yield f"files        {concerned} of {counts.files} have findings"
    share = f" ({100 * by_run / counts.total:.0f} %)" if counts.total else ""
    yield f"by a run     {by_run} of {_plural(counts.total, 'finding')}{share}"
    if counts.unsafe:
        yield f"--unsafe     {counts.unsafe} more"
    if counts.refused:
        yield f"refused      {counts.refused}, see the lines above"
    each = ", ".join(f"{number} {name}" for name, number in counts.by_effort.items())
    yield f"left to you  {counts.by_hand}, by effort: {each}"


def one_line(text: str) -> str:
    """`text` without characters that would break a line or steer a terminal."""
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text
    )


def _is_concerned(outcome: Outcome) -> bool:
    rows = (*outcome.verdict.left, *outcome.verdict.migrated)
    return any(row.fails and row.code != CANNOT_PARSE for row in rows)


def _of_check(counts: Tally, run: Run) -> str:
    judged = counts.files - counts.failed
    if not counts.left:
        return f"Nothing to migrate in {_plural(judged, 'file')}."
    concerned = sum(1 for outcome in run.outcomes if _is_concerned(outcome))
    files = _plural(judged, "file") if concerned == judged else f"{concerned} of {judged} files"
    text = f"{_plural(counts.left, 'finding')} in {files}"
    rest = _rest(counts)
    if counts.safe == counts.left:
        return f"{text}: `xla-migrate` migrates {'it' if counts.left == 1 else 'all of them'}."
    if counts.safe:
        rest = [f"`xla-migrate` migrates {counts.safe}", *rest]
    return f"{text}: {', '.join(rest)}."


def _of_rewriting(counts: Tally, run: Run) -> str:
    files = counts.files - counts.failed
    if not counts.total:
        return f"Nothing to migrate in {_plural(files, 'file')}."
    would = "would be migrated" if any(outcome.diff for outcome in run.outcomes) else "migrated"
    text = f"{counts.migrated} of {_plural(counts.total, 'finding')} {would}"
    text += f" in {_plural(counts.changed or files, 'file')}"
    rest = _rest(counts)
    return f"{text}; {', '.join(rest)}." if rest else f"{text}."


def _rest(counts: Tally) -> list[str]:
    """What a run leaves, as parts of a sentence."""
    parts = []
    if counts.unsafe:
        parts.append(f"{counts.unsafe} more with --unsafe")
    if counts.refused:
        parts.append(f"{counts.refused} could not be rewritten")
    if counts.by_hand:
        needs = "needs" if counts.by_hand == 1 else "need"
        codes = counts.hand_codes
        shown = ", ".join(codes[:5]) + (f" and {len(codes) - 5} more" if len(codes) > 5 else "")
        parts.append(f"{counts.by_hand} {needs} you ({shown})")
    return parts


def _plural(number: int, word: str, words: str = "") -> str:
    return f"{number} {word if number == 1 else words or word + 's'}"
