"""The result as one HTML page that needs nothing else: no network, no script, light and dark."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path

from . import curves
from .facts import Report
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
    sections = [_head(report), _blame(report), _verdicts(report), curves.losses(report)]
    sections += [
        curves.times(report),
        _figures(report),
        _places(report),
        _steps(report),
        _diff(report),
    ]
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
    table = _table(("", "", "evidence", "where"), rows)
    return f'<h2>Verdicts</h2><div class="verdicts">{table}</div>'


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
