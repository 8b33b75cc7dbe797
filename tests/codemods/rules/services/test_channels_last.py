"""`channels_last`: reported once where it is asked for, in files that train on an accelerator."""

from __future__ import annotations

import pytest

from ..lines import codes

STEP = """
import torch
from torch import channels_last as cl
def step(model, images, labels, args):
    {}
    torch.nn.functional.cross_entropy(model(images), labels).backward()
"""


@pytest.mark.parametrize(
    "line",
    [
        'model.to("cuda", memory_format=torch.channels_last)',
        "images = images.cuda().contiguous(memory_format=cl)",
        "given = dict(memory_format=torch.channels_last_3d); images = images.cuda().to(**given)",
        "args.layout = torch.channels_last; images = images.cuda().to(memory_format=args.layout)",
        "images = images.cuda().to(memory_format=cl if args.channels_last else None)",
    ],
)
def test_reported_once(line: str) -> None:
    assert codes(STEP.format(line)).count("XLA133") == 1


@pytest.mark.parametrize(
    "line",
    [
        "images = images.cuda() if args.layout == torch.channels_last else images",
        "images = images.cuda().to(memory_format=None if args.layout is cl else args.layout)",
        'args.cuda = "channels_last"',
        "images = images.contiguous(memory_format=torch.channels_last)",  # no accelerator
    ],
)
def test_not_reported(line: str) -> None:
    assert "XLA133" not in codes(STEP.format(line))
