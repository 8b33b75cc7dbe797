"""Both take the same steps; what is skipped or doubled is named."""

from __future__ import annotations

from tests.verify.traces import run
from xla_migrate.verify.judge.course import same_course, without_left_passes
from xla_migrate.verify.judge.judgement import Status
from xla_migrate.verify.judge.observed import ObservedRun


def with_passes(*counts: int, side: str = "reference") -> ObservedRun:
    out = run([1.0] * len(counts), side="target" if side == "target" else "reference")
    for step, count in zip(out.traces[0].steps, counts, strict=True):
        step.backwards = ["train.py:18"] * count
        step.where = f"train.py:{20 + step.step}"
    return out


def test_the_same_course() -> None:
    found = same_course(with_passes(1, 2, 2), with_passes(1, 2, 2, side="target"))
    assert (found.status, found.detail) == (Status.OK, "3 optimizer steps in both")


def test_a_doubled_step_is_named_as_such() -> None:
    found = same_course(with_passes(1, 1, 1), with_passes(1, 0, 1, side="target"))
    assert found.status is Status.FAILED
    assert found.detail.startswith(
        "step 2 is a second optimizer step for one backward pass, after train.py:21, which"
    )
    assert found.where == "train.py:22"


def test_a_skipped_step_is_named_as_such() -> None:
    found = same_course(with_passes(1, 1, 1), with_passes(1, 2, 1, side="target"))
    assert found.status is Status.FAILED
    assert found.detail == (
        "optimizer steps are skipped here: step 2 comes after 2 backward passes, after 1 in the original"
    )


def test_more_steps_than_in_the_original() -> None:
    found = same_course(with_passes(4, 4), with_passes(2, 2, side="target"))
    assert found.detail.startswith("more optimizer steps here than in the original: step 1 comes")


def test_backward_passes_of_steps_that_the_device_leaves_out_are_none_of_the_original() -> None:
    reference, target = with_passes(1, 1, 3), with_passes(1, 3, 3, side="target")
    second, third = target.traces[0].steps[1:]
    second.left, second.losses = 2, [float("nan"), float("nan"), 1.0]
    third.left = 2  # where the original has them, too
    without_left_passes(reference, target)
    assert same_course(reference, target).status is Status.OK
    assert second.losses == [1.0]
    assert len(third.backwards) == 3


def test_a_step_that_is_missing_is_not_taken_for_one_that_the_device_left_out() -> None:
    reference, target = with_passes(1, 1), with_passes(1, 3, side="target")
    target.traces[0].steps[1].left = 1
    without_left_passes(reference, target)
    assert same_course(reference, target).status is Status.FAILED
