"""The result in a terminal: steps, verdicts, the first divergence and what is likely behind it."""

from __future__ import annotations

from ...known_errors.explain import explained, last_known
from ...reports.width import wrapped
from ..judge.compare import StepComparison
from ..judge.judgement import Status
from .facts import Conclusion, Report

_SHOWN = 24  # steps; of more, the first, the last and those around the worst
_SIGNS = {Status.OK: "ok", Status.FAILED: "FAILED", Status.NOT_JUDGED: "-"}


def lines(report: Report, width: int = 10_000) -> list[str]:
    """Return the lines to print; verdicts, notes and figures are wrapped to `width`."""
    comparison = report.comparison
    out: list[str] = []
    for name, run in report.sides:
        if run.failure is not None and run.failure.traceback:
            out += [f"the {_full(name)}'s own error:", run.failure.traceback.rstrip()]
            out += [*explained(last_known(run.failure.traceback)), ""]
    if comparison.rows:
        out.append(
            f"{'step':>6} {'original':>13} {'migrated':>13} {'difference':>10}  gradient norm"
        )
        out += [_row(row) for row in _chosen(comparison.rows, report)]
        out.append("")
    out += _figures(report, width)
    longest = max((len(v.name) for v in report.verdicts), default=0)
    for verdict in report.verdicts:
        where = f"  [{verdict.where}]" if verdict.where else ""
        head = f"{_SIGNS[verdict.status]:<7}{verdict.name:<{longest}}  "
        out += wrapped(f"{verdict.detail}{where}", width, head, " " * min(len(head), width // 2))
    suspects: dict[str, list[str]] = {}
    for verdict, finding in report.suspects():
        suspects.setdefault(str(finding), []).append(f"`{verdict.name}`")
    last = [f"most likely cause of {', '.join(of)}: {text}" for text, of in suspects.items()]
    last += [f"note: {note}" for note in report.notes()]
    for text in (*last, *conclusion(report)):
        out += wrapped(text, width, "", "  ")
    return out


def conclusion(report: Report) -> list[str]:
    """The last lines: the verdict on the numbers, what it holds for, and the verdict on the speed."""
    if report.blame():
        return report.blame()
    comparison = report.comparison
    if report.status is Conclusion.PROVEN:
        steps = len(comparison.rows)
        return [
            f"proven: {report.script} trains the same, {steps} steps alike",
            *_terms(report),
            *_speed(report),
        ]
    names = ", ".join(v.name for v in report.different) or "no step to compare"
    place = ""
    if comparison.divergence is not None:
        tensor = f", {comparison.divergence.tensor}" if comparison.divergence.tensor else ""
        step = comparison.divergence.step
        place = f"; first at {f'step {step}' if step else 'the start'}{tensor}"
    return [f"{report.status}: {names}{place}", *_terms(report), *_speed(report)]


def _terms(report: Report) -> list[str]:
    """Which original, under which conditions, and how to prove the rest."""
    if not report.settings:
        return []
    original = report.settings.get("original") or report.settings.get("reference")
    out = [f"original: {original or f'{report.script} as it is on disk'}"]
    out.append(f"compared in {report.conditions}")
    if report.status is Conclusion.PROVEN and report.not_covered:
        out.append(f"not covered by this run: add {report.not_covered}")
    return out


def _speed(report: Report) -> list[str]:
    """The verdict on the speed, if a check of it failed."""
    if not report.slow:
        return []
    return [f"slow on XLA: {', '.join(v.name for v in report.slow)}"]


def _full(name: str) -> str:
    return "migrated script" if name == "migrated" else name


def _chosen(rows: list[StepComparison], report: Report) -> list[StepComparison | None]:
    if len(rows) <= _SHOWN:
        return list(rows)
    known = [i for i, row in enumerate(rows) if row.difference is not None]
    worst = max(known, key=lambda i: rows[i].difference or 0.0, default=0)
    blamed = report.comparison.divergence
    middles = {worst, worst if blamed is None else max(blamed.event, 0)}
    keep = {*range(5), *range(len(rows) - 5, len(rows))}
    keep |= {k for m in middles for k in range(m - 1, m + 2) if 0 <= k < len(rows)}
    out: list[StepComparison | None] = []
    last = -1
    for i in sorted(keep):
        if i > last + 1:
            out.append(None)
        out.append(rows[i])
        last = i
    return out


def _row(row: StepComparison | None) -> str:
    if row is None:
        return f"{'...':>6}"
    apart = "" if row.difference is None else f"{row.difference:.1e}"
    norm = "" if row.gradient_difference is None else f"{row.gradient_difference:.1e}"
    numbers = f"{_number(row.reference):>13} {_number(row.target):>13}"
    return f"{row.event + 1:>6} {numbers} {apart:>10}  {norm:>13}".rstrip()


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.7g}"


def _figures(report: Report, width: int) -> list[str]:
    s = report.comparison.summary
    if s is None:
        return []
    original = ""
    if s.reference_step_s is not None:
        original = f", {s.reference_step_s * 1e3:.1f} ms in the original"
    parts = (
        f"Python {s.trace_s * 1e3:.1f}, waiting {s.wait_s * 1e3:.1f}, reads {s.read_s * 1e3:.1f}"
    )
    compiled = f"without {s.compilations} compilations, {s.compile_s:.1f} s in the whole run"
    counts = f"{s.launches:.2f} launches, {s.host_reads:.2f} host reads, {s.uploads:.2f} uploads"
    times = f"step {s.step_s * 1e3:.1f} ms{original} ({parts}), {compiled}"
    average = f"on average per step, with evaluation: {counts}"
    return [*wrapped(times, width, "", "  "), *wrapped(average, width, "", "  "), ""]
