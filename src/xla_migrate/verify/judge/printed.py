"""Do both scripts print the same numbers? Metric by metric, in order, without being told what a metric is.

Lines are matched by template: their text with numbers masked. A template's n-th line in the original has its
counterpart in the n-th line of the migrated script. So it does not matter whether a line is printed in the step, or
behind it as the migration may do, as long as all of a kind come in their order and with their numbers.

Not compared: times, rates, sizes of memory, paths, addresses and dates; progress bars, which are redrawn by the
clock; warnings; what Lightning says of the machine; and lines that no number is in. Other numbers that follow from the
time, or from chance, are found by a second run of the same script with a clock of another rate (`_Unsteady`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from .judgement import Check, Judgement, Status
from .observed import ObservedRun
from .tolerances import relative
from .trace import PrintedLine

_MASK = "#"
_LAST_DIGIT = 1e-2  # relative
_NUMBER = re.compile(
    r"(?<![\w.#])[-+]?(?:\d(?:[\d_,]*\d)?\.?\d*(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?|(?:nan|inf(?:inity)?)(?![a-z]))(?![\w.]*\w*[A-Za-z_]{4})",
    re.IGNORECASE,
)
_YEAR = r"(?:19|20)\d\d"
_MONTHS = "Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec"
# What differs between two runs of the same program, masked first.
_ALWAYS = [
    (re.compile(r"\b(?:cuda|xla)(?::\d+)?\b", re.IGNORECASE), "<device>"),
    (re.compile(r"\b0x[0-9a-fA-F]+\b"), "<address>"),
    (re.compile(r"(?:[\w.~-]*/){2,}[\w.~-]*"), "<path>"),
    # In any spelling, as in names of runs: 2026-11-28T09:30:52, 2026_11_28-09_30_52, 20261128-093052, Nov28_09-30-52.
    (
        re.compile(
            rf"(?<!\d)(?:{_YEAR}([-_./])\d\d?\1\d\d?|{_YEAR}[01]\d[0-3]\d(?=[T_ -]\d\d)|(?:{_MONTHS})[ _-]?\d\d?(?=[T_ -]\d\d))"
            r"(?:[T_, -]{0,2}[0-2]\d(?:[-:._h][0-5]\d(?:[-:._m][0-5]\d(?:[.,]\d+)?)?|[0-5]\d[0-5]\d))?(?!\d)",
            re.IGNORECASE,
        ),
        "<when>",
    ),
    (re.compile(r"\b(?:\d+ days?, )?\d+:\d\d(?::\d\d)?(?:[.,]\d+)?\b"), "<when>"),
]
_ASIDE_BEFORE = re.compile(
    r"(?:\b|_)(?:time|elapsed|eta|took|duration|remaining|speed|throughput|ips|[fpqstuw]ps|mfu|runtime|seconds|secs?|ms|msecs?|milliseconds|wall|mem|memory|vram|free|pid|port"
    r"|[gm]i?b(?:_(?:alloc\w*|avail\w*|cached|free|max|mem\w*|min|peak|reserved|total|used))?"  # not mb_loss, a minibatch's
    r"|[\w.]+/(?:s|sec|second)|m?s/\w+|samples_per_second|steps_per_second|tokens_per_second|allocated|reserved|flos)\b['\"]?[^#\d\w]*(?:\w+ )?$"
    r"|\w \(t\)[\s:=]*$",
    re.IGNORECASE,
)
# Named by the meters of torch's own imagenet script: how long the loop waited for data.
_WAITED_BEFORE = re.compile(r"\bdata['\"]?[\s:=]*$", re.IGNORECASE)
# "Time 0.171 (0.163)", "1.2/1.4 s": the meter's average is of the same kind as the number before it.
_SAME_KIND = re.compile(r"\s*(?:[(\[/]|\(?(?:avg|mean|average)[:=\s])\s*")
_ASIDE_AFTER = re.compile(
    r"^[GM](?=[\s,|)\]]|$)"  # "0.661G": of memory
    r"|^\s*(?:(?:ns|us|ms|s|secs?|seconds?|min|minutes?|hours?|[kKMG]i?B|bytes)\b"
    r"|[\w ]{0,12}/\s?(?:s|sec|second|it|min|ms)\b|(?:\w+ )?per sec)",
    re.IGNORECASE,
)
# Said to be the factor of a loss scaler, a power of two, of which nothing is left after migration: it is 1 there.
_OF_SCALER = re.compile(r"(?:\b|_)(?:scale|scaler|scaling)['\"]?[\s:=(]*$", re.IGNORECASE)
_LEAST_FACTOR = 16  # smaller ones are too easily another number of the script
_BAR = re.compile(r"\r|\d+%\|")
# A warning says so, except for those that a library prints with its own file and line (Lightning).
_WARNING = re.compile(r"warn(?:ing)?s?\b|^\S*site-packages\S+\.py:\d+: ", re.IGNORECASE)
# What Lightning says of the machine that it found.
_MACHINE = re.compile(
    r"^(?:[GTHIM]PU available: |Using (?:16-?bit|bfloat16) Automatic Mixed Precision"
    r"|LOCAL_RANK: \d+ - CUDA_VISIBLE_DEVICES: |Initializing distributed: GLOBAL_RANK: "
    r"|All distributed processes registered\. Starting with )"
)
# A description of the machine, behind any logger's prefix. Its value is no number.
_STATE = re.compile(
    r"(?:^|[\s:\]|])(?:distributed[ _](?:environment|type|backend)|backend|(?:using )?(?:device|accelerator)"
    r"|mixed[ _]precision(?: type)?|(?:gpu|cuda|tpu|xla|mps)s?(?: is)? available)"
    r"\s*[:=]\s*(?![-+.\d])\S+(?:\s+backend:\s*\S+)?\s*$"
    r"|(?:^|[\s:\]|])(?:(?:compute|cuda|device|gpu)[ _])?capability\s*[:=]?\s*(?:\(?8(?:\.|, )0\)?(?![.\d])|n/a|xla:)"
    r"|redirected CUDA device",  # the name that the redirection gives the original
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Masked:
    """A line as template and numbers.

    `last` is the size of one unit in each number's last printed digit; `scaler` says which may be a loss scaler's factor.
    """

    line: PrintedLine
    template: str
    numbers: tuple[float, ...]
    last: tuple[float, ...]
    scaler: tuple[bool, ...]


@dataclass(frozen=True)
class Difference:
    """The first line that differs from the original; `target` is None if the line is missing."""

    template: str
    detail: str
    reference: PrintedLine
    target: PrintedLine | None


def masked(line: PrintedLine) -> Masked | None:
    """The line's template and numbers; None for one that is not compared."""
    text = line.text
    if _BAR.search(text) or _WARNING.search(text) or _MACHINE.match(text) or _STATE.search(text):
        return None
    for pattern, name in _ALWAYS:
        text = pattern.sub(name, text)
    numbers: list[float] = []
    units: list[float] = []
    scaler: list[bool] = []
    parts: list[str] = []
    at = 0
    aside = False
    for match in _NUMBER.finditer(text):
        between = text[at : match.start()]
        parts.append(between)
        at = match.end()
        before, after = "".join(parts)[-40:], text[at : at + 24]
        parts.append(_MASK)
        aside = (aside and bool(_SAME_KIND.fullmatch(between))) or _is_aside(before, after)
        if not aside:
            plain = match.group().replace(",", "").replace("_", "")
            numbers.append(float(plain))
            units.append(_unit(plain))
            scaler.append(_OF_SCALER.search(before) is not None)
    if not numbers:
        return None
    template = " ".join("".join([*parts, text[at:]]).split())
    return Masked(line, template, tuple(numbers), tuple(units), tuple(scaler))


