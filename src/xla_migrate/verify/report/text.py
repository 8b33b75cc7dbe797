"""The result in a terminal: steps, verdicts, the first divergence and what is likely behind it."""

from __future__ import annotations

from ..compare import Row
from .facts import Report

_SHOWN = 24  # steps; of more, the first, the last and those around the worst
_SIGNS = {"ok": "ok", "failed": "FAILED", "not judged": "-"}


def lines(report: Report) -> list[str]:
    """The lines to print."""
    comparison = report.comparison
    out: list[str] = []
    for name, run in report.sides:
        if run.failure is not None and run.failure.traceback:
            out += [f"the {_full(name)}'s own error:", run.failure.traceback.rstrip(), ""]
    if comparison.rows:
        out.append(
            f"{'step':>6} {'original':>14} {'migrated':>14} {'difference':>11}  gradient norm"
        )
        out += [_row(row) for row in _chosen(comparison.rows, report)]
        out.append("")
    out += _figures(report)
    width = max((len(v.name) for v in comparison.verdicts), default=0)
    for verdict in comparison.verdicts:
        where = f"  [{verdict.where}]" if verdict.where else ""
        out.append(f"{_SIGNS[verdict.status]:<7}{verdict.name:<{width}}  {verdict.detail}{where}")
    for verdict, finding in report.suspects():
        out.append(f"most likely behind `{verdict.name}`: {finding}")
    out += [f"note: {note}" for note in report.notes()]
    return [*out, *conclusion(report)]


def conclusion(report: Report) -> list[str]:
    """The last word."""
    if report.blame():
        return report.blame()
    comparison = report.comparison
    if comparison.proven:
        return [f"proven: {report.script} trains the same, {len(comparison.rows)} steps alike"]
    names = ", ".join(v.name for v in comparison.failed) or "no step to compare"
    place = ""
    if comparison.divergence is not None:
        tensor = f", {comparison.divergence.tensor}" if comparison.divergence.tensor else ""
        step = comparison.divergence.step
        place = f"; first at {f'step {step}' if step else 'the start'}{tensor}"
    return [f"differs: {names}{place}"]


def _full(name: str) -> str:
    return "migrated script" if name == "migrated" else name


def _chosen(rows: list[Row], report: Report) -> list[Row | None]:
    if len(rows) <= _SHOWN:
        return list(rows)
    known = [i for i, row in enumerate(rows) if row.difference is not None]
    worst = max(known, key=lambda i: rows[i].difference or 0.0, default=0)
    blamed = report.comparison.divergence
    middles = {worst, worst if blamed is None else max(blamed.event, 0)}
    keep = {*range(5), *range(len(rows) - 5, len(rows))}
    keep |= {k for m in middles for k in range(m - 1, m + 2) if 0 <= k < len(rows)}
    out: list[Row | None] = []
    last = -1
    for i in sorted(keep):
        if i > last + 1:
            out.append(None)
        out.append(rows[i])
        last = i
    return out


def _row(row: Row | None) -> str:
    if row is None:
        return f"{'...':>6}"
    apart = "" if row.difference is None else f"{row.difference:.1e}"
    norm = "" if row.gradient_difference is None else f"{row.gradient_difference:.1e}"
    numbers = f"{_number(row.reference):>14} {_number(row.target):>14}"
    return f"{row.event + 1:>6} {numbers} {apart:>11}  {norm:>13}".rstrip()


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.7g}"


def _figures(report: Report) -> list[str]:
    s = report.comparison.summary
    if not s:
        return []
    times = f"step {s['reference_step_s'] * 1e3:.1f} ms in the original, {s['step_s'] * 1e3:.1f} ms migrated"
    parts = f"trace {s['trace_s'] * 1e3:.1f}, compile {s['compile_s'] * 1e3:.1f}"
    parts += f", execute {s['execute_s'] * 1e3:.1f} beside it"
    counts = f"per step: {s['compiles']:.2f} compilations, {s['launches']:.2f} launches"
    counts += f", {s['host_reads']:.2f} host reads, {s['uploads']:.2f} uploads"
    return [f"{times} ({parts}); {counts}", ""]
