from __future__ import annotations

import math

import pytest

from xla_migrate.verify.tolerances import Tolerance, relative


@pytest.mark.parametrize(
    ("a", "b", "scale", "difference"),
    [
        (2.0, 2.0, 2.0, 0.0),
        (2.0, 2.2, 2.0, 0.1),
        (-2.0, 2.0, 2.0, 2.0),
        (0.0, 0.001, 1.0, 0.1),  # near 0 it is relative to a hundredth of the scale
        (0.0, 0.5, 0.0, 0.5),  # nothing to be relative to
        (math.inf, math.inf, 1.0, 0.0),
        (-math.inf, math.inf, 1.0, math.inf),
        (math.nan, math.nan, 1.0, 0.0),
        (math.nan, 1.0, 1.0, math.inf),
        (1.0, math.inf, 1.0, math.inf),
    ],
)
def test_relative_difference(a: float, b: float, scale: float, difference: float) -> None:
    assert relative(a, b, scale) == pytest.approx(difference)


def test_tolerance_is_what_was_asked() -> None:
    limits = Tolerance(1e-5)
    assert limits.at(0) == limits.at(99) == 1e-5
    assert not limits.amplified


def test_tolerance_follows_measured_noise_and_never_shrinks() -> None:
    limits = Tolerance(1e-5, [0.0, 1e-7, 4e-5, 1e-6])
    assert [limits.at(i) for i in range(5)] == pytest.approx([1e-5, 1e-5, 4e-4, 4e-4, 4e-4])
    assert limits.amplified


def test_noise_below_the_tolerance_changes_nothing() -> None:
    limits = Tolerance(1e-5, [1e-8, 1e-7])
    assert limits.at(1) == 1e-5
    assert not limits.amplified
