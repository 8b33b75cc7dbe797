"""The outcome as one HTML page that needs nothing else."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

from ...verify.report.plots import Chart, Line, draw
from ...verify.report.style import STYLE
from .judge import Result, TuneOutcome
from .text import apart, device, interval, ordered

MARK = '<meta name="generator" content="xla-migrate tune">'
_WIDTH, _ROW, _NAMES, _RIGHT = 760, 26, 300, 70
_STYLE = """
svg .bar { fill: var(--reference); opacity: .45; } svg .bar.winner { fill: var(--good); opacity: .8; }
svg .bar.different { fill: none; stroke: var(--bad); stroke-dasharray: 4 3; opacity: 1; }
svg .whisker { stroke: var(--ink); } svg text.name { fill: var(--ink); }
tr.winner td { background: var(--good-bg); } .remark { color: var(--soft); font-size: 13px; }
"""


@dataclass
class About:
    """Texts of the page in addition to the outcome.

    Attributes:
        conclusion: sentences, as in the terminal.
        prices: rows of `text.price_rows`.
    """

    script: str
    args: Sequence[str]
    settings: str
    conclusion: Sequence[str]
    prices: Sequence[tuple[str, str, str, str]] = field(default_factory=list)


def save(outcome: TuneOutcome, about: About, path: Path) -> None:
    """Write the page.

    Raises:
        FileExistsError: a file of that name exists that is not a page of xla-migrate.
        OSError: it cannot be written.
    """
    if path.exists() and MARK not in path.read_text(encoding="utf-8", errors="replace")[:2000]:
        raise FileExistsError(
            f"{path} exists and is not a page of xla-migrate tune: not overwritten"
        )
    path.write_text(page(outcome, about), encoding="utf-8")


def page(outcome: TuneOutcome, about: About) -> str:
    """The page's HTML."""
    title = f"{about.script}: tuned"
    words = escape(" ".join(about.args))
    head = (
        f"<h1>{escape(title)}</h1>"
        + (f'<p class="soft">arguments: <code>{words}</code></p>' if words else "")
        + f'<p class="soft">{escape(about.settings)}; measured on {escape(device(outcome))}</p>'
        + "".join(f"<p>{_sentence(line)}</p>" for line in about.conclusion)
    )
    body = [
        head,
        _gains(outcome),
        _table(outcome),
        _prices(about),
        _losses(outcome),
        _steps(outcome),
    ]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'{MARK}<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE}{_STYLE}</style></head><body><main>"
        f"{''.join(body)}</main></body></html>\n"
    )


def _sentence(line: str) -> str:
    text, keep, command = line.partition("keep it: ")
    if keep:
        return f"{escape(text)}keep it: <code>{escape(command)}</code>"
    return f"&nbsp;&nbsp;{escape(line.strip())}" if line.startswith(" ") else escape(line)


def _gains(outcome: TuneOutcome) -> str:
    """Bars of the gain over the baseline, with their intervals."""
    known = [r for r in ordered(outcome) if r.gain is not None]
    most = max(r.gain.high for r in known if r.gain is not None) * 1.02
    span = _WIDTH - _NAMES - _RIGHT
    height = _ROW * len(known) + 24
    parts = []
    for i, result in enumerate(known):
        assert result.gain is not None
        y = i * _ROW + 4
        kind = "winner" if result is outcome.winner else "" if result.alike else "different"
        at, low, high = (
            _NAMES + span * v / most for v in (result.gain.value, result.gain.low, result.gain.high)
        )
        middle = y + (_ROW - 8) / 2
        name = result.setting.name
        short = name if len(name) <= 46 else name[:45] + "…"
        parts.append(
            f'<text class="name" x="{_NAMES - 8}" y="{middle + 4:.1f}" text-anchor="end">{escape(short)}'
            f"<title>{escape(name)}</title></text>"
            f'<rect class="bar {kind}" x="{_NAMES}" y="{y}" width="{at - _NAMES:.1f}" height="{_ROW - 8}"/>'
            f'<line class="whisker" x1="{low:.1f}" x2="{high:.1f}" y1="{middle:.1f}" y2="{middle:.1f}"/>'
            f'<text x="{high + 6:.1f}" y="{middle + 4:.1f}">{result.gain.value:.3f}</text>'
        )
    one = _NAMES + span / most
    base = _ROW * len(known)
    parts.append(
        f'<line class="limit" x1="{one:.1f}" x2="{one:.1f}" y1="0" y2="{base}"/>'
        f'<text x="{one:.1f}" y="{base + 16}" text-anchor="middle">as it is</text>'
    )
    svg = (
        f'<svg viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="gain">{"".join(parts)}</svg>'
    )
    note = "times the throughput of the script as it is; lines are 95 % intervals; dashed: trains differently"
    return f'<h2>Gain</h2><h3>{note}</h3><div class="scroll">{svg}</div>'


