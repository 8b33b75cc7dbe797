"""A test that leaves torch changed is named."""

from __future__ import annotations

import pytest

from .left_state import left, state

torch = pytest.importorskip("torch")


def test_nothing_is_left_by_what_is_taken_back() -> None:
    before = state()
    assert len(before) > 5
    with torch.device("meta"), torch.no_grad(), torch.autocast("cpu"):
        inside = left(before, state())
    assert "function modes" in inside
    assert "gradients: True became False" in inside
    assert left(before, state()) == ""


def test_torch_may_be_imported_by_a_test() -> None:
    assert left({}, state()) == ""
