"""`p.data = ...` of another device."""

from __future__ import annotations

import pytest

from ...helpers import findings

SCRIPT = """\
import torch
{first}
conv = torch.nn.Conv2d(3, 4, 3)
conv.weight.data = torch.randn(4, 3, 3, 3, device="cpu").to("cuda")
"""


@pytest.mark.parametrize(
    ("first", "found"),
    [("pass", True), ('torch.set_default_device("cuda")', False)],
)
def test_modules_that_are_made_on_the_device_take_it(first: str, found: bool) -> None:
    codes = {code for _, code in findings(SCRIPT.format(first=first))}
    assert ("XLA516" in codes) is found
