"""Which tests xdist's workers take together, and in which order: `pytest -n 2`.

A file's tests share results of its fixtures, so a file is what is given away. The runtime's tests share more: its
patches, process groups and chosen backends belong to a process, and they run in the order of their folders. The tests of
the patches take as long as all others of the runtime; they are two rooms by the first letter, so that two processes
share them when they run alone. They come before all files that compute on the CPU: in a process that has gone backward
on the CPU before, backward on XLA fails.
"""

from __future__ import annotations

from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

_RUNTIME = "tests/runtime/"
_PATCHES = "tests/runtime/patches/"
_HALVES = (f"{_PATCHES}a-h", f"{_PATCHES}i-z")  # each takes about 20 s
TOGETHER = (_RUNTIME, "tests/codemods/rules/test_torch_xla.py")
# A trace of XLA's profiler contains every program that the process has compiled so far.
_FIRST = "tests/runtime/test_profiling.py"


def room(test: str) -> str:
    """What the test of this id goes with."""
    if test.startswith(_PATCHES):
        return _HALVES[test.removeprefix(_PATCHES).removeprefix("test_") >= "i"]
    return _RUNTIME if test.startswith(TOGETHER) else test.partition("::")[0]


def longest_first(items: list[pytest.Item]) -> None:
    """Put whole folders first, then files that train: short files fill the gaps at the end.

    Tests of the profiler are the first of their folder.
    """
    train = {room(item.nodeid) for item in items if item.get_closest_marker("e2e")}

    def place(item: pytest.Item) -> tuple[bool, bool, bool]:
        own = room(item.nodeid)
        return own not in (_RUNTIME, *_HALVES), own not in train, not item.nodeid.startswith(_FIRST)

    items.sort(key=place)


class Rooms(LoadScopeScheduling):
    """xdist's scheduler of whole files, for rooms, in the order of the tests."""

    def __init__(self, config: Any, log: Any) -> None:
        super().__init__(config, log)
        config.option.loadscopereorder = False

    def _split_scope(self, nodeid: str) -> str:
        return room(nodeid)
