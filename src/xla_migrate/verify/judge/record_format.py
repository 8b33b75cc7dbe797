"""The fields of the lines of a run's record, by kind: written by `observe`, read by `trace`.

Numbers are floats; JSON has no inf and nan, which are strings.
"""

from __future__ import annotations

from typing import TypedDict, Union

Numbers = list[Union[float, str]]
OptionGroup = dict[str, Union[float, list[float]]]


class ParametersRecord(TypedDict):
    """An optimizer's tensors, before its first step."""

    optimizer: int
    kind_of_optimizer: str
    built: str
    names: list[str]
    shapes: list[list[int]]
    trains: list[bool]
    devices: list[str]
    redirected: bool
    about: dict[str, str]


class InitialRecord(TypedDict):
    """Fingerprints of an optimizer's tensors before its first step: norms, then projections."""

    optimizer: int
    weights: Numbers


class StepRecord(TypedDict):
    """An optimizer step; `options` is None if they are unchanged since the step before.

    `left`: how many of the first backward passes are of steps that a condition on the device has not let be taken.
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
    reads: list[tuple[str, str, int]]
    counts: dict[str, float]
    with_gradient: list[bool]
    options: list[OptionGroup] | None


class ValuesRecord(TypedDict, total=False):
    """The tensors of a step, written when they are fetched."""

    event: int
    losses: Numbers
    gradients: Numbers
    weights: Numbers
    moved: Numbers
    scale: Numbers


class UntrackedStateRecord(TypedDict):
    """Fingerprints of what no optimizer steps on, before the first step and at the end."""

    names: list[str]
    before: Numbers
    after: Numbers


class WritesRecord(TypedDict):
    """(tensor, lines that led to the write, how often)."""

    writes: list[tuple[str, list[str], int]]


class RecompileRecord(TypedDict):
    """The cause of a compilation, and how many graphs; `branch`: the `if` by which they differ from earlier ones.

    `new`: calls of the script that had not run before took part.
    """

    where: str
    cause: str
    new: bool
    branch: str
    graphs: int
    seconds: float


class FallbackRecord(TypedDict):
    """An operation that ran on the CPU, because XLA has no kernel for it, and a line that called it."""

    operation: str
    where: str


class PrintedRecord(TypedDict):
    """All lines that the process printed, each with the place in the script that printed it."""

    lines: list[tuple[str, str]]


class ErrorRecord(TypedDict):
    """The exception that ended the process; frames are (file, line, function, source line)."""

    type: str
    chain: list[str]
    message: str
    frames: list[tuple[str, int, str, str]]


class StoredRecord(TypedDict):
    """The data for a replay: models with their initial weights, batches, and the steps whose batches are all stored."""

    models: int
    batches: int
    steps: int


class EndRecord(TypedDict):
    """The end of training in this process."""

    stopped: bool
    events: int
    fallbacks: list[str]
    device_draws: int
    notes: list[str]
    lowered: list[str]
    float16: bool
    loaded: list[str]
