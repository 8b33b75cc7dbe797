"""How often the bf16 criterion is wrong: simulated runs whose target errs `ratio` times as much as the original.

A run is K quantities over 12 steps. Each has Gaussian errors of one size; a share `common` of
their variance is the same error in all of them (layers share their inputs' rounding), and they either
are new at every step or add up over the steps, as rounding in weights does. At a ratio of 1 what is
counted are false alarms, above it misses: by our rule (R <= 1.2; where that of one training
exceeds it, 1.2 (1 + 1/sqrt K) over three), and by that limit for one training.

    PYTHONPATH=src:codemods python docs/bench/bf16.py [--trials 500]
"""

from __future__ import annotations

import argparse
import math
import random
from itertools import accumulate

from xla_migrate.verify.judge.bf16 import Ratios, pooled
from xla_migrate.verify.judge.tolerances import R_BY_CHANCE, R_LIMIT

STEPS = 12
QUANTITIES = (16, 64)
RATIOS = (1.0, 1.5, 2.0)


def run(
    chance: random.Random, quantities: int, size: float, common: float, adds: bool
) -> list[float]:
    """The summed squared error of each quantity."""

    def course() -> list[float]:
        steps = [chance.gauss(0, 1) for _ in range(STEPS)]
        return list(accumulate(steps)) if adds else steps

    shared = course()
    out = []
    for _ in range(quantities):
        own = course()
        mixed = (
            math.sqrt(common) * s + math.sqrt(1 - common) * o
            for s, o in zip(shared, own, strict=True)
        )
        out.append(size**2 * sum(e * e for e in mixed))
    return out


def verification(
    chance: random.Random, quantities: int, ratio: float, common: float, adds: bool
) -> tuple[bool, bool]:
    """True if it passes: by our rule (`verify.precision`), by 1.2 (1 + 1/sqrt K) at once."""
    three = [
        list(
            zip(
                run(chance, quantities, 1.0, common, adds),
                run(chance, quantities, ratio, common, adds),
                strict=True,
            )
        )
        for _ in range(3)
    ]
    first = pooled(three[0])
    limit = Ratios(1.0, 3 * quantities, 1.0, STEPS, trainings=3).limit
    by_more = first <= R_BY_CHANCE and pooled(row for rows in three for row in rows) <= limit
    return first <= R_LIMIT or by_more, first <= R_LIMIT * (1 + 1 / math.sqrt(quantities))


def shares(trials: int, quantities: int, common: float, adds: bool) -> list[str]:
    """How often each rule passes, at each ratio: as "ours, widened"."""
    chance = random.Random(quantities)
    out = []
    for ratio in RATIOS:
        passed = [verification(chance, quantities, ratio, common, adds) for _ in range(trials)]
        both = (sum(p[i] for p in passed) / trials for i in (0, 1))
        out.append(", ".join(f"{share if ratio > 1 else 1 - share:.1%}" for share in both))
    return out


def main() -> None:
    """A row for each kind of error and number of quantities."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--trials", type=int, default=500)
    trials = parser.parse_args().trials
    titles = ["false alarms", *(f"missed at {ratio:g}" for ratio in RATIOS[1:])]
    print(f"| errors | common | K | {' | '.join(titles)} |")
    print(f"| --- | --- | --- | {' | '.join('---' for _ in titles)} |")
    for adds in (False, True):
        kind = "add up" if adds else "new at each step"
        for common in (0.0, 0.2, 0.5):
            for quantities in QUANTITIES:
                found = " | ".join(shares(trials, quantities, common, adds))
                print(f"| {kind} | {common:g} | {quantities} | {found} |", flush=True)


if __name__ == "__main__":
    main()
