"""One judgement of a comparison: a verdict with its evidence."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Check(str, Enum):
    """The checks of a verification. The value is the name in reports and in JSON."""

    SAME_STEPS = "same steps"
    SAME_DATA = "same data"
    SAME_WEIGHTS = "same initial weights"
    NUMBERS = "numbers"
    BF16 = "bf16"
    MODULES = "modules"
    OPTIMIZER_STEP = "optimizer step"
    OTHER_STATE = "other state"
    PRECISION = "precision"
    METRIC = "metric"
    PRINTED = "printed metrics"
    DEVICE = "device"
    PERFORMANCE = "performance"
    STATIC_SHAPES = "static shapes"
    BOUNDED_GRAPH = "bounded graph"
    NO_FALLBACK = "no fallback"
    LAUNCHES = "launches"
    HOST_READS = "host reads"
    GRAPHS = "number of graphs"

    def __str__(self) -> str:
        return self.value


# What is judged of the speed on XLA. Everything else is about numbers.
OF_SPEED = frozenset(
    {
        Check.PERFORMANCE,
        Check.STATIC_SHAPES,
        Check.BOUNDED_GRAPH,
        Check.NO_FALLBACK,
        Check.LAUNCHES,
        Check.HOST_READS,
        Check.GRAPHS,
    }
)


class Status(str, Enum):
    """The result of a check; NOT_JUDGED if the evidence is missing."""

    OK = "ok"
    FAILED = "failed"
    NOT_JUDGED = "not judged"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True)
class Judgement:
    """A check with its result and the evidence.

    Attributes:
        name: a `Check`; another name for what others judge (`Report.further`).
        status: how it came out.
        detail: one line with the numbers behind it.
        where: `file:line` in the script, or "".
    """

    name: str
    status: Status
    detail: str
    where: str = ""
