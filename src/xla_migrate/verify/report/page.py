"""The result as one HTML page that needs nothing else: no network, no script, light and dark."""

from __future__ import annotations

import difflib
import json
import math
import re
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path

from ..judge.failures import Fault
from ..judge.judgement import Status
from . import curves
from .as_json import plain
from .explanations import advice, meaning
from .facts import Conclusion, Report
from .style import STYLE
from .text import conclusion

MARK = '<meta name="generator" content="xla-migrate verify">'
_KINDS = {Status.OK: "ok", Status.FAILED: "failed", Status.NOT_JUDGED: "soft"}  # CSS classes
_WORST = 10  # tensors
_OTHERS = 12  # names of files that were not loaded
_ROWS = 500  # of the table of steps


def save(report: Report, path: Path) -> None:
    """Write the page.

    Raises:
        FileExistsError: a file of that name exists that is not a page of xla-migrate.
        OSError: it cannot be written.
    """
    if path.exists() and MARK not in path.read_text(encoding="utf-8", errors="replace")[:2000]:
        raise FileExistsError(f"{path} exists and is not a report of xla-migrate: not overwritten")
    path.write_text(page(report), encoding="utf-8")


def remove(path: Path) -> None:
    """Remove an earlier page of xla-migrate: it says nothing true about a script that could not run."""
    try:
        if MARK in path.read_text(encoding="utf-8", errors="replace")[:2000]:
            path.unlink()
    except OSError:
        pass


def page(report: Report) -> str:
    """The page's HTML."""
    title = escape(f"{report.script}: {report.status}")
    sections = [
        _head(report),
        _blame(report),
        _verdicts(report),
        curves.losses(report),
        _tensors(report),
    ]
    sections += [
        curves.times(report),
        _figures(report),
        _places(report),
        _steps(report),
        _diff(report),
        _data(report),
    ]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f"{MARK}"
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{title}</title><style>{STYLE}</style></head><body><main>"
        f"{''.join(sections)}</main></body></html>\n"
    )


def _head(report: Report) -> str:
    kind = "proven" if report.status is Conclusion.PROVEN else "failed"
    notes = "".join(f'<p class="soft">{_marked(note)}</p>' for note in report.notes())
    lines = "".join(f"<p>{_marked(line)}</p>" for line in conclusion(report))
    return (
        f'<h1>{escape(report.script)} <span class="verdict {kind}">{report.status}</span></h1>'
        f"{lines}{notes}{_about(report)}"
    )


