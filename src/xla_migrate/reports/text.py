"""The text report: one line per finding, as other linters print it, and a closing summary."""

from __future__ import annotations

from collections import Counter

from ..results import CANNOT_PARSE, Diagnostic, FileOutcome, Run
from .tally import Tally

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


_FEW = 2  # places of the same line that are still printed one by one


def lines(run: Run) -> Iterator[str]:
    """Yield a line for each finding, problem and refused fix; one for a note on the same line of several files."""
    repeated = _repeated(run)
    printed: set[tuple[str, str, str]] = set()
    for outcome in run.outcomes:
        path = one_line(outcome.path)
        if outcome.verdict.problem:
            yield f"{path}: {outcome.verdict.problem}"
        for row in outcome.verdict.left:
            more = ""
            if not row.fails and _key(row) in repeated:
                if _key(row) in printed:
                    continue
                printed.add(_key(row))
                more = f" (the same line occurs {repeated[_key(row)]} times)"
            mark = "[*] " if not run.rewriting and row.is_fixed_by_a_run(outcome.unsafe) else ""
            mark += "" if row.fails else "note: "
            yield f"{place(one_line(outcome.left_path), row)}: {row.code} {mark}{one_line(row.message)}{more}"
        for line, cell, reason in outcome.verdict.notes:
            where = f"cell {cell}:{line}" if cell is not None else str(line)
            yield f"{path}:{where}: not rewritten: {reason}"


def _key(row: Diagnostic) -> tuple[str, str, str]:
    return row.code, row.message, row.text


def _repeated(run: Run) -> dict[tuple[str, str, str], int]:
    """Return the notes on lines that occur more than twice, with their number."""
    rows = (row for outcome in run.outcomes for row in outcome.verdict.left)
    found = Counter(_key(row) for row in rows if not row.fails and row.text)
    return {key: number for key, number in found.items() if number > _FEW}


def problems(run: Run) -> Iterator[str]:
    """Yield the lines about files that could not be analysed or written."""
    failed = tuple(o for o in run.outcomes if o.verdict.failed)
    return lines(run.replace(outcomes=failed))


def place(path: str, row: Diagnostic) -> str:
    """`train.py:41:9`, or `train.ipynb:cell 3:2:9`."""
    cell = "" if row.cell is None else f"cell {row.cell}:"
    return f"{path}:{cell}{row.line}:{row.column}"


def copies(run: Run) -> Iterator[str]:
    """Return the places of originals that git has no copy of."""
    for outcome in run.outcomes:
        if outcome.copy:
            what = "the original" if outcome.left_path == outcome.path else "the previous file"
            yield f"{one_line(outcome.left_path)}: {what} is kept as {one_line(outcome.copy)}"


def summary(run: Run) -> str:
    """The closing line."""
    counts = Tally(run)
    if counts.failed and counts.failed == counts.files:
        return f"{plural(counts.failed, 'file')} could not be analysed or written."
    text = _of_rewriting(counts, run) if run.rewriting else _of_check(counts, run)
    text += _about_speed(counts, run)
    if counts.notes:
        text += f" Plus {plural(counts.notes, 'note')}."
    if run.known:
        text += f" {plural(run.known, 'finding')} hidden by the baseline."
    if run.stale:
        occur = "occurs" if run.stale == 1 else "occur"
        text += f" {plural(run.stale, 'entry', 'entries')} of the baseline no longer {occur}: update it with --write-baseline."
    if counts.failed:
        text += f" {plural(counts.failed, 'file')} could not be analysed or written."
    return text


def _about_speed(counts: Tally, run: Run) -> str:
    if not counts.speed:
        return ""
    if counts.speed < counts.left:
        left = " remaining" if run.rewriting else ""
        return f" {counts.speed} of the {counts.left}{left} {'is' if counts.speed == 1 else 'are'} only about speed."
    what = "The remaining findings are" if run.rewriting else "They are"
    if run.exit_code:
        return f" {what} only about speed."
    return f" {what} only about speed: exit code 0 (`--fail-on speed` makes it 1)."


def one_line(text: str) -> str:
    """`text` without characters that would break a line or steer a terminal."""
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text
    )


def is_concerned(outcome: FileOutcome) -> bool:
    """True if something was found in the file that is more than a note."""
    rows = (*outcome.verdict.left, *outcome.verdict.migrated)
    return any(row.fails and row.code != CANNOT_PARSE for row in rows)


def _of_check(counts: Tally, run: Run) -> str:
    judged = counts.files - counts.failed
    if not counts.left:
        return f"Nothing to migrate in {plural(judged, 'file')}."
    concerned = sum(1 for outcome in run.outcomes if is_concerned(outcome))
    files = plural(judged, "file") if concerned == judged else f"{concerned} of {judged} files"
    text = f"{plural(counts.left, 'finding')} in {files}"
    rest = _rest(counts)
    if counts.safe == counts.left:
        return f"{text}: `xla-migrate` migrates {'it' if counts.left == 1 else 'all of them'}."
    if counts.safe:
        rest = [f"`xla-migrate` migrates {counts.safe}", *rest]
    return f"{text}: {', '.join(rest)}."


def _of_rewriting(counts: Tally, run: Run) -> str:
    files = counts.files - counts.failed
    if not counts.total:
        return f"Nothing to migrate in {plural(files, 'file')}."
    would = "would be migrated" if any(outcome.diff for outcome in run.outcomes) else "migrated"
    text = f"{counts.migrated} of {plural(counts.total, 'finding')} {would}"
    text += f" in {plural(counts.changed or files, 'file')}"
    rest = _rest(counts)
    return f"{text}; {', '.join(rest)}." if rest else f"{text}."


def _rest(counts: Tally) -> list[str]:
    """Return the remaining findings as parts of a sentence."""
    parts = []
    if counts.unsafe:
        parts.append(f"{counts.unsafe} more with --unsafe")
    if counts.refused:
        parts.append(f"{counts.refused} could not be rewritten")
    if counts.by_hand:
        needs = "needs" if counts.by_hand == 1 else "need"
        codes = counts.hand_codes
        shown = ", ".join(codes)
        if len(codes) > 6:  # one more code is no longer than "and 1 more"
            shown = f"{', '.join(codes[:5])} and {len(codes) - 5} more"
        parts.append(f"{counts.by_hand} {needs} you ({shown})")
    return parts


def plural(number: int, word: str, words: str = "") -> str:
    """`1 file`, `2 files`."""
    return f"{number} {word if number == 1 else words or word + 's'}"
