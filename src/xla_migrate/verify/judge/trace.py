"""The record of a run as values: traces per process, steps, reads, compilations, failure."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import details
from .compilations import Compilation
from .details import Details
from .record_format import (
    EndRecord,
    ErrorRecord,
    FallbackRecord,
    InitialRecord,
    Numbers,
    OptionGroup,
    ParametersRecord,
    PrintedRecord,
    RecompileRecord,
    StepRecord,
    StoredRecord,
    UntrackedStateRecord,
    ValuesRecord,
    WritesRecord,
)


@dataclass(frozen=True)
class Parameter:
    """A tensor that an optimizer steps on."""

    name: str
    shape: tuple[int, ...]
    trains: bool = True


@dataclass(frozen=True)
class Optimizer:
    """Its class, and `file:line` of where the script built it."""

    kind: str
    built: str


@dataclass(frozen=True)
class Read:
    """A place that fetched values from the device within one step."""

    where: str
    what: str
    times: int


@dataclass(frozen=True)
class Recompile:
    """The cause of a compilation: finished steps, file:line, the cause in words ("": not known).

    `new`: calls of the script ran for the first time, as in a phase that begins late.
    `branch`: the `if` that only one of two graphs took, or "". `graphs`: how many were compiled.
    `seconds`: that they took to compile; 0 if that was not measured.
    """

    steps: int
    where: str
    cause: str
    new: bool = False
    branch: str = ""
    graphs: int = 1
    seconds: float = 0.0


@dataclass(frozen=True)
class Movement:
    """By how much a tensor's norm and projection have changed over the run, and the norm."""

    norm: float
    projection: float
    size: float


@dataclass(frozen=True)
class Write:
    """The number of writes to a tensor through these lines, the innermost first."""

    lines: tuple[str, ...]
    times: int


@dataclass(frozen=True)
class PrintedLine:
    """A line that the script printed, and `file:line` of what printed it."""

    text: str
    where: str


@dataclass
class OptimizerStep:
    """One optimizer step.

    Lists per tensor follow the optimizer's parameters; norms, projections and moved are 0 for biases
    and scales, which are not compared by them (`tolerances`). `counts` is torch_xla's (empty elsewhere):
    compiles, launches, marks, reads, uploads, graph (nodes of the last graph), *_s (seconds).
    The first `left` backward passes are of steps that a condition of the device's left out.
    `options` are the optimizer's numbers by group (None if there is no optimizer). `scale` is the loss scaler's, which
    losses and gradients are free of.
    """

    event: int
    optimizer: int
    step: int
    where: str
    backwards: list[str]
    left: int
    skipped: bool
    seconds: float
    harness: float
    reads: list[Read]
    counts: dict[str, float]
    with_gradient: list[bool]
    losses: list[float] = field(default_factory=list)
    gradients: list[float] = field(default_factory=list)
    norms: list[float] = field(default_factory=list)
    projections: list[float] = field(default_factory=list)
    moved: list[float] = field(default_factory=list)
    options: list[OptionGroup] | None = None
    scale: float | None = None

    @property
    def loss(self) -> float | None:
        """The sum of the step's losses (of its micro-batches, or of a GAN's two)."""
        return sum(self.losses) if self.losses else None

    @property
    def gradient_norm(self) -> float | None:
        """The norm of all gradients together."""
        return sum(g * g for g in self.gradients) ** 0.5 if self.gradients else None

    def gradient_of(self, index: int) -> float | None:
        """The norm of one parameter's gradient; None if it had none."""
        if not self.gradients or not self.with_gradient[index]:
            return None
        return self.gradients[sum(self.with_gradient[:index])]

    @property
    def host_reads(self) -> int:
        """Calls that read from the device."""
        return sum(r.times for r in self.reads)