def _marked(text: str) -> str:
    """Return escaped text with its code between backticks as elements."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))


def _date(iso: str) -> str:
    return iso.replace("T", " ").replace("+00:00", " UTC")


def _about(report: Report) -> str:
    """Return version, date, host, environment, and the command that repeats the run."""
    made = report.origin
    rows = [
        ("made by", f"xla-migrate {made.version}".strip()),
        ("on", _date(made.date)),
        ("at", made.host),
    ]
    for name, run in report.sides:
        about = run.traces[0].about if run.traces else {}
        versions = ", ".join(f"{k} {v}" for k, v in about.items())
        rows.append((name, f"{versions or 'not run'}; {run.seconds:.0f} s in total"))
    rows.append(("settings", ", ".join(f"{k} {v}" for k, v in report.settings.items())))
    shown = [(escape(name), escape(text)) for name, text in rows if text]
    if report.args:
        shown.append(("arguments", f"<code>{escape(' '.join(report.args))}</code>"))
    if made.command:
        shown.append(("to repeat it", f"<code>{escape(made.command)}</code>"))
    return "<dl>" + "".join(f"<dt>{name}</dt><dd>{text}</dd>" for name, text in shown) + "</dl>"


def _blame(report: Report) -> str:
    """Errors of the runs, and the first divergence with what is likely behind it."""
    out = []
    for name, run in report.sides:
        if run.failure is not None and run.failure.fault is not Fault.NOT_RUN:
            trace = run.failure.traceback or run.failure.message
            out.append(f'<div class="box"><b>{escape(name)}</b><pre>{escape(trace)}</pre></div>')
    divergence = report.comparison.divergence
    if divergence is not None:
        where = f" <code>{escape(divergence.where)}</code>" if divergence.where else ""
        text = f"<p><b>First difference</b>{where}</p><p>{escape(str(divergence))}</p>"
        out.append(f'<div class="box">{text}</div>')
    for verdict, finding in report.suspects():
        source = f"<pre>{escape(finding.text)}</pre>" if finding.text else ""
        text = f"<p>Most likely cause of <b>{escape(verdict.name)}</b>: {_marked(str(finding))}</p>"
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
    if not report.verdicts:
        return ""
    rows = []
    for v in report.verdicts:
        kind = _KINDS[v.status]
        where = f"<code>{escape(v.where)}</code>" if v.where else ""
        means = meaning(v.name)
        if means and v.status is not Status.OK:
            means = f"Expected: {means}"
        detail = f'<span class="means">{escape(means)}</span>' if means else ""
        detail += escape(v.detail)
        if v.status is Status.FAILED and advice(v.name):
            detail += f'<span class="advice"><b>What to do:</b> {escape(advice(v.name))}</span>'
        rows.append((escape(v.name), f'<b class="{kind}">{v.status}</b>', detail, where))
    table = _table(("", "", "evidence", "where"), rows)
    return f'<h2>Verdicts</h2><div class="verdicts">{table}</div>'


def _tensors(report: Report) -> str:
    """Return how many tensors were compared, and those that differ most."""
    tensors = report.comparison.tensors
    if not tensors:
        return ""
    weighed = sum(t.weights is not None for t in tensors)
    graded = sum(t.gradient is not None for t in tensors)
    shown = tensors[:_WORST]
    rows = [
        (
            f"<code>{escape(t.name)}</code>",
            "×".join(map(str, t.shape)),
            "" if t.gradient is None else f"{t.gradient:.1e}",
            "" if t.weights is None else f"{t.weights:.1e}",
        )
        for t in shown
    ]
    head = ("tensor", "shape", "gradient", "weights")
    told = (
        f"{len(tensors)} tensors: the gradients of {graded} and the weights of {weighed} were compared at every"
        f" step. The {len(shown)} that are furthest apart; gradients relative to the norm of all gradients,"
        " weights to their own norm:"
    )
    return f'<h2>Tensor by tensor</h2><p class="soft">{told}</p>{_table(head, rows, 2)}'


def _figures(report: Report) -> str:
    rows = [(escape(name), escape(figure)) for name, figure in report.performance()]
    return f"<h2>Per step, after warm-up</h2>{_table(('', ''), rows, 1)}" if rows else ""


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
    loaded = report.loaded()
    out = ["<h2>What was changed</h2>"] if report.files else []
    for path, (before, after) in sorted(loaded.items()):
        lines = difflib.unified_diff(
            before.splitlines(), after.splitlines(), path, path, lineterm=""
        )
        shown = "".join(_diff_line(line) for line in list(lines)[2:])
        out.append(
            f"<details open><summary><code>{escape(path)}</code></summary>"
            f'<pre class="diff">{shown or "nothing"}</pre></details>'
        )
    others = sorted(set(report.files) - set(loaded))
    if others:
        names = ", ".join(f"<code>{escape(name)}</code>" for name in others[:_OTHERS])
        more = f" and {len(others) - _OTHERS} more" if len(others) > _OTHERS else ""
        out.append(
            f'<p class="soft">also changed, but not loaded by this script: {names}{more}</p>'
        )
    return "".join(out)


def _data(report: Report) -> str:
    """The report for programs, as data in the page; nothing runs it."""
    text = json.dumps(plain(report), allow_nan=False).replace("<", "\\u003c")
    return f'<script type="application/json" id="xla-migrate-report">{text}</script>'


def _diff_line(line: str) -> str:
    kind = {"+": "added", "-": "removed", "@": "at"}.get(line[:1], "")
    attribute = f' class="{kind}"' if kind else ""
    return f"<span{attribute}>{escape(line) or ' '}</span>"
