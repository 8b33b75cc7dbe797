"""What is said of a run whose processes were stopped, or failed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from xla_migrate.verify.experiments import process
from xla_migrate.verify.judge.observed import ObservedRun
from xla_migrate.verify.judge.trace import Trace


def error(message: str, kind: str = "RuntimeError") -> Any:
    frame = ("/project/train.py", 9, "actor", "dist.broadcast(vector, 0)")
    return {"type": kind, "chain": [kind], "message": message, "frames": [frame]}


def judged(learner: Trace, actor: Trace) -> Any:
    run = ObservedRun("reference", Path("/project/train.py"), [], "float32", Path("/project"))
    run.traces = [learner, actor]
    return process._judge(run, 1, False, None, 4)


GONE = "[pair.cc:547] Connection closed by peer [127.0.0.1]:18858"


@pytest.mark.parametrize(
    ("message", "stopped", "is_its_own"),
    [
        (GONE, True, False),
        ("Connection reset by peer", True, False),
        (GONE, False, True),
        ("shapes do not match", True, True),
    ],
)
def test_an_actor_that_misses_the_learner_we_stopped_has_not_failed(
    message: str, stopped: bool, is_its_own: bool
) -> None:
    step: Any = object()
    learner = Trace(0, steps=[step], stopped=stopped)
    learner.iterations = lambda: [step] * 4  # type: ignore[method-assign,assignment]
    found = judged(learner, Trace(1, error=error(message)))
    assert (found is not None) is is_its_own


def test_a_replica_that_trains_has_failed() -> None:
    step: Any = object()
    learner = Trace(0, steps=[step], stopped=True)
    learner.iterations = lambda: [step] * 4  # type: ignore[method-assign,assignment]
    assert judged(learner, Trace(1, steps=[step], error=error(GONE))) is not None
