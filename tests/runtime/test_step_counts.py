"""Numbers that are one of several: what Python computes of them, and where a tensor of the device meets them."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from xla_migrate.runtime.torch_xla.step_counts import (
    Count,
    Counting,
    Undecided,
    Unknown,
    count,
)

BINARY = (
    operator.add,
    operator.sub,
    operator.mul,
    operator.truediv,
    operator.floordiv,
    operator.mod,
    operator.pow,
)
ASKED = (operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne)
NUMBERS = st.one_of(st.integers(1, 50), st.floats(0.125, 50))
SEVERAL = st.lists(st.integers(1, 50), min_size=3, max_size=3, unique=True).map(tuple)


def values(number: Any) -> tuple[float, ...]:
    """What `number` may be."""
    return number.values if type(number) is Count else (number,) * 3


@given(st.sampled_from(BINARY), SEVERAL, NUMBERS)
def test_it_computes_with_each_number(
    operation: Callable[[Any, Any], Any], several: tuple[int, ...], other: float
) -> None:
    found = operation(Count(several), other)
    assert values(found) == tuple(operation(value, other) for value in several)
    found = operation(other, Count(several))
    assert values(found) == tuple(operation(other, value) for value in several)


@given(st.sampled_from(BINARY), SEVERAL, SEVERAL)
def test_it_computes_number_by_number_with_another(
    operation: Callable[[Any, Any], Any], ones: tuple[int, ...], others: tuple[int, ...]
) -> None:
    found = operation(Count(ones), Count(others))
    assert values(found) == tuple(map(operation, ones, others))


@given(st.sampled_from((operator.neg, operator.pos, abs)), SEVERAL)
def test_it_computes_of_one(operation: Callable[[Any], Any], several: tuple[int, ...]) -> None:
    assert values(operation(Count(several))) == tuple(map(operation, several))


def test_the_corrections_of_adam_are_pythons_own() -> None:
    """To the last bit."""
    steps = (9.0, 8.0, 7.0)
    step = Count(steps)
    assert values((1 - 0.999**step) ** 0.5) == tuple((1 - 0.999**n) ** 0.5 for n in steps)
    assert values(-(1e-3 / (1 - 0.9**step))) == tuple(-(1e-3 / (1 - 0.9**n)) for n in steps)


def test_integers_and_floats_are_not_taken_for_each_other() -> None:
    """What is computed is remembered, and `1 == 1.0`."""
    whole, broken = Count((7, 3)) * 2, Count((7.0, 3.0)) * 2.0
    assert [type(value) for value in values(whole)] == [int, int]
    assert [type(value) for value in values(broken)] == [float, float]


def test_one_number_is_a_plain_one() -> None:
    found = count((2.0, 2.0))
    assert (type(found), found) == (float, 2.0)
    assert type(Count((2.0, 1.0)) * 0) is float
    assert type(count((2.0, 1.0))) is Count


@given(st.sampled_from(ASKED), SEVERAL, NUMBERS)
def test_a_comparison_that_all_agree_on_is_answered(
    operation: Callable[[Any, Any], bool], several: tuple[int, ...], other: float
) -> None:
    for ask in (operation, lambda a, b: operation(b, a)):
        answers = {ask(value, other) for value in several}
        if len(answers) == 1:
            assert ask(Count(several), other) is answers.pop()
        else:
            with pytest.raises(Undecided):
                ask(Count(several), other)


def test_truth() -> None:
    assert Count((2, 1))
    with pytest.raises(Undecided):
        bool(Count((1, 0)))
    assert max(0.5, Count((2, 1)) - 5) == 0.5
    with pytest.raises(Undecided):
        max(2.5, Count((3, 2)))


def test_an_error_of_one_is_undecided() -> None:
    """That one may not be the one that holds."""
    computations: tuple[Callable[[Any], Any], ...] = (
        lambda n: 1 / n,
        lambda n: 1 % n,
        lambda n: n**-1,
        lambda n: 1e9 ** (n * 99),
    )
    for compute in computations:
        with pytest.raises(Undecided):
            compute(Count((1, 0)))


@pytest.mark.parametrize(
    "ask",
    [float, int, round, math.trunc, math.floor, math.ceil, hash, lambda n: divmod(n, 2)],
)
def test_what_asks_for_the_one_number_is_told_that_it_is_unknown(ask: Callable[[Any], Any]) -> None:
    with pytest.raises(Unknown) as caught:
        ask(Count((2.0, 1.0)))
    assert caught.type is Unknown, "more that is known of it does not help"


def test_c_finds_no_number() -> None:
    assert math.isnan(math.sqrt(Count((4.0, 1.0))))
    assert math.isnan(math.exp(Count((4.0, 1.0))))


class Told:
    """Steps that are watched: `number` counts them on the host, and `skipped` of them were not taken."""

    def __init__(self, skipped: int = 1, missed: int = 2) -> None:
        self.number = torch.tensor(5.0)
        self.asked: list[tuple[tuple[float, ...], torch.dtype]] = []
        self.skipped = skipped
        self.counting = Counting({id(self.number): self.number}, missed, self.pick)

    def pick(self, values: tuple[float, ...], dtype: torch.dtype) -> torch.Tensor:
        self.asked.append((values, dtype))
        return torch.tensor(values[self.skipped], dtype=dtype, device="xla")


def test_a_count_that_is_read_is_each_that_it_may_be() -> None:
    told = Told()
    other = torch.tensor(7.0)
    with told.counting:
        reads = told.number.item(), torch.Tensor.item(told.number)
        plain = other.item()
    assert [values(read) for read in reads] == [(5, 4, 3)] * 2
    assert (type(plain), plain) == (float, 7.0)
    assert type(told.number.item()) is float, "behind it, it is a number again"


def test_a_count_that_is_added_to_stays_what_it_is_and_is_noted() -> None:
    told = Told()
    with told.counting:
        told.number += 1
        told.number.add_(1)
    assert told.number.item() == 7
    assert [part is told.number for part in told.counting.counted] == [True, True]


@pytest.mark.parametrize(
    "use",
    [
        lambda n: n * 2,
        lambda n: n.sqrt(),
        lambda n: torch.stack([n, n]),
        lambda n: n.mul_(2),
        lambda n: torch._foreach_add_([n], 1),
    ],
)
def test_a_count_in_a_tensors_arithmetic_is_unknown(use: Callable[[Any], Any]) -> None:
    told = Told()
    with told.counting, pytest.raises(Unknown):
        use(told.number)
    assert told.number.item() == 5


Use = Callable[[torch.Tensor, Any], Any]
X, Y, Z = (3.0, 5.0), (2.0, 4.0), (4.0, 8.0)


@pytest.mark.parametrize(
    "use",
    [
        lambda x, n: x * n,
        lambda x, n: n * x,
        lambda x, n: x / n,
        lambda x, n: n / x,
        lambda x, n: x + n,
        lambda x, n: n - x,
        lambda x, n: x.mul_(n),
        lambda x, n: x.div_(n),
        lambda x, n: torch.mul(x, n),
        lambda x, n: x.add_(x.new_tensor(Y), alpha=n),
        lambda x, n: x.sub_(x.new_tensor(Y), alpha=n),
        lambda x, n: x.addcdiv_(x.new_tensor(Y), x.new_tensor(Z), value=n),
        lambda x, n: x.addcmul_(x.new_tensor(Y), x.new_tensor(Z), value=n),
        lambda x, n: x.add(x.new_tensor(Y), alpha=2) * n,
    ],
)
@pytest.mark.parametrize("skipped", [0, 1, 2])
def test_the_device_picks_the_number_that_holds(
    use: Use, skipped: int, device: torch.device
) -> None:
    told = Told(skipped)
    x = torch.tensor(X, device=device)
    with told.counting:
        found = use(x, told.number.item())
    expected = use(torch.tensor(X), 5.0 - skipped)
    torch.testing.assert_close(found.cpu(), expected, rtol=1e-6, atol=0)
    assert told.asked == [((5, 4, 3), torch.float32)]


def test_it_is_picked_in_the_type_of_the_tensor(device: torch.device) -> None:
    told = Told()
    for dtype in (torch.float64, torch.bfloat16):
        with told.counting:
            assert (torch.ones(2, dtype=dtype, device=device) * told.number.item()).dtype is dtype
        assert told.asked.pop() == ((5, 4, 3), dtype)


def test_a_number_that_leaked_through_c_is_refused(device: torch.device) -> None:
    told = Told()
    x = torch.tensor(X, device=device)
    uses: tuple[Use, ...] = (
        lambda x, n: x.mul_(n),
        lambda x, n: x.add_(x, alpha=n),
        lambda x, n: x.addcdiv_(x, x, value=n),
        lambda x, n: torch._foreach_mul_([x], n),
        lambda x, n: torch.full((2,), n, device=x.device),
    )
    for use in uses:
        with told.counting, pytest.raises(Unknown):
            use(x, math.sqrt(told.number.item()))
    assert x.tolist() == list(X)
    assert told.asked == []


def test_many_tensors_at_once_are_unknown(device: torch.device) -> None:
    told = Told()
    x = torch.tensor(X, device=device)
    uses: tuple[Use, ...] = (
        lambda x, n: torch._foreach_mul_([x], [n]),
        lambda x, n: torch._foreach_mul_([x], n),
        lambda x, n: torch._foreach_addcdiv_([x], [x], [x], [n]),
        lambda x, n: torch.stack([x, x * 2]).mul_(torch.tensor([n, n])),
    )
    for use in uses:
        with told.counting, pytest.raises(Unknown):
            use(x, told.number.item())
    assert x.tolist() == list(X)


def test_tensors_of_the_host_and_of_integers_are_unknown(device: torch.device) -> None:
    told = Told()
    for x in (torch.ones(2), torch.ones(2, dtype=torch.int32, device=device)):
        with told.counting, pytest.raises(Unknown):
            torch.mul(x, told.number.item())


def test_what_has_to_do_with_no_count_is_done(device: torch.device) -> None:
    told = Told()
    x = torch.tensor(X, device=device)
    with told.counting:
        x.mul_(2.0).add_(x, alpha=0.5)
        torch._foreach_mul_([x], [2.0])
    assert x.tolist() == [18, 30]
    assert told.asked == []
