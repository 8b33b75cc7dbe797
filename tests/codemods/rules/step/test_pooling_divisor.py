"""`divisor_override`, by its name and by its place."""

from __future__ import annotations

import pytest

from ..lines import codes

HEAD = "import torch\nfrom torch import nn\nimport torch.nn.functional as F\nx = x.cuda()\n"


@pytest.mark.parametrize(
    "source",
    [
        "F.avg_pool2d(x, 2, divisor_override=3)",
        "F.avg_pool3d(x, 2, 2, 0, False, True, 3)",
        "nn.AvgPool2d(2, divisor_override=d)",
        "nn.AvgPool3d(2, 2, 0, True, True, 1)",
    ],
)
def test_is_found(source: str) -> None:
    assert "XLA520" in codes(HEAD + source)


@pytest.mark.parametrize(
    "source",
    [
        "F.avg_pool2d(x, 2)",
        "F.avg_pool2d(x, 2, 2, 0, False, True)",
        "nn.AvgPool2d(2, 2, 0, True, True, None)",
        "nn.AvgPool2d(2, divisor_override=None)",
        "pool(x, divisor_override=3)",
    ],
)
def test_others_are_fine(source: str) -> None:
    assert "XLA520" not in codes(HEAD + source)
