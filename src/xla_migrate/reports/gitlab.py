"""GitLab's code quality report: what a merge request shows."""

from __future__ import annotations

import json

from ..results import ERROR, INFO, WARNING, Run
from .fingerprints import fingerprints

_SEVERITIES = {ERROR: "major", WARNING: "minor", INFO: "info"}


def report(run: Run) -> str:
    """The run as a JSON list."""
    entries = []
    for outcome in run.outcomes:
        path = outcome.left_path.replace("\\", "/")
        if outcome.verdict.problem:
            entries.append(
                _entry(path, 1, 1, "xla-migrate", outcome.verdict.problem, "blocker", "")
            )
        rows = outcome.verdict.left
        for row, print_ in zip(rows, fingerprints(rows)):
            line, end = (row.line, row.end_line) if row.cell is None else (1, 1)
            where = "" if row.cell is None else f"cell {row.cell}, line {row.line}: "
            text = f"{row.code} {where}{row.message}"
            entries.append(
                _entry(path, line, end, row.code, text, _SEVERITIES[row.severity], print_)
            )
    return json.dumps(entries, indent=2)


def _entry(
    path: str, line: int, end: int, name: str, text: str, severity: str, print_: str
) -> dict[str, object]:
    return {
        "description": text,
        "check_name": name,
        "fingerprint": f"{path}:{print_}",  # one file's are unique; the report's must be
        "severity": severity,
        "location": {"path": path, "lines": {"begin": line, "end": end}},
    }