def _is_aside(before: str, after: str) -> bool:
    """True if the words beside a number say that it is a time, a rate or a size of memory."""
    return bool(
        _ASIDE_BEFORE.search(before) or _WAITED_BEFORE.search(before) or _ASIDE_AFTER.match(after)
    )


def _unit(number: str) -> float:
    """One unit in the last digit; 0 of a whole number."""
    digits, _, exponent = number.lower().partition("e")
    _, dot, fraction = digits.partition(".")
    if not dot and not exponent:
        return 0.0
    return float(10.0 ** (int(exponent or 0) - len(fraction)))


@dataclass
class _Unsteady:
    """Lines at which two runs of the same script differ, by template: positions, and lines of another count."""

    numbers: dict[str, set[int]] = field(default_factory=dict)
    counts: set[str] = field(default_factory=set)

    def __len__(self) -> int:
        return len(self.numbers.keys() | self.counts)


def judge(
    reference: ObservedRun,
    target: ObservedRun,
    allowed: float,
    repeated: tuple[ObservedRun, ObservedRun] | None = None,
) -> Judgement | None:
    """The verdict, or None where neither prints a number.

    Args:
        reference: the original's run.
        target: the migrated script's.
        allowed: the relative tolerance of numbers, beside one unit in the last digit that is printed.
        repeated: two runs of the same script, the second with another clock: what differs there is not compared.
    """
    compared, worst, left_out = 0, 0.0, 0
    factors = _factors(reference)
    again = [] if repeated is None else [_unsteady(*pair, allowed) for pair in _streams(*repeated)]
    for at, (theirs, ours) in enumerate(_streams(reference, target)):
        unsteady = again[at] if at < len(again) else _Unsteady()
        left_out += len(unsteady)
        found, count, apart = _compare(theirs, ours, allowed, unsteady, factors)
        if found is not None:
            where = found.target.where if found.target is not None else ""
            return Judgement(
                Check.PRINTED, Status.FAILED, found.detail, where or found.reference.where
            )
        compared, worst = compared + count, max(worst, apart)
    if _cut_short(reference, target):
        detail = "a process ended before its output was recorded"
        return Judgement(Check.PRINTED, Status.NOT_JUDGED, detail)
    if not compared:
        return None
    detail = f"{compared} printed numbers alike, within {worst:.1e} relative or their last digit"
    if left_out:
        detail += (
            f"; not compared: {left_out} kind{'s' * (left_out > 1)} of lines with numbers that two runs of the same"
            " script print differently"
        )
    return Judgement(Check.PRINTED, Status.OK, detail)


