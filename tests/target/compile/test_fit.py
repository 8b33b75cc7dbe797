"""The largest value of an option that fits."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xla_migrate.target.compile import fit


def test_ranges() -> None:
    assert fit.parse("batch-size=8..100") == fit.Range("batch-size", (8, 16, 32, 64))
    assert fit.parse("--batch_size=8..30:8") == fit.Range("batch_size", (8, 16, 24))
    assert fit.parse("n=5..5").values == (5,)


@pytest.mark.parametrize(
    "text", ["batch-size", "batch-size=8", "b=8..4", "b=0..4", "b=1..4:0", "b=a..b"]
)
def test_what_is_no_range(text: str) -> None:
    with pytest.raises(fit.FitError):
        fit.parse(text)


@given(st.sets(st.integers(1, 1000), min_size=1, max_size=40), st.integers(0, 1001))
def test_bisection_finds_the_largest(values: set[int], bound: int) -> None:
    ascending = sorted(values)
    best, tried = fit.largest(ascending, lambda value: value <= bound)
    assert best == max((v for v in ascending if v <= bound), default=None)
    assert len(tried) <= len(ascending).bit_length()


def test_the_next_value_is_known_not_to_fit() -> None:
    found = fit.search(fit.parse("b=8..512"), lambda value: value <= 70)
    assert (found.largest, found.too_large) == (64, 128)
    assert found.tried[128] is False
    assert found.tried[64] is True
    none = fit.search(fit.parse("b=8..512"), lambda value: False)
    assert (none.largest, none.too_large) == (None, 8)
    everything = fit.search(fit.parse("b=8..512"), lambda value: True)
    assert (everything.largest, everything.too_large) == (512, None)


@pytest.mark.parametrize(
    ("args", "made"),
    [
        ([], ["--batch-size=32"]),
        (["--batch-size", "8", "--x"], ["--batch-size", "32", "--x"]),
        (["--batch_size=8"], ["--batch_size=32"]),
        (["--other-batch-size=8"], ["--other-batch-size=8", "--batch-size=32"]),
    ],
)
def test_the_option_is_set_where_it_stands(args: list[str], made: list[str]) -> None:
    assert fit.with_option(args, "batch-size", 32) == made
