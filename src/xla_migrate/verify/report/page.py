"""The result as one HTML page that needs nothing else: no network, no script, light and dark."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path

from ..compare import Row
from ..trace import Step
from .facts import Report
from .plots import Chart, Line, draw
from .style import STYLE
from .text import conclusion

MARK = '<meta name="generator" content="xla-migrate verify">'
_ROWS = 500  # of the table of steps


def save(report: Report, path: Path) -> None:
    """Write the page.

    Raises:
        FileExistsError: there is a file of that name that is not a page of ours.
        OSError: it cannot be written.
    """
    if path.exists() and MARK not in path.read_text(encoding="utf-8", errors="replace")[:2000]:
        raise FileExistsError(f"{path} is there and is not a report of xla-migrate: left as it is")
    path.write_text(page(report), encoding="utf-8")


def page(report: Report) -> str:
    """The page's HTML."""
    title = escape(f"{report.script}: {report.status}")
    sections = [_head(report), _blame(report), _verdicts(report), _curves(report)]
    sections += [_performance(report), _places(report), _steps(report), _diff(report)]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f"{MARK}"
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{title}</title><style>{STYLE}</style></head><body><main>"
        f"{''.join(sections)}</main></body></html>\n"
    )


def _head(report: Report) -> str:
    kind = "proven" if report.status == "proven" else "failed"
    settings = ", ".join(f"{name} {value}" for name, value in report.settings.items())
    runs = []
    for name, run in report.sides:
        about = run.traces[0].about if run.traces else {}
        versions = ", ".join(f"{k} {v}" for k, v in about.items())
        runs.append(f"{name}: {versions or 'not run'}, {run.seconds:.0f} s in all")
    words = escape(" ".join(report.args))
    arguments = f'<p class="soft">arguments: <code>{words}</code></p>' if words else ""
    notes = "".join(f'<p class="soft">{escape(note)}</p>' for note in report.notes())
    return (
        f'<h1>{escape(report.script)} <span class="verdict {kind}">{report.status}</span></h1>'
        f"<p>{escape('; '.join(conclusion(report)))}</p>{arguments}"
        f'<p class="soft">{escape(settings)}</p>'
        f'<p class="soft">{escape("; ".join(runs))}</p>{notes}'
    )


