"""The names that migrated scripts use, and their manual."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from xla_migrate import runtime as xla

from ..each import each

MANUAL = Path(__file__).parents[2] / "docs" / "runtime.md"


@each("name", xla.__all__)
def test_every_name_exists_and_has_a_manual_entry(name: str) -> None:
    found = getattr(xla, name)
    assert found.__doc__
    assert re.search(rf"\bxla\.{name}\b", MANUAL.read_text()), f"docs/runtime.md lacks {name}"


def test_the_manual_names_nothing_else() -> None:
    used = set(re.findall(r"\bxla\.(\w+)", MANUAL.read_text()))
    assert used <= set(xla.__all__)


def test_unknown_names_are_refused_with_a_hint() -> None:
    with pytest.raises(AttributeError, match="did you mean mark_step"):
        xla.mark_steps  # noqa: B018
    with pytest.raises(AttributeError, match=r"has no 'quux'\. It has: .*MpDeviceLoader"):
        xla.quux  # noqa: B018


def test_names_sort_and_are_unique() -> None:
    assert len(set(xla.__all__)) == len(xla.__all__)
