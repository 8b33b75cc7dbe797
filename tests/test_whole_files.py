"""What xdist's workers are given: a file at a time, and first those that train."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("xdist")

from .whole_files import longest_first


def item(nodeid: str, trains: bool = False) -> Any:
    mark = pytest.mark.e2e if trains else None
    return SimpleNamespace(
        nodeid=nodeid, get_closest_marker=lambda name: mark if name == "e2e" else None
    )


def test_files_with_more_tests_that_train_come_first() -> None:
    asked = ["a.py::x", "b.py::x", "b.py::y", "c.py::x", "c.py::y"]
    trains = {"b.py::y", "c.py::x", "c.py::y"}
    items = [item(nodeid, nodeid in trains) for nodeid in asked]
    longest_first(items)
    assert [i.nodeid for i in items] == ["c.py::x", "c.py::y", "b.py::x", "b.py::y", "a.py::x"]
