"""The figures of a run, which every report tells in its own way."""

from __future__ import annotations

from ..results import CANNOT_PARSE, UNSAFE, Diagnostic, Run

EFFORTS = ("low", "medium", "high")


class Tally:
    """Counts of findings, notes (`info`) apart. A file that is not Python counts as failed, not as a finding.

    Attributes:
        files: files that were looked at.
        changed: files that were, or would be, changed.
        failed: files that could not be judged or written.
        migrated: findings that were dealt with.
        safe, unsafe: findings left that a run fixes, and that it fixes with --unsafe only.
        refused: findings left whose fix could not be made; only after a rewrite.
        by_hand: findings that need manual changes.
        hand_codes, by_effort: of these the codes, and how many take how much effort.
        notes: findings that are only worth knowing.
        speed: findings left that are about speed only.
    """

    def __init__(self, run: Run) -> None:
        outcomes = run.outcomes
        every = [(row, o) for o in outcomes for row in o.verdict.left if row.code != CANNOT_PARSE]
        left = [(row, o) for row, o in every if row.fails]
        fixed = sum(1 for row, o in left if row.is_fixed_by_a_run(o.unsafe))
        by_hand: list[Diagnostic] = [row for row, _ in left if row.safety is None]
        self.files = len(outcomes)
        self.changed = sum(1 for o in outcomes if o.written or o.diff)
        self.failed = sum(1 for o in outcomes if o.verdict.failed)
        self.migrated = sum(1 for o in outcomes for row in o.verdict.migrated if row.fails)
        self.safe = 0 if run.rewriting else fixed
        self.refused = fixed if run.rewriting else 0
        self.unsafe = sum(1 for row, o in left if row.safety == UNSAFE and not o.unsafe)
        self.by_hand = len(by_hand)
        self.hand_codes = sorted({row.code for row in by_hand})
        self.by_effort = {e: sum(1 for row in by_hand if row.effort == e) for e in EFFORTS}
        self.notes = len(every) - len(left)
        self.left = len(left)
        self.speed = sum(1 for row, _ in left if row.is_about_speed)
        self.total = self.left + self.migrated