def _factors(run: ObservedRun) -> frozenset[float]:
    """What the run's loss scalers multiplied by: at each step, and after an update that doubles or halves it."""
    seen = {step.scale for trace in run.traces for step in trace.steps if step.scale is not None}
    known = {scale * change for scale in seen for change in (0.5, 1, 2)}
    return frozenset(factor for factor in known if factor >= _LEAST_FACTOR)


def _streams(
    reference: ObservedRun, target: ObservedRun
) -> Iterable[tuple[Sequence[PrintedLine], Sequence[PrintedLine]]]:
    """Return the texts that are compared: each process's output, then each log file that both wrote."""
    for a, b in zip(reference.traces, target.traces, strict=False):
        if a.printed is not None and b.printed is not None:
            yield a.printed, b.printed
    for name in sorted(reference.logs.keys() & target.logs.keys()):
        yield _of_file(name, reference.logs), _of_file(name, target.logs)


def _cut_short(reference: ObservedRun, target: ObservedRun) -> bool:
    """True if a process printed something, and its counterpart could not tell."""
    for a, b in zip(reference.traces, target.traces, strict=False):
        if (a.printed is None) != (b.printed is None) and (a.printed or b.printed):
            return True
    return False


def _of_file(name: str, logs: Mapping[str, str]) -> list[PrintedLine]:
    lines = logs[name].splitlines()
    return [PrintedLine(line, f"{name}:{number}") for number, line in enumerate(lines, 1)]


def _by_template(lines: Iterable[PrintedLine]) -> dict[str, list[Masked]]:
    out: dict[str, list[Masked]] = {}
    for line in lines:
        if (m := masked(line)) is not None:
            out.setdefault(m.template, []).append(m)
    return out


