"""The result for programs: one object, described in docs/verify.md."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

from ..judge.blame import MigrationFinding
from ..judge.divergence import Divergence
from ..judge.performance.verdicts import NOT_FALLBACKS
from .facts import Conclusion, Report

VERSION = 2  # changes when a key changes its meaning


def plain(report: Report) -> dict[str, Any]:
    """The report in dictionaries, lists, strings and finite numbers (others are written as strings)."""
    comparison = report.comparison
    sides = report.sides
    suspects = {verdict.name: finding for verdict, finding in report.suspects()}
    verdicts = []
    for verdict in report.verdicts:
        behind = suspects.get(verdict.name)
        verdicts.append({**asdict(verdict), "finding": _finding(behind) if behind else None})
    out = {
        "version": VERSION,
        "made": asdict(report.origin),
        "script": report.script,
        "args": list(report.args),
        "status": str(report.status),
        "proven": report.status is Conclusion.PROVEN,
        "slow": [verdict.name for verdict in report.slow],
        "different": [verdict.name for verdict in report.different],
        "conditions": report.conditions,
        "could_run": comparison.could_run,
        "exit_code": report.exit_code,
        "message": str(comparison),
        "settings": dict(report.settings),
        "environment": {name: run.traces[0].about if run.traces else {} for name, run in sides},
        "failures": {name: asdict(run.failure) for name, run in sides if run.failure is not None},
        "verdicts": verdicts,
        "divergence": _divergence(comparison.divergence),
        "r": comparison.r,
        "steps": [asdict(row) for row in comparison.rows],
        "tensors": [asdict(tensor) for tensor in comparison.tensors],
        "performance": asdict(comparison.summary) if comparison.summary else {},
        "host_reads": [
            {"where": read.where, "what": read.what, "original": a, "migrated": b}
            for read, a, b in report.reads()
        ],
        "compilations": [
            {"cause": cause, "where": where, "times": times}
            for cause, where, times in report.compilations()
        ],
        "fallbacks": sorted(
            {op for trace in comparison.target.traces for op in trace.fallbacks} - NOT_FALLBACKS
        ),
        "notes": report.notes(),
    }
    checked: dict[str, Any] = _finite(out)
    return checked


def _finding(found: MigrationFinding) -> dict[str, Any]:
    plain = asdict(found)
    del plain["behind"]
    return plain


def _divergence(found: Divergence | None) -> dict[str, Any] | None:
    if found is None:
        return None
    plain = {**asdict(found), "quantity": found.name}
    del plain["of"]
    return plain


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {key: _finite(v) for key, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(v) for v in value]
    return value
