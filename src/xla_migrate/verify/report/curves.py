"""The page's charts: losses and their difference for each optimizer, times and compilations of the steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from html import escape

from ..judge.compare import StepComparison
from ..judge.trace import OptimizerStep
from .facts import Report
from .plots import Chart, Line, draw

_CHARTS = 6  # optimizers that get their own


def losses(report: Report) -> str:
    """Two charts for each optimizer: the loss of both runs, and how far they are apart."""
    rows = report.comparison.rows
    by_optimizer: dict[int, list[StepComparison]] = {}
    for row in rows:
        by_optimizer.setdefault(row.optimizer, []).append(row)
    known = [n for n, own in by_optimizer.items() if any(r.reference is not None for r in own)]
    out = "".join(_of(report, n, by_optimizer[n], len(known) > 1) for n in known[:_CHARTS])
    r = report.comparison.r
    if r is not None:
        out += f'<p class="soft">R of the bf16 criterion: {r:.3f}</p>'
    if len(known) > _CHARTS:
        out += f'<p class="soft">and {len(known) - _CHARTS} optimizers more: see the steps</p>'
    return out


def _of(
    report: Report, optimizer: int, rows: Sequence[StepComparison], one_of_several: bool
) -> str:
    found = report.comparison.divergence
    alarm = None
    if found is not None and found.optimizer == optimizer:
        alarm = "first difference", _place(rows, found.event)
    name = f": {_named(report, optimizer)}" if one_of_several else ""
    losses = Chart(
        f"loss{name}",
        (
            Line("original", "reference", [row.reference for row in rows]),
            Line("migrated", "target", [row.target for row in rows]),
        ),
        alarm=alarm,
    )
    tolerance = report.settings.get("tolerance", "")
    differences = [Line("relative difference", "difference", [r.difference for r in rows])]
    followed = [r for r in report.comparison.followed_rows if r.optimizer == optimizer]
    if followed:
        differences[0] = replace(differences[0], name="left alone")
        own = [row.difference for row in followed]
        differences.append(Line("each step from the original's weights", "target", own))
    apart = Chart(
        f"relative difference of the losses{name}",
        differences,
        log=True,
        limit=(f"allowed {tolerance}", float(tolerance)) if tolerance else None,
        alarm=alarm,
    )
    same = sum(row.difference == 0 for row in rows)
    told = ""
    if same:
        where = " (on the floor of the scale)" if same < len(rows) else ""
        told = f'<p class="soft">{same} of {len(rows)} losses are equal to the last bit{where}</p>'
    difference = "" if same == len(rows) and not followed else draw(apart)
    return (
        f"<h2>Loss of each step{escape(name)}</h2>{draw(losses)}"
        f"<h3>Difference, on a logarithmic scale</h3>{told}{difference}"
        f"{_gradients(rows, name, alarm)}"
    )


def _gradients(rows: Sequence[StepComparison], name: str, alarm: tuple[str, int] | None) -> str:
    """The norm of all gradients at each step, of both."""
    theirs = [row.gradient_reference for row in rows]
    if all(norm is None for norm in theirs):
        return ""
    chart = Chart(
        f"gradient norm{name}",
        (
            Line("original", "reference", theirs),
            Line("migrated", "target", [row.gradient_target for row in rows]),
        ),
        alarm=alarm,
    )
    return f"<h3>Norm of all gradients</h3>{draw(chart)}"


def _place(rows: Sequence[StepComparison], event: int) -> int:
    """The step's place on the chart, from 1."""
    return max(1, sum(row.event <= event for row in rows))


def _named(report: Report, optimizer: int) -> str:
    traces = report.comparison.reference.traces
    known = traces[0].optimizers.get(optimizer) if traces else None
    kind = f" ({known.kind}, {known.built})" if known is not None and known.kind else ""
    return f"optimizer {optimizer + 1}{kind}"


def times(report: Report) -> str:
    """Milliseconds of each step of both, and where the migrated script compiled."""
    target, reference = report.comparison.target, report.comparison.reference
    if not target.traces or not reference.traces:
        return ""
    ours, theirs = target.traces[0].iterations(), reference.traces[0].iterations()
    compiles = [int(sum(step.counts.get("compiles", 0) for step in i)) for i in ours]
    lines = [Line("migrated, ms", "target", _milliseconds(ours))]
    summary = report.comparison.summary
    if summary is not None and summary.reference_step_s is not None:
        lines.insert(0, Line("original on CUDA, ms", "reference", _milliseconds(theirs)))
    known = [ms for line in lines for ms in line.values if ms is not None]
    log = bool(known) and max(known) > 10 * max(min(known), 1e-6)
    chart = Chart(
        "milliseconds of each step",
        lines,
        log=log,
        marks={
            i + 1: f"step {i + 1}: {n} compilation{'s' if n != 1 else ''}"
            for i, n in enumerate(compiles)
            if n
        },
        marks_name="compilation",
    )
    return (
        "<h2>Time of each step, and compilations</h2>"
        f'<p class="soft">{"logarithmic, " if log else ""}from the second step on</p>{draw(chart)}'
    )


def _milliseconds(iterations: Sequence[Sequence[OptimizerStep]]) -> list[float | None]:
    # The first step's time begins with the process: imports, data, the model's construction.
    return [None, *[sum(step.seconds for step in i) * 1e3 for i in iterations[1:]]]
