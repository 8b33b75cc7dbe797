"""Pinned memory that a choice or a statement asks for."""

from __future__ import annotations

import pytest

from ..lines import line


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("x = x.pin_memory() if torch.cuda.is_available() else x", ""),
        ("x = x if not cuda else x.pin_memory()", ""),
        ("y = x.pin_memory() if cuda else x", "y = x"),
        ("f(x.t().pin_memory() if cuda else x.t())", "f(x.t())"),
        ("y = x.pin_memory() if cuda else z", "y = x if cuda else z"),
        ("y = x.pin_memory() if ready() else x", "y = x if ready() else x"),
    ],
)
def test_choices(before: str, after: str) -> None:
    source = f"{before}\nz = x.cuda()"
    assert line(source).startswith(after + "\n" if after else "z = ")
