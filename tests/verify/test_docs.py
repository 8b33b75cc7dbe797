"""What docs/verify.md shows does what it says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

PAGE = Path(__file__).parents[2] / "docs" / "verify.md"


def test_the_stand_in_for_mnist(monkeypatch: pytest.MonkeyPatch) -> None:
    torchvision = pytest.importorskip("torchvision")
    monkeypatch.setattr(torchvision.datasets, "MNIST", torchvision.datasets.MNIST)
    shim = re.search(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert shim is not None
    exec(shim.group(1), {})
    to_tensor = torchvision.transforms.ToTensor()
    train = torchvision.datasets.MNIST("../data", train=True, download=True, transform=to_tensor)
    test = torchvision.datasets.MNIST("../data", train=False, transform=to_tensor)
    assert train[0][0].shape == (1, 28, 28)
    assert 0 <= train[0][1] < 10
    assert not torch.equal(train[0][0], test[0][0])


def test_every_option_is_told() -> None:
    from xla_migrate.cli.verify_arguments import parser

    page = PAGE.read_text(encoding="utf-8")
    options = [word for action in parser()._actions for word in action.option_strings]
    untold = [word for word in options if word.startswith("--") and word not in page]
    assert untold == ["--help", "--timeout", "--unsafe"]  # they say it themselves
