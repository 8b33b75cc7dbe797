"""Two processes of an original beside one that drives two devices."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from xla_migrate.verify.experiments.one_process import comparable
from xla_migrate.verify.judge.compare import compare
from xla_migrate.verify.judge.observed import ObservedRun
from xla_migrate.verify.judge.trace import Parameter, Trace

from ..traces import PARAMETERS, counts, step, trace


def run(side: str, *traces: Trace) -> ObservedRun:
    return ObservedRun(side, Path("train.py"), [], "float32", Path(), traces=list(traces))  # type: ignore[arg-type]


def share(loss: float, gradient: float) -> Trace:
    """A process that holds a part of all parameters, as one flat tensor."""
    own = step(1, loss, with_gradient=[True], gradients=[gradient], norms=[0.0], projections=[0.0])
    return trace([own], parameters={0: [Parameter("flat", (20,))]}, initial={0: ([], [])})


def whole(loss: float, gradients: list[float]) -> Trace:
    return trace([step(1, loss, gradients=gradients, counts=counts())])


SHARDS = run("reference", share(1.0, 3.0), share(2.0, 4.0))


def proven(reference: ObservedRun, target: ObservedRun) -> bool:
    return compare(*comparable(reference, target), judge_performance=False).proven


def test_shards_have_the_mean_loss_and_one_norm() -> None:
    assert proven(SHARDS, run("target", whole(1.5, [3.0, 4.0])))


@pytest.mark.parametrize(
    ("loss", "gradients"), [(1.5001, [3.0, 4.0]), (1.5, [3.0, 4.01]), (1.0, [3.0, 4.0])]
)
def test_another_loss_or_norm_is_no_proof(loss: float, gradients: list[float]) -> None:
    assert not proven(SHARDS, run("target", whole(loss, gradients)))


def test_another_norm_is_no_rounding_if_the_weights_norms_are_unknown() -> None:
    verdict = compare(
        *comparable(SHARDS, run("target", whole(1.5, [3.0, 8.0]))), judge_performance=False
    )
    assert "the norm of all gradients is 5 in the original" in str(verdict.divergence)


def half(loss: float, gradients: list[float]) -> Trace:
    """A process that holds a part of each parameter, by its name."""
    parts = [replace(p, shape=(1,)) for p in PARAMETERS]
    return trace([step(1, loss, gradients=gradients)], parameters={0: parts})


@pytest.mark.parametrize(
    ("gradients", "agree"), [([5.0, 13.0], True), ([13.0, 5.0], False), ([5.01, 13.0], False)]
)
def test_parts_of_each_parameter_are_compared_by_name(gradients: list[float], agree: bool) -> None:
    halves = run("reference", half(1.0, [3.0, 5.0]), half(2.0, [4.0, 12.0]))
    target = run("target", whole(1.5, gradients))
    assert proven(halves, target) == agree
    (note,) = comparable(halves, target)[1].traces[0].notes
    assert "the norms of gradients" in note


def test_whole_replicas_are_compared_tensor_by_tensor() -> None:
    both = run("reference", whole(1.0, [1.0, 0.5]), whole(2.0, [1.0, 0.5]))
    assert proven(both, run("target", whole(1.5, [1.0, 0.5])))
    assert not proven(both, run("target", whole(1.5, [0.5, 1.0])))  # of the same norm


def test_it_is_said_what_was_compared() -> None:
    _, target = comparable(SHARDS, run("target", whole(1.5, [3.0, 4.0])))
    (note,) = target.traces[0].notes
    assert "the mean of the losses and the norm of all gradients" in note


def test_as_many_processes_stay_as_they_are() -> None:
    both = run("reference", whole(1.0, [1.0, 0.5]), whole(2.0, [1.0, 0.5]))
    same = replace(both, side="target")
    assert comparable(both, same) == (both, same)
    assert [p.name for p in PARAMETERS] == ["0.weight", "0.bias"]
