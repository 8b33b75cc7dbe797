"""Which finding most likely lies behind a verdict against the migrated script.

A finding is what the rewriting dealt with or left in the source. Its rule says what it may be behind (a
rule on autocast: another rounding, other gradients), and how likely. Of the findings that could be
behind a verdict, statements that were changed after the migration come first, then those on the blamed line, then
those that need manual changes, then the likeliest, then the nearest in the file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Union

from .divergence import Divergence, Quantity
from .judgement import Check, Judgement
from .source_lines import SourceLines

# What can be wrong: a check that failed, or the quantity that "numbers" failed for.
Symptom = Union[Check, Quantity]

# What can be wrong while every number is the same: with the loop's steps, and with what is read when.
_OF_STEPS = {
    Check.PRINTED,
    Check.STATIC_SHAPES,
    Check.BOUNDED_GRAPH,
    Check.LAUNCHES,
    Check.HOST_READS,
    Check.NO_FALLBACK,
    Check.GRAPHS,
}
REMOTE = 2  # how likely a finding is the cause, as rules say it: the least likely
# The place of these is where a tensor is used first, or what a graph begins with: a line that is rewritten there is no cause by
# itself.
_BY_PLACE = {Check.GRAPHS, Check.STATIC_SHAPES, Check.HOST_READS, Check.NO_FALLBACK}


@dataclass(frozen=True)
class MigrationFinding:
    """A finding that the migration fixed or left, or a statement that was changed after it.

    Attributes:
        code: of its rule; "" of a changed statement.
        path: the file, relative to the project.
        line: in the file as it is, before migration.
        message: of the finding.
        left: it needs a manual change; False if it was rewritten.
        text: the source line.
        behind: symptom, by its value -> how likely such a finding is the reason (0: the likeliest).
        after: of a changed statement, its line in the migrated file.
        is_note: it needs no change, and changes no number.
    """

    code: str
    path: str
    line: int
    message: str
    left: bool
    text: str = ""
    behind: Mapping[str, int] = field(default_factory=dict)
    after: int = 0
    is_note: bool = False

    def __str__(self) -> str:
        if self.after:
            return f"{self.path}:{self.line}: {self.message}"
        done = "needs a manual change" if self.left else "rewritten"
        return f"{self.path}:{self.line}: {self.code} ({done}) {self.message}"


def of_verdict(
    verdict: Judgement,
    divergence: Divergence | None,
    findings: Sequence[MigrationFinding],
    lines: SourceLines,
) -> MigrationFinding | None:
    """The finding most likely behind a failed verdict, or None.

    Args:
        verdict: one that failed.
        divergence: what "numbers" failed for.
        findings: of the whole project.
        lines: to find the verdict's place in the originals.
    """
    if verdict.name == Check.NUMBERS and divergence is not None:
        if divergence.quantity is Quantity.NO_GRADIENT:
            return None
        return likeliest(divergence.quantity, verdict.where, findings, lines)
    known = verdict.name if isinstance(verdict.name, Check) else None
    if known in _BY_PLACE:
        findings = [
            f for f in findings if f.left or f.after or f.behind.get(known.value, REMOTE) < REMOTE
        ]
    return likeliest(known, verdict.where, findings, lines)


def likeliest(
    about: Symptom | None, where: str, findings: Sequence[MigrationFinding], lines: SourceLines
) -> MigrationFinding | None:
    """The finding most likely behind what is wrong `about` something, blamed on `where`.

    Later edits come first, then those on the blamed line, then those that need manual changes, then the likeliest
    rule's, then the nearest. A finding that needs a manual change comes before a rewritten one on the blamed line
    whose rule is no likelier.
    """
    path, line = lines.place(where)
    is_of_numbers = about is Check.PRINTED or about not in _OF_STEPS
    findings = [f for f in findings if not (is_of_numbers and f.is_note)]
    ranks = {id(f): f.behind[about.value] for f in findings if about and about.value in f.behind}
    on_it = [f for f in findings if (f.path, f.line) == (path, line) and _can_change_it(f, about)]
    likeliest_on_it = min((ranks.get(id(f), REMOTE) for f in on_it), default=-1)
    left = [f for f in findings if f.left and ranks.get(id(f), 1 << 30) <= likeliest_on_it]

    def order(f: MigrationFinding) -> tuple[bool, bool, bool, int, int]:
        away = abs(f.line - line) if f.path == path else 1 << 30
        is_first = f in on_it or f in left
        return not f.after, not is_first, not f.left, ranks.get(id(f), 1 << 30), away

    # The line that calls an operation is the cause, if it is known.
    elsewhere = [] if about is Check.NO_FALLBACK and path else findings
    likely = [f for f in elsewhere if id(f) in ranks or (f.after and is_of_numbers)]
    return min([*on_it, *likely], key=order, default=None)


def _can_change_it(finding: MigrationFinding, about: Symptom | None) -> bool:
    """True unless the finding concerns steps alone, and `about` does not."""
    if finding.after:
        return True
    return about in _OF_STEPS or not finding.behind.keys() <= {
        str(check.value) for check in _OF_STEPS
    }