def _rows(head: Sequence[str], rows: Iterable[tuple[str, Sequence[str]]], figures: int) -> str:
    def cells(row: Sequence[str], tag: str) -> str:
        kinds = [""] * (len(row) - figures) + [' class="figure"'] * figures
        return "".join(f"<{tag}{k}>{cell}</{tag}>" for k, cell in zip(kinds, row, strict=True))

    body = "".join(f'<tr class="{kind}">{cells(row, "td")}</tr>' for kind, row in rows)
    return f'<div class="scroll"><table><tr>{cells(head, "th")}</tr>{body}</table></div>'


def _table(outcome: TuneOutcome) -> str:
    rows = []
    for result in ordered(outcome):
        rows.append(("winner" if result is outcome.winner else "", _cells(result)))
    head = ("setting", "samples/s", "gain", "two steps after", "losses apart")
    return f"<h2>Settings</h2>{_rows(head, rows, 4)}"


def _cells(result: Result) -> list[str]:
    remarks = "".join(f'<div class="remark">{escape(r)}</div>' for r in result.remarks)
    name = f"{escape(result.setting.name)}{remarks}"
    if result.failure or result.throughput is None or result.gain is None:
        return [f'{name}<div class="failed">{escape(result.failure)}</div>', "", "", "", ""]
    first = statistics.median(t.first_step for t in result.trials)
    kind = "ok" if result.alike else "failed"
    figures = [interval(result.throughput, ".4g"), interval(result.gain, ".3f"), f"{first:.1f} s"]
    return [name, *figures, f'<span class="{kind}">{apart(result)}</span>']


def _prices(about: About) -> str:
    if not about.prices:
        return ""
    rows = [("", [escape(cell) for cell in row]) for row in about.prices]
    head = ("instance", "setting", "$ per million samples", "$ per epoch")
    note = "prices and relative speeds as given; throughput as measured here"
    return f"<h2>Cost</h2><h3>{note}</h3>{_rows(head, rows, 2)}"


def _losses(outcome: TuneOutcome) -> str:
    """By step, of the runs without dropout: the baseline and whichever is of most interest."""
    baseline = outcome.results[0]
    other = outcome.winner if outcome.winner is not baseline else outcome.faster_but_different
    lines = [Line("as it is", "reference", baseline.gate.losses)]
    if other is not None:
        lines.append(Line(other.setting.name, "target", other.gate.losses))
    return f"<h2>Losses, without dropout</h2>{draw(Chart('loss', lines))}"


def _steps(outcome: TuneOutcome) -> str:
    """Milliseconds by measured step, of the first run of each."""
    baseline = outcome.results[0]
    lines = [Line("as it is", "reference", [1000 * s for s in baseline.trials[0].seconds])]
    if outcome.winner is not baseline:
        own = [1000 * s for s in outcome.winner.trials[0].seconds]
        lines.append(Line(outcome.winner.setting.name, "target", own))
    return f"<h2>Steps</h2><h3>ms, of the first timed run</h3>{draw(Chart('ms', lines))}"
