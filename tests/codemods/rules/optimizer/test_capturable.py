"""`capturable=True` is removed, also from options that only optimizers get."""

from __future__ import annotations

import pytest

from ...helpers import findings, migrated

HEAD = "import torch\nnet = torch.nn.Linear(2, 2).cuda()\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            'options = {"lr": 0.1, "capturable": True}\no = torch.optim.Adam(net.parameters(), **options)',
            'options = {"lr": 0.1, "capturable": False}',
        ),
        (
            "options = dict(lr=0.1, capturable=True)\no = torch.optim.AdamW(net.parameters(), **options)",
            "options = dict(lr=0.1, capturable=False)",
        ),
        (
            'o = torch.optim.Adam(net.parameters(), **{"capturable": True})',
            'o = torch.optim.Adam(net.parameters(), **{"capturable": False})',
        ),
        (
            "o = torch.optim.Adam(net.parameters(), lr=0.1, capturable=True)",
            "o = torch.optim.Adam(net.parameters(), lr=0.1)",
        ),
    ],
)
def test_it_is_switched_off(before: str, after: str) -> None:
    assert after in migrated(HEAD + before + "\n")


@pytest.mark.parametrize(
    "options",
    [
        'options = {"capturable": True}\nsave(options)\no = torch.optim.Adam(net.parameters(), **options)',
        'options = {"capturable": flag}\no = torch.optim.Adam(net.parameters(), **options)',
        'o = torch.optim.Adam(net.parameters())\no.param_groups[0]["capturable"] = True',
    ],
)
def test_options_that_other_code_may_read_are_reported_only(options: str) -> None:
    source = HEAD + options + "\n"
    assert "False" not in migrated(source)
    assert "XLA305" in {code for _, code in findings(source)}
