"""Find the fastest of the settings that train the same."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ...verify.judge.tolerances import relative
from .settings import RUNTIME, Setting
from .trials import Trial

DRAWS = 2000
LEVEL = 0.95
LEAST = 1.02  # a gain below is none


@dataclass(frozen=True)
class Estimate:
    """A median, and between which values it lies by the bootstrap (95 %)."""

    value: float
    low: float
    high: float


@dataclass
class Result:
    """The result of one setting.

    Attributes:
        trials: the timed runs.
        gate: the run for its losses, without dropout.
        throughput: samples per second.
        gain: times the baseline's throughput, from the runs of the same round.
        apart: the largest relative difference of its losses from the baseline's, at equal samples seen.
        alike: it trains as the baseline does, to the tolerance.
        remarks: what to know of its figures.
    """

    setting: Setting
    trials: list[Trial]
    gate: Trial
    failure: str = ""
    throughput: Estimate | None = None
    gain: Estimate | None = None
    apart: float = math.inf
    alike: bool = False
    remarks: list[str] = field(default_factory=list)


@dataclass
class TuneOutcome:
    """All results, the baseline first, and the winner.

    It is the fastest of those that train alike; the baseline, if none is surely faster.
    """

    results: list[Result]
    winner: Result
    tolerance: float

    @property
    def faster_but_different(self) -> Result | None:
        """The fastest of all, where it lost for its losses alone."""
        known = [r for r in self.results if r.gain is not None]
        best = max(known, key=_gain, default=None)
        return (
            best
            if best is not None and not best.alike and _gain(best) > _gain(self.winner)
            else None
        )


def judge(groups: Sequence[list[Trial]], gates: Sequence[Trial], tolerance: float) -> TuneOutcome:
    """Judge the timed runs of each setting, and the one that was run for its losses; the baseline's come first.

    Raises:
        ValueError: the baseline has failed; the message says how.
    """
    baseline = _result(groups[0], groups[0], gates[0], gates[0], tolerance)
    if baseline.failure:
        raise ValueError(f"the script without changed settings failed: {baseline.failure}")
    results = [
        baseline,
        *(
            _result(g, groups[0], gate, gates[0], tolerance)
            for g, gate in zip(groups[1:], gates[1:], strict=True)
        ),
    ]
    able = [r for r in results if r.alike and r.gain is not None]
    best = max(able, key=_gain, default=baseline)
    surely = best.gain is not None and best.gain.low > 1.0 and best.gain.value >= LEAST
    return TuneOutcome(results, best if surely else baseline, tolerance)


def _gain(result: Result) -> float:
    return result.gain.value if result.gain is not None else 0.0


def _result(
    trials: list[Trial], baseline: list[Trial], gate: Trial, reference: Trial, tolerance: float
) -> Result:
    result = Result(gate.setting, trials, gate)
    result.failure = next((t.failure for t in [gate, *trials] if t.failure), "")
    if result.failure:
        return result
    result.throughput = bootstrap(trials, _typical)
    rounds = list(zip(trials, baseline, strict=False))
    result.gain = bootstrap(rounds, _typical_gain)
    first = baseline[0]
    result.apart = max(apart(first, trial) for trial in trials)
    result.alike = result.apart <= tolerance
    result.remarks = _remarks(result, first)
    return result


def _remarks(result: Result, baseline: Trial) -> list[str]:
    out = []
    if result.setting == baseline.setting and not result.alike:
        out.append(
            "its losses differ from run to run: seed its random numbers, or raise --loss-tolerance"
        )
    for name, _ in result.setting.values:
        if name in RUNTIME and RUNTIME[name][0] not in result.trials[0].used:
            out.append(f"{name} has no effect here: no code used it")
    compiled = statistics.median(t.compiled for t in result.trials)
    if compiled > 0:
        out.append(f"compiled for {compiled:.1f} s after the warm-up (not counted)")
    return out


def _typical(trials: Sequence[Trial], draw: random.Random | None) -> float:
    return statistics.median(_speed(trial, draw) for trial in trials)


def _typical_gain(rounds: Sequence[tuple[Trial, Trial]], draw: random.Random | None) -> float:
    """The same run is drawn alike on both sides: a setting gains nothing over itself."""
    return statistics.median(
        1.0 if one is other else _speed(one, draw) / _speed(other, draw) for one, other in rounds
    )


def _speed(trial: Trial, draw: random.Random | None) -> float:
    """Samples per second, of steps drawn with replacement if there is a `draw`."""
    if draw is None:
        return trial.throughput
    steps = range(len(trial.seconds))
    drawn = draw.choices(steps, k=len(steps))
    measured = trial.measured
    return sum(measured[i] for i in drawn) / sum(trial.seconds[i] for i in drawn)


def bootstrap(
    runs: Sequence[object], of: Callable[..., float], draws: int = DRAWS, seed: int = 0
) -> Estimate:
    """An estimate of `of(runs, None)`: runs are drawn with replacement, and the steps in each (`of(runs, draw)`)."""
    draw = random.Random(seed)
    found = sorted(of(draw.choices(runs, k=len(runs)), draw) for _ in range(draws))
    tail = (1 - LEVEL) / 2
    low, high = found[int(tail * draws)], found[min(int((1 - tail) * draws), draws - 1)]
    return Estimate(of(runs, None), low, high)


def apart(baseline: Trial, trial: Trial) -> float:
    """Return the largest relative difference of losses at equal numbers of samples.

    Steps of other sizes are compared by the mean loss per sample between samples at which a step ends in both.
    """
    ours, theirs = _curve(trial), _curve(baseline)
    common = sorted(ours.keys() & theirs.keys())
    if not common:
        return math.inf
    scale = max((abs(loss) for loss in baseline.losses if loss is not None), default=0.0)
    largest = 0.0
    before = 0
    for at in common:
        largest = max(largest, relative(_mean(theirs, before, at), _mean(ours, before, at), scale))
        before = at
    return largest


def _curve(trial: Trial) -> dict[int, tuple[int, float]]:
    """Samples seen at the end of a step -> (samples of the step, its loss)."""
    out: dict[int, tuple[int, float]] = {}
    seen = 0
    for samples, loss in zip(trial.samples, trial.losses, strict=True):
        seen += samples
        if loss is not None and samples:
            out[seen] = (samples, loss)
    return out


def _mean(curve: dict[int, tuple[int, float]], after: int, until: int) -> float:
    inside = [step for at, step in curve.items() if after < at <= until]
    return sum(n * loss for n, loss in inside) / sum(n for n, _ in inside)