@dataclass
class Trace:
    """The record of one process of a run.

    `compiled` is torch_xla's account of its compilations, `lowered` where half precision was first asked
    for, `float16` if that was float16, `printed` what it printed (None where it was ended before it could tell), `loaded` the project's
    files that it imported, `details` batches, inputs and modules of its first steps, `untracked` how tensors have moved that no optimizer steps on, by name, and
    `writes` where they were written to (of runs that were to `explain`), `stored` how much can be replayed.
    """

    rank: int
    parameters: dict[int, list[Parameter]] = field(default_factory=dict)
    optimizers: dict[int, Optimizer] = field(default_factory=dict)
    initial: dict[int, tuple[list[float], list[float]]] = field(default_factory=dict)
    steps: list[OptimizerStep] = field(default_factory=list)
    error: ErrorRecord | None = None
    finished: bool = False
    stopped: bool = False
    fallbacks: list[str] = field(default_factory=list)
    fallback_places: dict[str, list[str]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    device_draws: int = 0
    lowered: str = ""
    float16: bool = False
    loaded: list[str] = field(default_factory=list)
    untracked: dict[str, Movement] = field(default_factory=dict)
    writes: dict[str, list[Write]] = field(default_factory=dict)
    devices: list[str] = field(default_factory=list)
    redirected: bool = False
    about: dict[str, str] = field(default_factory=dict)
    process: int = 0
    printed: list[PrintedLine] | None = None
    recompiles: list[Recompile] = field(default_factory=list)
    compiled: list[Compilation] = field(default_factory=list)
    details: Details = field(default_factory=Details)
    stored: StoredRecord | None = None

    @property
    def primary(self) -> int:
        """The optimizer whose steps count as the run's: the first to step."""
        return self.steps[0].optimizer if self.steps else 0

    def iterations(self) -> list[list[OptimizerStep]]:
        """Steps grouped by the primary optimizer's: [[step of it, the others' until its next], ...]."""
        out: list[list[OptimizerStep]] = []
        for step in self.steps:
            if step.optimizer == self.primary or not out:
                out.append([])
            out[-1].append(step)
        return out


def _floats(values: Numbers) -> list[float]:
    return [float(v) for v in values]


def _halves(values: Numbers) -> tuple[list[float], list[float]]:
    numbers = _floats(values)
    return numbers[: len(numbers) // 2], numbers[len(numbers) // 2 :]


def read(path: Path) -> Trace:
    """The trace in a record file; a last line cut short (the process was killed) is left out."""
    return of_records(_records(path), *process_of(path.name))


def process_of(name: str) -> tuple[int, int]:
    """Return the rank and the process number that a record file's name holds."""
    rank, _, rest = name.removeprefix("rank").partition(".")
    return int(rank), int(rest.partition(".")[0])


def _records(path: Path) -> Iterator[dict[str, Any]]:
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            record = json.loads(line)
        except json.JSONDecodeError:
            continue
        yield record


def of_records(records: Iterable[dict[str, Any]], rank: int, process: int) -> Trace:
    """Return the trace that these records make up."""
    trace = Trace(rank=rank, process=process)
    for record in records:
        _READERS[record.pop("kind")](trace, record)
    return trace


def _parameters(trace: Trace, record: ParametersRecord) -> None:
    trace.parameters[record["optimizer"]] = [
        Parameter(name, tuple(shape), trains)
        for name, shape, trains in zip(
            record["names"], record["shapes"], record["trains"], strict=True
        )
    ]
    trace.optimizers[record["optimizer"]] = Optimizer(record["kind_of_optimizer"], record["built"])
    trace.devices = record["devices"]
    trace.redirected = record["redirected"]
    trace.about = record["about"]


def _initial(trace: Trace, record: InitialRecord) -> None:
    trace.initial[record["optimizer"]] = _halves(record["weights"])


def _untracked(trace: Trace, record: UntrackedStateRecord) -> None:
    before, after = _halves(record["before"]), _halves(record["after"])
    for i, name in enumerate(record["names"]):
        norm, projection = (after[k][i] - before[k][i] for k in (0, 1))
        trace.untracked[name] = Movement(norm, projection, before[0][i])


def _writes(trace: Trace, record: WritesRecord) -> None:
    for name, lines, times in record["writes"]:
        trace.writes.setdefault(name, []).append(Write(tuple(lines), times))


def _step(trace: Trace, record: StepRecord) -> None:
    options = record["options"]
    if options is None:  # written where they change
        same = (s.options for s in reversed(trace.steps) if s.optimizer == record["optimizer"])
        options = next(same, None)
    reads = [Read(*read) for read in record["reads"]]
    plain = {k: v for k, v in record.items() if k not in ("options", "reads")}
    trace.steps.append(OptimizerStep(**plain, reads=reads, options=options))  # type: ignore[arg-type]


def _values(trace: Trace, record: ValuesRecord) -> None:
    step = trace.steps[record["event"]]
    step.losses = _floats(record.get("losses", []))
    step.gradients = _floats(record.get("gradients", []))
    step.scale = next(iter(_floats(record.get("scale", []))), None)
    parameters = trace.parameters[step.optimizer]
    norms, projections = _halves(record.get("weights", []))
    moved = _floats(record.get("moved", []))
    step.norms, step.projections, step.moved = (
        _spread(values, parameters) for values in (norms, projections, moved)
    )


def _spread(values: list[float], parameters: list[Parameter]) -> list[float]:
    """A number for every parameter: 0 for those that are not weighed (`fingerprints.weighed` of `observe.training`)."""
    if not values:
        return []
    own = iter(values)
    return [next(own) if len(p.shape) >= 2 else 0.0 for p in parameters]


def _recompile(trace: Trace, record: RecompileRecord) -> None:
    plain = record["where"], record["cause"], record["new"]
    counted = record["branch"], record["graphs"], record["seconds"]
    trace.recompiles.append(Recompile(len(trace.steps), *plain, *counted))


def _printed(trace: Trace, record: PrintedRecord) -> None:
    # Written up to twice, at both of a process's ways out.
    trace.printed = [*(trace.printed or []), *(PrintedLine(*line) for line in record["lines"])]


def _fallback(trace: Trace, record: FallbackRecord) -> None:
    trace.fallback_places.setdefault(record["operation"], []).append(record["where"])


def _error(trace: Trace, record: ErrorRecord) -> None:
    trace.error = record


def _stored(trace: Trace, record: StoredRecord) -> None:
    trace.stored = record


def _end(trace: Trace, record: EndRecord) -> None:
    trace.finished = True
    trace.stopped = record["stopped"]
    trace.fallbacks = record["fallbacks"]
    trace.notes = record["notes"]
    trace.device_draws = record["device_draws"]
    trace.lowered = "".join(record.get("lowered", []))
    trace.float16 = record.get("float16", False)
    trace.loaded = record.get("loaded", [])


def _detail(reader: Callable[[Details, Any], None]) -> Callable[[Trace, Any], None]:
    return lambda trace, record: reader(trace.details, record)


_READERS: dict[str, Callable[[Trace, Any], None]] = {
    "parameters": _parameters,
    "initial": _initial,
    "step": _step,
    "values": _values,
    "recompile": _recompile,
    "fallback": _fallback,
    "untracked": _untracked,
    "writes": _writes,
    "printed": _printed,
    "error": _error,
    "stored": _stored,
    "end": _end,
    **{kind: _detail(reader) for kind, reader in details.READERS.items()},
}