def _unsteady(
    first: Sequence[PrintedLine], second: Sequence[PrintedLine], allowed: float
) -> _Unsteady:
    """Return what two runs of the same script print differently."""
    out, one, other = _Unsteady(), _by_template(first), _by_template(second)
    scales = _scales([m for lines in one.values() for m in lines])
    for template in one.keys() | other.keys():
        mine, again = one.get(template, []), other.get(template, [])
        if len(mine) != len(again):
            out.counts.add(template)
        for a, b in zip(mine, again, strict=False):
            for i, (x, y) in enumerate(zip(a.numbers, b.numbers, strict=True)):
                if relative(x, y, scales[template][i]) > allowed:
                    out.numbers.setdefault(template, set()).add(i)
    return out


def _compare(
    reference: Sequence[PrintedLine],
    target: Sequence[PrintedLine],
    allowed: float,
    unsteady: _Unsteady,
    factors: frozenset[float],
) -> tuple[Difference | None, int, float]:
    """(the first difference in the original's order, numbers compared, the largest relative difference)."""
    theirs = [m for line in reference if (m := masked(line)) is not None]
    ours = _by_template(target)
    scales = _scales(theirs)
    seen: dict[str, int] = {}
    compared, worst = 0, 0.0
    for one in theirs:
        place = seen[one.template] = seen.get(one.template, 0) + 1
        others = ours.get(one.template, [])
        if len(others) < place and one.template in unsteady.counts:
            continue
        if len(others) < place:
            return _missing(one, place, others), compared, worst
        for i, (x, y) in enumerate(zip(one.numbers, others[place - 1].numbers, strict=True)):
            if i in unsteady.numbers.get(one.template, ()):
                continue
            is_factor = x in factors or (one.scaler[i] and x >= 1 and math.log2(x).is_integer())
            if is_factor and y == 1:
                continue
            apart = relative(x, y, scales[one.template][i])
            if apart > allowed and not _in_last_digit(x, y, one.last[i], others[place - 1].last[i]):
                return _other_number(one, others[place - 1], x, y, place), compared, worst
            compared, worst = compared + 1, max(worst, min(apart, allowed))
    for template, others in ours.items():
        if template in unsteady.counts:
            continue
        if seen.get(template, 0) and len(others) > seen[template]:
            return _more(others, seen[template]), compared, worst
    return None, compared, worst


def _scales(lines: Sequence[Masked]) -> dict[str, list[float]]:
    """The largest of each place's numbers: a metric near 0 has no meaningful relative error."""
    out: dict[str, list[float]] = {}
    for one in lines:
        known = out.setdefault(one.template, [0.0] * len(one.numbers))
        for i, number in enumerate(one.numbers):
            if math.isfinite(number):
                known[i] = max(known[i], abs(number))
    return out


def _in_last_digit(x: float, y: float, a: float, b: float) -> bool:
    """True if two rounded numbers differ by one unit in their last digit at most, and by no more than `_LAST_DIGIT`.

    Numbers with few digits have to be equal, since rounding seldom changes their last digit.
    """
    unit = max(a, b)
    return unit <= _LAST_DIGIT * abs(x) and abs(x - y) <= 1.001 * unit


def _shown(line: PrintedLine) -> str:
    text = " ".join(line.text.split())
    return f"`{text[:117]}...`" if len(text) > 120 else f"`{text}`"


def _other_number(one: Masked, other: Masked, x: float, y: float, place: int) -> Difference:
    detail = (
        f"{x:.9g} in the original, {y:.9g} here: {_shown(one.line)} ({one.line.where}) and"
        f" {_shown(other.line)}, the {_th(place)} line of its kind"
    )
    return Difference(one.template, detail, one.line, other.line)


def _missing(one: Masked, place: int, others: Sequence[Masked]) -> Difference:
    times = f"only {len(others)} times" if others else "never"
    detail = (
        f"{_shown(one.line)} ({one.line.where}), the {_th(place)} line of its kind in the original, is"
        f" missing: the migrated script prints such a line {times}"
    )
    return Difference(one.template, detail, one.line, others[-1].line if others else None)


def _more(others: Sequence[Masked], known: int) -> Difference:
    extra = others[known].line
    detail = (
        f"{_shown(extra)}: printed {len(others)} times here, {known} times in the original: a line more than"
        " once, or an output that is repeated"
    )
    return Difference(others[known].template, detail, extra, extra)


def _th(number: int) -> str:
    ending = {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{'th' if number % 100 in (11, 12, 13) else ending}"
