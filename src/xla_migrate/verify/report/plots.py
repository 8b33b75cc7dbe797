"""Charts as inline SVG: lines over the steps, on a linear or logarithmic scale, and marks below them.

Colours are classes, so that the page's style sheet gives light and dark ones.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape

WIDE, NARROW, HEIGHT = 760, 380, 260  # units of the drawing; pixels on a screen of that width
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 16, 14, 34
_DOTS = 60  # more would hide what lies below them
_POINTS = 800  # more than a chart has room for


@dataclass(frozen=True)
class Line:
    """A curve: one value per step, None if there is none.

    Attributes:
        name: for the legend.
        style: "reference", "target" or "difference": the CSS class.
        values: by step.
    """

    name: str
    style: str
    values: Sequence[float | None]


@dataclass
class Chart:
    """A chart.

    Attributes:
        label: what the numbers are, with their unit.
        lines: the curves; steps count from `first`.
        log: a logarithmic scale; what is not positive lies on its floor.
        limit: a dashed line across, with its name.
        marks: {step: text} small triangles on the axis.
        alarm: a step to point out, by a vertical line.
    """

    label: str
    lines: Sequence[Line]
    log: bool = False
    limit: tuple[str, float] | None = None
    marks: dict[int, str] = field(default_factory=dict)
    marks_name: str = ""
    alarm: tuple[str, int] | None = None
    first: int = 1


def draw(chart: Chart) -> str:
    """The chart as an `<svg>` element with its legend, or a sentence if there is nothing to draw."""
    count = max((len(line.values) for line in chart.lines), default=0)
    known = [v for line in chart.lines for v in line.values if v is not None and math.isfinite(v)]
    if not known or not count:
        return '<p class="none">nothing to draw</p>'
    wide, narrow = (_svg(chart, _Scale(chart, known, count, width)) for width in (WIDE, NARROW))
    return f'{_legend(chart)}<div class="wide">{wide}</div><div class="narrow">{narrow}</div>'


def _svg(chart: Chart, scale: _Scale) -> str:
    limit, alarm = _limit(chart, scale), _alarm(chart, scale)
    parts = [_axes(scale), limit[0], alarm[0]]
    parts += [_line(line, scale) for line in chart.lines]
    parts += [_marks(chart, scale), limit[1], alarm[1]]  # names are read over curves
    body = "".join(parts)
    return (
        f'<svg viewBox="0 0 {scale.width} {HEIGHT}" role="img" aria-label="{escape(chart.label)}">'
        f"{body}</svg>"
    )


class _Scale:
    """From steps and values to places."""

    def __init__(self, chart: Chart, known: list[float], count: int, width: int) -> None:
        self.width = width
        self.log, self.first, self.count = chart.log, chart.first, count
        if chart.limit is not None:
            known = [*known, chart.limit[1]]
        if chart.log:
            positive = [v for v in known if v > 0] or [1e-9]
            self.low = 10 ** math.floor(math.log10(min(positive)) - 0.1)  # nothing on the axis
            self.high = 10 ** math.ceil(math.log10(max(positive)) + 1e-9)
            if self.high <= self.low:
                self.high = self.low * 10
        else:
            low, high = min(known), max(known)
            pad = (high - low) * 0.06 or abs(high) * 0.06 or 1.0
            self.low = 0.0 if low >= 0 and low < 0.4 * high else low - pad
            self.high = high + pad

    def x(self, step: int) -> float:
        span = self.width - _LEFT - _RIGHT
        if self.count == 1:
            return _LEFT + span / 2
        return _LEFT + span * (step - self.first) / (self.count - 1)

    def y(self, value: float) -> float:
        if self.log:
            value = min(max(value, self.low), self.high)
            share = math.log(value / self.low) / math.log(self.high / self.low)
        else:
            share = (value - self.low) / (self.high - self.low)
        return HEIGHT - _BOTTOM - share * (HEIGHT - _TOP - _BOTTOM)

    def ticks(self) -> list[float]:
        if self.log:
            decades = round(math.log10(self.high / self.low))
            every = max(1, math.ceil(decades / 6))
            return [self.low * 10**k for k in range(0, decades + 1, every)]
        return _round_numbers(self.low, self.high, 5)

    def steps(self) -> list[int]:
        most = self.width // 60
        if self.count <= most:
            return list(range(self.first, self.first + self.count))
        last = self.first + self.count - 1
        return [
            int(t)
            for t in _round_numbers(self.first, last, max(2, most * 2 // 3))
            if t == int(t) and t >= 1
        ]


def _round_numbers(low: float, high: float, about: int) -> list[float]:
    raw = (high - low) / about
    base = 10 ** math.floor(math.log10(raw)) if raw > 0 else 1.0
    step = next((base * m for m in (1, 2, 5, 10) if base * m >= raw), base)
    first = math.ceil(low / step - 1e-9)
    return [k * step for k in range(first, math.floor(high / step + 1e-9) + 1)]


def number(value: float) -> str:
    """A short figure; small ones all as powers of ten, so that a logarithmic scale reads evenly."""
    if 0 < abs(value) < 1e-3:
        digits, _, power = f"{value:.3e}".partition("e")
        return f"{float(digits):g}e{int(power)}"
    return f"{value:.4g}".replace("e-0", "e-").replace("e+0", "e")


def _axes(scale: _Scale) -> str:
    out = []
    for tick in scale.ticks():
        y = scale.y(tick)
        out.append(
            f'<line class="grid" x1="{_LEFT}" x2="{scale.width - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        )
        out.append(
            f'<text class="tick" x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{number(tick)}</text>'
        )
    base = HEIGHT - _BOTTOM
    out.append(
        f'<line class="axis" x1="{_LEFT}" x2="{scale.width - _RIGHT}" y1="{base}" y2="{base}"/>'
    )
    for step in scale.steps():
        x = scale.x(step)
        out.append(
            f'<text class="tick" x="{x:.1f}" y="{base + 18}" text-anchor="middle">{step}</text>'
        )
    out.append(f'<text class="tick" x="{_LEFT - 8}" y="{base + 18}" text-anchor="end">step</text>')
    return "".join(out)


def _limit(chart: Chart, scale: _Scale) -> tuple[str, str]:
    """The line, and its name."""
    if chart.limit is None:
        return "", ""
    name, value = chart.limit
    y = scale.y(value)
    return (
        f'<line class="limit" x1="{_LEFT}" x2="{scale.width - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>',
        f'<text class="limit-name" x="{scale.width - _RIGHT}" y="{y - 5:.1f}" text-anchor="end">'
        f"{escape(name)}</text>",
    )


def _alarm(chart: Chart, scale: _Scale) -> tuple[str, str]:
    """The line, and its name."""
    if chart.alarm is None:
        return "", ""
    name, step = chart.alarm
    x = scale.x(step)
    side, at = ("end", x - 6) if x > scale.width * 0.6 else ("start", x + 6)
    return (
        f'<line class="alarm" x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP}" y2="{HEIGHT - _BOTTOM}"/>',
        f'<text class="alarm-name" x="{at:.1f}" y="{_TOP + 10}" text-anchor="{side}">'
        f"{escape(name)}</text>",
    )


def _thinned(values: Sequence[float | None]) -> list[tuple[int, float | None]]:
    """(index, value): of each stretch of a long curve its largest and smallest."""
    pairs = list(enumerate(values))
    stride = math.ceil(len(pairs) / (_POINTS / 2))
    if stride <= 2:
        return pairs
    kept: list[tuple[int, float | None]] = []
    for at in range(0, len(pairs), stride):
        part = [p for p in pairs[at : at + stride] if p[1] is not None and math.isfinite(p[1])]
        ends = {min(part, key=_value), max(part, key=_value)} if part else {pairs[at]}
        kept += sorted(ends, key=lambda p: p[0])
    return kept


def _value(pair: tuple[int, float | None]) -> float:
    return pair[1] or 0.0


def _line(line: Line, scale: _Scale) -> str:
    path, pen = [], "M"
    dots = []
    for index, value in _thinned(line.values):
        if value is None or not math.isfinite(value):
            pen = "M"
            continue
        x, y = scale.x(index + scale.first), scale.y(value)
        path.append(f"{pen}{x:.1f} {y:.1f}")
        pen = "L"
        told = f"step {index + scale.first}, {escape(line.name)}: {value:.7g}"
        if len(line.values) <= _DOTS:
            size = 3.5 if line.style == "target" else 4.5
            dots.append(
                f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{size}"><title>{told}</title></circle>'
            )
    return f'<g class="{line.style}"><path d="{" ".join(path)}"/>{"".join(dots)}</g>'


def _marks(chart: Chart, scale: _Scale) -> str:
    out = []
    base = HEIGHT - _BOTTOM
    for step, text in chart.marks.items():
        x = scale.x(step)
        shape = f"M{x - 5:.1f} {base} L{x + 5:.1f} {base} L{x:.1f} {base - 9} Z"
        out.append(f'<path class="mark" d="{shape}"><title>{escape(text)}</title></path>')
    return "".join(out)


def _legend(chart: Chart) -> str:
    keys = [
        f'<span class="key {line.style}"><i></i>{escape(line.name)}</span>' for line in chart.lines
    ]
    if chart.marks:
        keys.append(f'<span class="key mark"><i></i>{escape(chart.marks_name)}</span>')
    return f'<div class="legend">{"".join(keys)}</div>'
