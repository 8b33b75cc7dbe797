"""Do two runs train on the same data: what is said of each difference."""

from __future__ import annotations

from collections.abc import Sequence

from xla_migrate.verify.judge import same_data
from xla_migrate.verify.judge.details import Details, Drawn, Field
from xla_migrate.verify.judge.judgement import Judgement, Status

from ..traces import run

ROWS = (1.0, 2.0, 3.0, 4.0)


def field(rows: Sequence[float] = ROWS, name: str = "0", integers: bool = False) -> Field:
    return Field(name, (len(rows), 5), tuple(rows), integers)


def details(**changes: object) -> Details:
    out = Details(batches={(0, 0): [field()], (0, 1): [field((5.0, 6.0, 7.0, 8.0))]})
    out.inputs = {0: [field(name="0.0")], 3: [field(name="0.0")]}
    for name, value in changes.items():
        setattr(out, name, value)
    return out


def judged(reference: Details, target: Details, until: int | None = None) -> Judgement | None:
    return same_data.judge(run(details=reference), run(side="target", details=target), until)


def verdict(target: Details, until: int | None = None) -> tuple[Status, str]:
    found = judged(details(), target, until)
    assert found is not None
    return found.status, found.detail


def test_equal_batches_agree() -> None:
    assert verdict(details()) == (Status.OK, "2 batches agree")


def test_rounding_of_another_machine_is_no_difference() -> None:
    near = {(0, 0): [field([x * (1 + 1e-6) for x in ROWS])]}
    assert verdict(details(batches=near))[0] is Status.OK


def test_another_order_is_reported_with_the_batch() -> None:
    other = {(0, 0): [field()], (0, 1): [field((6.0, 5.0, 7.0, 8.0))]}
    assert verdict(details(batches=other)) == (
        Status.FAILED,
        "batch 2: samples in a different order",
    )


def test_other_samples_a_factor_and_a_shape_are_reported() -> None:
    other = details(batches={(0, 0): [field((1.0, 2.5, 3.0, 4.0))]})
    assert verdict(other)[1] == "batch 1: `0` differs in 1 of 4 samples"
    scaled = details(batches={(0, 0): [field([2 * x for x in ROWS])]})
    assert verdict(scaled)[1] == "batch 1: `0` is multiplied by 2"
    short = details(batches={(0, 0): [field(ROWS[:3])]})
    assert "shape [4, 5] in the original, [3, 5] here" in verdict(short)[1]


def test_a_batch_of_a_later_pass_is_named_by_its_place_in_it() -> None:
    drawn = {(0, 0): Drawn(0, 1, 0), (0, 1): Drawn(4, 2, 0)}
    other = details(batches={(0, 0): [field()], (0, 1): [field((6.0, 5.0, 7.0, 8.0))]})
    found = judged(details(drawn=drawn), other)
    assert found is not None
    assert found.detail == "pass 2, batch 1: samples in a different order"


def test_batches_drawn_after_the_numbers_part_are_not_blamed() -> None:
    drawn = {(0, 0): Drawn(0, 1, 0), (0, 1): Drawn(4, 1, 1)}
    other = details(batches={(0, 0): [field()], (0, 1): [field((6.0, 5.0, 7.0, 8.0))]})
    statuses = [judged(details(drawn=drawn), other, until) for until in (3, 4)]
    assert [found and found.status for found in statuses] == [Status.OK, Status.FAILED]


def test_inputs_of_the_model_are_compared_without_a_loader() -> None:
    changed = details(inputs={0: [field((4.0, 3.0, 2.0, 1.0), name="0.0")]})
    assert verdict(changed) == (Status.FAILED, "step 1: samples in a different order")


def test_inputs_after_the_numbers_part_are_not_blamed() -> None:
    later = details(inputs={3: [field((9.0, 9.0, 9.0, 9.0), name="0.0")]})
    assert verdict(later)[0] is Status.FAILED
    assert verdict(later, until=1)[0] is Status.OK


def test_a_result_that_a_second_module_is_given_is_no_data() -> None:
    computed = [field(name="0.0"), field((9.0, 9.0, 9.0, 9.0), name="1.0")]
    theirs = details(inputs={0: [field(name="0.0"), field(name="1.0")]})
    found = judged(theirs, details(inputs={0: computed}))
    assert found is not None
    assert found.status is Status.OK
    labels = [field(name="0.0"), field((9.0, 9.0, 9.0, 9.0), name="1.0", integers=True)]
    theirs = details(inputs={0: [field(name="0.0"), field(name="1.0", integers=True)]})
    found = judged(theirs, details(inputs={0: labels}))
    assert found is not None
    assert found.status is Status.FAILED


def test_without_a_batch_in_both_nothing_is_judged() -> None:
    assert judged(details(), Details()) is None
