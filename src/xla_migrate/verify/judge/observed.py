"""A recorded run, as the judges see it: traces by process, output, failure."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from ..observe.plan import Precision, Side
from .failures import Failure
from .trace import OptimizerStep, Parameter, Trace


@dataclass
class ObservedRun:
    """The record of a run.

    Attributes:
        side: "reference" or "target".
        script: the script as given.
        args: its arguments.
        precision: "as written", "float32" or "bfloat16".
        project: the copy that it ran in.
        traces: one per process that trained, by rank.
        output: what the script printed, both streams.
        logs: text of the csv, tsv and JSON lines files that it wrote in its project, by path.
        failure: why it did not do what was asked, or None.
        seconds: wall-clock time of the whole run.
        warmup: steps at the start that performance verdicts leave out.
    """

    side: Side
    script: Path
    args: list[str]
    precision: Precision
    project: Path
    traces: list[Trace] = field(default_factory=list)
    output: str = ""
    logs: dict[str, str] = field(default_factory=dict)
    failure: Failure | None = None
    seconds: float = 0.0
    warmup: int = 3

    @property
    def redirected(self) -> bool:
        """True if its CUDA calls went to the CPU."""
        return any(t.redirected for t in self.traces)

    @property
    def steps(self) -> list[OptimizerStep]:
        """The steps of the first process."""
        return self.traces[0].steps if self.traces else []

    @property
    def losses(self) -> list[float | None]:
        """The loss of each step of the first process."""
        return [step.loss for step in self.steps]

    def parameters(self, optimizer: int = 0) -> list[Parameter]:
        """Return the parameters of an optimizer."""
        return self.traces[0].parameters.get(optimizer, []) if self.traces else []
