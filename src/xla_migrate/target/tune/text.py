"""The outcome for a terminal, and as CSV."""

from __future__ import annotations

import csv
import io
import math
import statistics
from collections.abc import Mapping, Sequence

from .judge import LEAST, Estimate, Result, TuneOutcome
from .price import Price, for_samples

MILLION = 1e6


def table(outcome: TuneOutcome) -> list[str]:
    """A line per setting, the fastest first."""
    width = max(len(r.setting.name) for r in outcome.results)
    out = [f"{'setting':<{width}}  {'samples/s':>22}  {'gain':>20}  {'losses':>9}"]
    for result in ordered(outcome):
        best = "keep" if outcome.winner is outcome.results[0] else "winner"
        mark = f"  <- {best}" if result is outcome.winner else ""
        out.append(f"{result.setting.name:<{width}}  {_figures(result)}{mark}")
        out += [f"{'':<{width}}  {remark}" for remark in result.remarks]
    return out


def ordered(outcome: TuneOutcome) -> list[Result]:
    """The fastest first; those that failed last."""
    return sorted(outcome.results, key=lambda r: -r.gain.value if r.gain is not None else math.inf)


def _figures(result: Result) -> str:
    if result.failure:
        return f"failed: {result.failure}"
    assert result.throughput is not None
    assert result.gain is not None
    losses = "alike" if result.alike else apart(result)
    gain = interval(result.gain, ".3f")
    return f"{interval(result.throughput, '.4g'):>22}  {gain:>20}  {losses:>9}"


def interval(estimate: Estimate, form: str) -> str:
    """`12.3 (12.1-12.6)`."""
    return f"{estimate.value:{form}} ({estimate.low:{form}}-{estimate.high:{form}})"


def apart(result: Result) -> str:
    """By how much its losses differ, relative."""
    return f"{result.apart:.1e}" if math.isfinite(result.apart) else "unknown"


def conclusion(
    outcome: TuneOutcome,
    script: str,
    args: Sequence[str],
    env: Mapping[str, str],
    machine: str = "",
) -> list[str]:
    """Return the winner, the command that uses it, and what is different on `machine`, or any device."""
    winner = outcome.winner
    out = []
    if winner is outcome.results[0]:
        out.append(
            f"no setting with the same losses is reliably faster (at least {LEAST:g} times): keep the script unchanged"
        )
    else:
        assert winner.gain is not None
        out.append(f"winner: {winner.setting.name}, {interval(winner.gain, '.3f')} times as fast")
        out.append(f"keep it: {winner.setting.command(script, args, env)}")
    other = outcome.faster_but_different
    if other is not None and other.gain is not None:
        out.append(
            f"faster, but it trains differently: {other.setting.name}, {interval(other.gain, '.3f')} times"
            f" as fast, losses {apart(other)} apart (tolerance {outcome.tolerance:g}): to accept "
            "it, raise --loss-tolerance"
        )
    if device(outcome) == "XLA:CPU":
        out.append(f"measured on XLA:CPU; on {machine or 'a device'}, these results differ:")
        names = {line for r in outcome.results for line in r.setting.not_carried_over()}
        out += [f"  {line}" for line in sorted(names)]
        out.append("  equal losses stay equal; measure times and gains on the device")
    return out


def device(outcome: TuneOutcome) -> str:
    """Return the device of the measurement."""
    return outcome.results[0].gate.device


def price_rows(
    outcome: TuneOutcome, prices: Sequence[Price], epoch: float | None
) -> list[tuple[str, str, str, str]]:
    """(instance, setting, $ per million samples, $ per epoch) of baseline and winner on each instance."""
    out = []
    shown = [
        outcome.results[0],
        *([outcome.winner] if outcome.winner is not outcome.results[0] else []),
    ]
    for price in prices:
        for result in shown:
            assert result.throughput is not None
            speed = result.throughput.value
            each = f"{for_samples(price, speed, epoch):.2f}" if epoch else ""
            per_million = f"{for_samples(price, speed, MILLION):.2f}"
            out.append((price.instance, result.setting.name, per_million, each))
    return out


def price_table(rows: Sequence[tuple[str, str, str, str]]) -> list[str]:
    """The same for a terminal."""
    head = ("instance", "setting", "$/million samples", "$/epoch")
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(4)]
    return [
        f"{a:<{widths[0]}}  {b:<{widths[1]}}  {c:>{widths[2]}}  {d:>{widths[3]}}".rstrip()
        for a, b, c, d in [head, *rows]
    ]


def as_csv(outcome: TuneOutcome) -> str:
    """Return a row per setting, in the order of the command line."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    names = list(dict.fromkeys(n for r in outcome.results for n, _ in r.setting.values))
    figures = ["samples_per_s", "low", "high", "gain", "gain_low", "gain_high"]
    rest = ["loss_difference", "alike", "winner", "first_step_s", "runs", "failure", "remarks"]
    writer.writerow([*names, *figures, *rest])
    for r in outcome.results:
        values = dict(r.setting.values)
        speeds = [(e and (e.value, e.low, e.high)) or ("", "", "") for e in (r.throughput, r.gain)]
        first = statistics.median([t.first_step for t in r.trials]) if r.trials else ""
        writer.writerow(
            [
                *(values.get(name, "") for name in names),
                *speeds[0],
                *speeds[1],
                r.apart if math.isfinite(r.apart) else "",
                *(int(r.alike), int(r is outcome.winner), first, len(r.trials)),
                *(r.failure, "; ".join(r.remarks)),
            ]
        )
    return out.getvalue()
