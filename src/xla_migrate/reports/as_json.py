"""For programs: one JSON object, described in docs/command.md."""

from __future__ import annotations

import json

from .. import __version__
from ..results import Diagnostic, Run
from .pages import page
from .tally import Tally

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def report(run: Run) -> str:
    """The run as JSON."""
    outcomes = run.outcomes
    content = {
        "version": 1,
        "tool": {"name": "xla-migrate", "version": __version__},
        "findings": [
            _finding(o.left_path, row, run.docs) for o in outcomes for row in o.verdict.left
        ],
        "migrated": [
            _finding(o.path, row, run.docs) for o in outcomes for row in o.verdict.migrated
        ],
        "refused": [
            {"path": _slashed(o.path), "cell": cell, "line": line, "reason": reason}
            for o in outcomes
            for line, cell, reason in o.verdict.notes
        ],
        "errors": [
            {"path": _slashed(o.path), "message": o.verdict.problem}
            for o in outcomes
            if o.verdict.problem
        ],
        "copies": [
            {"path": _slashed(o.path), "copy": _slashed(o.copy)} for o in outcomes if o.copy
        ],
        "summary": summary(run),
    }
    return json.dumps(content, indent=2)


def summary(run: Run) -> dict[str, Any]:
    """The figures: of files, of findings by what becomes of them, by code, and of what is left by effort."""
    counts = Tally(run)
    codes: dict[str, int] = {}
    for outcome in run.outcomes:
        for row in outcome.verdict.left:
            codes[row.code] = codes.get(row.code, 0) + 1
    return {
        "files": counts.files,
        "changed": counts.changed,
        "failed": counts.failed,
        "total": counts.total,
        "migrated": counts.migrated,
        "left": counts.left,
        "safe": counts.safe,
        "unsafe": counts.unsafe,
        "refused": counts.refused,
        "by_hand": counts.by_hand,
        "notes": counts.notes,
        "speed": counts.speed,
        "known": run.known,
        "stale": run.stale,
        "by_code": dict(sorted(codes.items())),
        "by_effort": counts.by_effort,
        "exit_code": run.exit_code,
    }


def _finding(path: str, row: Diagnostic, docs: str) -> dict[str, Any]:
    return {
        "code": row.code,
        "name": row.name,
        "path": _slashed(path),
        "cell": row.cell,
        "line": row.line,
        "column": row.column,
        "end_line": row.end_line,
        "end_column": row.end_column,
        "message": row.message,
        "severity": row.severity,
        "effort": row.effort,
        "safety": row.safety,
        "about": row.about,
        "url": page(row.code, docs),
    }


def _slashed(path: str) -> str:
    return path.replace("\\", "/")
