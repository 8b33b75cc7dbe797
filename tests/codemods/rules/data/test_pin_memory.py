"""Pinned memory that a choice or a statement asks for."""

from __future__ import annotations

import pytest

from ...helpers import migrated
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


@pytest.mark.parametrize(
    ("imported", "call", "after"),
    [
        ("from torchrl.data import ReplayBuffer", "ReplayBuffer(s, pin_memory=True)", "ReplayBuffer(s, pin_memory=False)"),
        ("import other.data as od", "od.Loader(s, pin_memory=pin)", "od.Loader(s, pin_memory=False)"),
        ("from other import Loader", "Loader(s, pin_memory=False)", None),
        ("from .own import Loader", "Loader(s, pin_memory=True)", None),
        ("", "Loader(s, pin_memory=True)", None),
        ("from xla_migrate import runtime as xla", "xla.MpDeviceLoader(s, pin_memory=True)", None),
    ],
)  # fmt: skip
def test_what_other_packages_make_is_told_not_to_pin(
    imported: str, call: str, after: str | None
) -> None:
    source = f"import torch\n{imported}\nmade = {call}\n"
    assert migrated(source) == source.replace(call, after or call)
