"""The TPU compiler's results as verdicts of a proof: `xla-migrate verify SCRIPT --for v5e`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from ...verify.judge.judgement import Judgement, Status
from . import session
from .judge import FITS, UNKNOWN, Verdict, size
from .topologies import topology
from .tracing import TracingError


def judged(
    script: Path,
    args: Sequence[str],
    target: str,
    replace: Mapping[str, str | bytes],
    options: session.CompileOptions,
) -> list[Judgement]:
    """Compile what the migrated script would run on a TPU; a verdict for all graphs, or one for each that does not fit.

    Args:
        script: the script.
        args: its arguments.
        target: "v5e", "v5e:2x2" ...
        replace: contents that take the place of files of its project, by path: the migrated ones.
        options: how to trace and compile.

    Raises:
        TopologyError: there is no such topology.
        NoCompiler: the compiler is not installed.
    """
    name = f"compiled for {target}"
    try:
        outcome = session.compile_script(script, args, topology(target), options, replace)
    except TracingError as error:
        return [Judgement(name, Status.NOT_JUDGED, str(error))]
    return of_outcome(name, outcome)


def of_outcome(name: str, outcome: session.CompileOutcome) -> list[Judgement]:
    """The verdicts, called `name`."""
    bad = [one for one in outcome.verdicts if one.status != FITS]
    if bad:
        return [_against(name, one) for one in bad]
    if outcome.tracing.problem or not outcome.verdicts:
        return [Judgement(name, Status.NOT_JUDGED, outcome.tracing.problem or "no graph was found")]
    largest = max(outcome.verdicts, key=lambda one: one.peak)
    graphs = "the graph fits" if len(outcome.verdicts) == 1 else "all graphs fit"
    detail = (
        f"{graphs} ({len(outcome.verdicts)}); the largest needs {size(largest.peak)} of {size(largest.limit)} per chip. "
        "Compiled does not mean run"
    )
    return [Judgement(name, Status.OK, detail, largest.graph.place)]


def _against(name: str, one: Verdict) -> Judgement:
    status = Status.NOT_JUDGED if one.status == UNKNOWN else Status.FAILED
    detail = f"{one.status}: {one.reason}" if one.reason else one.status
    return Judgement(name, status, "; try: ".join([detail, *one.advice[:1]]), one.graph.place)
