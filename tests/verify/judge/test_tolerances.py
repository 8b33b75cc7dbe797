from __future__ import annotations

import math

import pytest

from xla_migrate.verify.judge.tolerances import relative


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
