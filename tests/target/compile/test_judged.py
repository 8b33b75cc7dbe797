"""What the TPU compiler says, as verdicts of a proof."""

from __future__ import annotations

from pathlib import Path

import pytest

from xla_migrate.target.compile import judge, judged, session
from xla_migrate.target.compile.topologies import topology
from xla_migrate.target.compile.tracing import Traced, Tracing, TracingError
from xla_migrate.verify.judge.judgement import Status

GIB = 1 << 30


def graph(status: str, place: str, peak: int = 0, reason: str = "") -> judge.Verdict:
    return judge.Verdict(
        Traced("", place, "step mark", []),
        status,
        reason,
        ["activation checkpointing", "a smaller batch"] if reason else [],
        peak=peak,
        limit=16 * GIB,
    )


def outcome(*verdicts: judge.Verdict, problem: str = "") -> session.CompileOutcome:
    found = session.CompileOutcome(topology("v5e"), "libtpu", Tracing([], problem=problem))
    found.verdicts = list(verdicts)
    return found


def test_all_that_fits_is_one_verdict_at_the_largest() -> None:
    fitting = outcome(
        graph(judge.FITS, "train.py:3", GIB), graph(judge.FITS, "train.py:9", 2 * GIB)
    )
    (one,) = judged.of_outcome("compiled for v5e", fitting)
    assert (one.name, one.status, one.where) == ("compiled for v5e", Status.OK, "train.py:9")
    assert "(2); the largest needs 2.00 GiB of 16.00 GiB" in one.detail
    assert one.detail.endswith("Compiled does not mean run")


def test_each_graph_that_does_not_fit_is_told() -> None:
    found = judged.of_outcome(
        "compiled for v5e",
        outcome(
            graph(judge.FITS, "train.py:3", GIB),
            graph(judge.TOO_LARGE, "train.py:9", reason="20.00 GiB of 15.75 GiB"),
            graph(judge.REFUSED, "train.py:12", reason="no such op"),
            graph(judge.UNKNOWN, "train.py:15", reason="a timeout"),
        ),
    )
    assert [(one.status, one.where) for one in found] == [
        (Status.FAILED, "train.py:9"),
        (Status.FAILED, "train.py:12"),
        (Status.NOT_JUDGED, "train.py:15"),
    ]
    assert "20.00 GiB of 15.75 GiB; try: activation checkpointing" in found[0].detail


@pytest.mark.parametrize(
    ("found", "told"),
    [
        (outcome(graph(judge.FITS, "a.py:1"), problem="it ended early"), "it ended early"),
        (outcome(), "no graph was found"),
    ],
)
def test_what_could_not_be_traced_is_not_judged(found: session.CompileOutcome, told: str) -> None:
    (one,) = judged.of_outcome("compiled for v5e", found)
    assert (one.status, one.detail) == (Status.NOT_JUDGED, told)


def test_a_project_that_cannot_be_traced_is_not_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object) -> session.CompileOutcome:
        raise TracingError("no room for a copy")

    monkeypatch.setattr(session, "compile_script", refuse)
    (one,) = judged.judged(Path("train.py"), [], "v5e", {}, session.CompileOptions())
    assert (one.status, one.detail) == (Status.NOT_JUDGED, "no room for a copy")
