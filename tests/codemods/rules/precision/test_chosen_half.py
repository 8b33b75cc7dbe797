"""float16 that a test for CUDA chooses is never chosen on XLA without a finding."""

from __future__ import annotations

import pytest

from xla_codemods.engine import check

from ...helpers import migrated

HEAD = """\
import torch
from torch import nn
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
"""
TAIL = """
net = nn.Linear(4, 1).to(device, dtype)
net(torch.ones(2, 4, device=device, dtype=dtype)).mean().backward()
"""


@pytest.mark.parametrize(
    ("line", "unsafe"),
    [
        (
            'dtype = torch.float16 if device.type == "cuda" else torch.float32',
            "dtype = torch.bfloat16 if xla.is_accelerator(device) else torch.float32",
        ),
        (
            "dtype = torch.half if torch.cuda.is_available() else torch.float",
            "dtype = torch.bfloat16 if xla.is_available() else torch.float",
        ),
        (
            "dtype = torch.float32 if not torch.cuda.is_available() else torch.float16",
            "dtype = torch.float32 if not xla.is_available() else torch.bfloat16",
        ),
        (
            'dtype = torch.float32\nif "cuda" in str(device):\n    dtype = torch.float16',
            "dtype = torch.float32\nif xla.is_accelerator(device):\n    dtype = torch.bfloat16",
        ),
        (
            "def pick(x):\n    if x.is_cuda:\n        return torch.float16\n    return torch.float32\ndtype = pick(torch.ones(1))",
            "def pick(x):\n    if xla.is_accelerator(x):\n        return torch.bfloat16\n    return torch.float32\ndtype = pick(torch.ones(1))",
        ),
        (
            'def pick():\n    if device.type != "cuda":\n        return torch.float32\n    return torch.float16\ndtype = pick()',
            "def pick():\n    if not xla.is_accelerator(device):\n        return torch.float32\n    return torch.bfloat16\ndtype = pick()",
        ),
        (
            "def build(dtype=torch.float16 if torch.cuda.is_available() else None):\n    return dtype\ndtype = build()",
            "def build(dtype=torch.bfloat16 if xla.is_available() else None):\n    return dtype\ndtype = build()",
        ),
        (
            'precision = "fp16" if torch.cuda.is_available() else "no"\ndtype = torch.float32',
            'precision = "bf16" if xla.is_available() else "no"\ndtype = torch.float32',
        ),
    ],
)
def test_a_test_that_only_chooses_float16_is_left(line: str, unsafe: str) -> None:
    source = HEAD + line + TAIL
    assert line in migrated(source)
    assert unsafe in migrated(source, unsafe=True)
    left = [f for f in check(migrated(source).encode()) if f.safety == "unsafe"]
    assert [f.code for f in left if "float16 is not chosen" in f.message] != []


@pytest.mark.parametrize(
    "line",
    [
        "use_cuda = torch.cuda.is_available()\ndtype = torch.float16 if use_cuda else torch.float32",
        'dtype = torch.float32 if device.type == "cpu" else torch.float16',
        'if torch.cuda.is_available():\n    device, dtype = "cuda", torch.float16\nelse:\n    device, dtype = "cpu", torch.float32',
    ],
)
def test_float16_that_xla_would_choose_is_reported(line: str) -> None:
    source = HEAD + line + TAIL
    assert "XLA208" in [f.code for f in check(source.encode())]
    assert "XLA208" in [f.code for f in check(migrated(source).encode())]
    assert "float16" not in migrated(source, unsafe=True).replace("bfloat16", "")


@pytest.mark.parametrize(
    "line",
    [
        'amp_dtype = torch.float16 if device.type == "cuda" else torch.bfloat16',
        "amp_dtype = torch.float16 if torch.cuda.is_available() else None",
    ],
)
def test_autocast_computes_in_bfloat16_on_xla(line: str) -> None:
    source = (
        f"{HEAD}{line}\nnet = nn.Linear(4, 1).to(device)\n"
        "with torch.autocast(device.type, dtype=amp_dtype):\n"
        "    net(torch.ones(2, 4, device=device)).mean().backward()\n"
    )
    after = migrated(source)
    assert "amp_dtype = torch.float16 if xla.is_" in after
    assert "XLA208" not in [f.code for f in check(after.encode())]


def test_what_only_names_weights_is_no_precision() -> None:
    source = HEAD + 'load(variant="fp16" if torch.cuda.is_available() else None)\n'
    assert 'variant="fp16" if xla.is_available() else None' in migrated(source)