def _blame(report: Report) -> str:
    """Errors of the runs, and the first divergence with what is likely behind it."""
    out = []
    for name, run in report.sides:
        if run.failure is not None and run.failure.fault != "not run":
            trace = run.failure.traceback or run.failure.message
            out.append(f'<div class="box"><b>{escape(name)}</b><pre>{escape(trace)}</pre></div>')
    divergence = report.comparison.divergence
    if divergence is not None:
        where = f" <code>{escape(divergence.where)}</code>" if divergence.where else ""
        text = f"<p><b>First difference</b>{where}</p><p>{escape(str(divergence))}</p>"
        out.append(f'<div class="box">{text}</div>')
    for verdict, finding in report.suspects():
        source = f"<pre>{escape(finding.text)}</pre>" if finding.text else ""
        text = f"<p>Most likely behind <b>{escape(verdict.name)}</b>: {escape(str(finding))}</p>"
        out.append(f'<div class="box">{text}{source}</div>')
    return "".join(out)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], figures: int = 0) -> str:
    """A table of escaped cells; the last `figures` columns are figures."""

    def cells(row: Sequence[str], tag: str) -> str:
        plain = len(row) - figures
        kinds = [""] * plain + [' class="figure"'] * figures
        pairs = zip(kinds, row, strict=True)
        return "".join(f"<{tag}{kind}>{cell}</{tag}>" for kind, cell in pairs)

    body = "".join(f"<tr>{cells(row, 'td')}</tr>" for row in rows)
    return (
        f'<div class="scroll"><table><thead><tr>{cells(head, "th")}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def _verdicts(report: Report) -> str:
    if not report.comparison.verdicts:
        return ""
    rows = []
    for v in report.comparison.verdicts:
        kind = {"ok": "ok", "failed": "failed"}.get(v.status, "soft")
        where = f"<code>{escape(v.where)}</code>" if v.where else ""
        rows.append((escape(v.name), f'<b class="{kind}">{v.status}</b>', escape(v.detail), where))
    return "<h2>Verdicts</h2>" + _table(("", "", "evidence", "where"), rows)


def _curves(report: Report) -> str:
    rows = report.comparison.rows
    if not rows:
        return ""
    divergence = report.comparison.divergence
    alarm = ("first difference", max(divergence.event, 0) + 1) if divergence is not None else None
    losses = Chart(
        "loss",
        (
            Line("original", "reference", [row.reference for row in rows]),
            Line("migrated", "target", [row.target for row in rows]),
        ),
        alarm=alarm,
    )
    tolerance = report.settings.get("tolerance", "")
    apart = Chart(
        "relative difference of the losses",
        (Line("relative difference of the losses", "difference", _apart(rows)),),
        log=True,
        limit=(f"allowed {tolerance}", float(tolerance)) if tolerance else None,
        alarm=alarm,
    )
    r = report.comparison.r
    told = ""
    if r is not None:
        told = f'<p class="soft">R of the bf16 criterion: {r:.3f}</p>'
    same = sum(row.difference == 0 for row in rows)
    if same:
        told += f'<p class="soft">{same} of {len(rows)} losses are equal to the last bit (on the floor of the scale)</p>'
    return (
        f"<h2>Loss of each step</h2>{draw(losses)}"
        f"<h2>Difference, on a logarithmic scale</h2>{told}{draw(apart)}"
    )


def _apart(rows: Sequence[Row]) -> list[float | None]:
    return [row.difference for row in rows]


def _total(iterations: Sequence[Sequence[Step]], name: str) -> list[float]:
    return [sum(step.counts.get(name, 0) for step in i) for i in iterations]


def _performance(report: Report) -> str:
    target, reference = report.comparison.target, report.comparison.reference
    if not target.traces or not reference.traces:
        return ""
    ours, theirs = target.traces[0].iterations(), reference.traces[0].iterations()

    def seconds(iterations: Sequence[Sequence[Step]]) -> list[float | None]:
        # The first step's time begins with the process: imports, data, the model's construction.
        return [None, *[sum(step.seconds for step in i) * 1e3 for i in iterations[1:]]]

    compiles = _total(ours, "compiles")
    chart = Chart(
        "milliseconds of each step",
        (
            Line("original, ms", "reference", seconds(theirs)),
            Line("migrated, ms", "target", seconds(ours)),
        ),
        log=True,
        marks={
            i + 1: f"step {i + 1}: {int(n)} compilation{'s' if n != 1 else ''}"
            for i, n in enumerate(compiles)
            if n
        },
        marks_name="compilation",
    )
    rows = [(escape(name), escape(figure)) for name, figure in report.performance()]
    figures = f"<h2>Per step, after warm-up</h2>{_table(('', ''), rows, 1)}" if rows else ""
    return (
        "<h2>Time of each step, and compilations</h2>"
        f'<p class="soft">logarithmic, from the second step on</p>{draw(chart)}{figures}'
    )


def _places(report: Report) -> str:
    out = ""
    reads = report.reads()
    if reads:
        rows = [
            (f"<code>{escape(read.where)}</code>", escape(read.what), f"{a:.2f}", f"{b:.2f}")
            for read, a, b in reads
        ]
        head = ("where", "read by", "original", "migrated")
        out += "<h2>Host reads per step, by line</h2>" + _table(head, rows, 2)
    compiled = report.compilations()
    if compiled:
        rows2 = [
            (f"<code>{escape(where)}</code>", escape(cause), str(times))
            for cause, where, times in compiled
        ]
        out += "<h2>Compilations, by torch_xla's account</h2>"
        out += _table(("where", "cause", "times"), rows2, 1)
    return out


def _steps(report: Report) -> str:
    rows = report.comparison.rows
    if not rows:
        return ""

    def shown(value: float | None, form: str = ".7g") -> str:
        if value is None:
            return ""
        return f"{value:{form}}" if math.isfinite(value) else str(value)

    cells = [
        (
            str(row.event + 1),
            shown(row.reference),
            shown(row.target),
            shown(row.difference, ".1e"),
            shown(row.gradient_reference, ".6g"),
            shown(row.gradient_target, ".6g"),
            shown(row.gradient_difference, ".1e"),
        )
        for row in rows[:_ROWS]
    ]
    head = ("step", "loss", "migrated", "apart", "gradient norm", "migrated", "apart")
    more = f'<p class="soft">and {len(rows) - _ROWS} more</p>' if len(rows) > _ROWS else ""
    return f"<h2>Steps</h2><details><summary>{len(rows)} steps</summary>{_table(head, cells, 7)}{more}</details>"


def _diff(report: Report) -> str:
    out = ["<h2>What was changed</h2>"] if report.files else []
    for path, (before, after) in sorted(report.files.items()):
        lines = difflib.unified_diff(
            before.splitlines(), after.splitlines(), path, path, lineterm=""
        )
        shown = "".join(_diff_line(line) for line in list(lines)[2:])
        out.append(
            f"<details open><summary><code>{escape(path)}</code></summary>"
            f'<pre class="diff">{shown}</pre></details>'
        )
    return "".join(out)


def _diff_line(line: str) -> str:
    kind = {"+": "added", "-": "removed", "@": "at"}.get(line[:1], "")
    attribute = f' class="{kind}"' if kind else ""
    return f"<span{attribute}>{escape(line) or ' '}</span>"
