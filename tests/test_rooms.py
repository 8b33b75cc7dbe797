"""What xdist's workers are given: the runtime's tests in three rooms and first, of others a file at a time."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("xdist")

from .rooms import longest_first, room


def item(nodeid: str, trains: bool = False) -> Any:
    mark = pytest.mark.e2e if trains else None
    return SimpleNamespace(
        nodeid=nodeid, get_closest_marker=lambda name: mark if name == "e2e" else None
    )


def test_the_runtimes_tests_stay_together_and_those_of_its_patches_are_two_rooms() -> None:
    files = ("tests/runtime/test_step.py", "tests/runtime/compat/test_timm.py")
    assert {room(f"{file}::test_it[a::b]") for file in files} == {"tests/runtime/"}
    halves = {
        room(f"tests/runtime/patches/test_{name}.py::test_it")
        for name in ("autocast", "half_sums", "inference_tensors", "xlogy_numbers")
    }
    assert halves == {"tests/runtime/patches/a-h", "tests/runtime/patches/i-z"}
    assert room("tests/cli/test_style.py::test_it[a::b]") == "tests/cli/test_style.py"


def test_whole_folders_come_first_then_files_that_train() -> None:
    asked = ["tests/cli/a.py::x", "tests/cli/b.py::x", "tests/cli/b.py::y", "tests/runtime/c.py::x"]
    items = [item(nodeid, trains=nodeid == "tests/cli/b.py::y") for nodeid in asked]
    longest_first(items)
    assert [i.nodeid for i in items] == [asked[3], asked[1], asked[2], asked[0]]


def test_tests_of_the_profiler_are_the_first_of_their_folder() -> None:
    asked = ["tests/runtime/compat/a.py::x", "tests/runtime/test_profiling.py::x"]
    items = [item(nodeid) for nodeid in asked]
    longest_first(items)
    assert [i.nodeid for i in items] == asked[::-1]
