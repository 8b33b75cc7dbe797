"""Which tests xdist's workers take together, and in which order: `pytest -n 2`.

A file's tests share results of its fixtures, so a file is what is given away.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from xdist.scheduler import LoadFileScheduling


def file_of(item: pytest.Item) -> str:
    """The path of the file that the test is in."""
    return item.nodeid.partition("::")[0]


def longest_first(items: list[pytest.Item]) -> None:
    """Put files with many tests that train first: short files fill the gaps at the end."""
    trained = Counter(file_of(item) for item in items if item.get_closest_marker("e2e"))
    items.sort(key=lambda item: -trained[file_of(item)])


class Files(LoadFileScheduling):
    """xdist's scheduler of whole files, in the order of the tests."""

    def __init__(self, config: Any, log: Any) -> None:
        super().__init__(config, log)
        config.option.loadscopereorder = False
