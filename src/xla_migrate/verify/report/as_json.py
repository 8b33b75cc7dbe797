"""The result for programs: one object, described in docs/verify.md."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

from .facts import Report

VERSION = 1  # changes when a key changes its meaning


def plain(report: Report) -> dict[str, Any]:
    """The report in dictionaries, lists, strings and finite numbers (others are written as strings)."""
    comparison = report.comparison
    sides = report.sides
    suspects = {verdict.name: finding for verdict, finding in report.suspects()}
    verdicts = []
    for verdict in comparison.verdicts:
        behind = suspects.get(verdict.name)
        verdicts.append({**asdict(verdict), "finding": asdict(behind) if behind else None})
    out = {
        "version": VERSION,
        "script": report.script,
        "args": list(report.args),
        "status": report.status,
        "proven": comparison.proven,
        "could_run": comparison.could_run,
        "exit_code": report.exit_code,
        "message": str(comparison),
        "settings": dict(report.settings),
        "environment": {name: run.traces[0].about if run.traces else {} for name, run in sides},
        "failures": {name: asdict(run.failure) for name, run in sides if run.failure is not None},
        "verdicts": verdicts,
        "divergence": asdict(comparison.divergence) if comparison.divergence else None,
        "r": comparison.r,
        "steps": [asdict(row) for row in comparison.rows],
        "performance": dict(comparison.summary),
        "host_reads": [
            {"where": read.where, "what": read.what, "original": a, "migrated": b}
            for read, a, b in report.reads()
        ],
        "compilations": [
            {"cause": cause, "where": where, "times": times}
            for cause, where, times in report.compilations()
        ],
        "fallbacks": sorted({op for trace in comparison.target.traces for op in trace.fallbacks}),
        "notes": report.notes(),
    }
    checked: dict[str, Any] = _finite(out)
    return checked


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {key: _finite(v) for key, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(v) for v in value]
    return value
