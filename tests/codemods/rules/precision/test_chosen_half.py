"""float16 that a test for CUDA chooses is never chosen on XLA without a finding."""

from __future__ import annotations

import re

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


def _that_choose_bfloat16(source: str) -> list[str]:
    """Return the codes of the findings that only `--unsafe` fixes: the same before a rewrite and after it."""
    found = check(source.encode())
    return [f.code for f in found if f.safety == "unsafe" and "float16 is not chosen" in f.message]


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
            'parser.add_argument("--type", default="fp16" if torch.cuda.is_available() else "fp32")\ndtype = None',
            'parser.add_argument("--type", default="bf16" if xla.is_available() else "fp32")\ndtype = None',
        ),
        (
            'dtype = getattr(torch, "float16" if torch.cuda.is_available() else "float32")',
            'dtype = getattr(torch, "bfloat16" if xla.is_available() else "float32")',
        ),
        (
            "dtype = {True: torch.float16, False: torch.float32}[torch.cuda.is_available()]",
            "dtype = {True: torch.bfloat16, False: torch.float32}[xla.is_available()]",
        ),
        (
            "PAIR = (torch.float32, torch.half)\ndtype = PAIR[torch.cuda.is_available()]",
            "PAIR = (torch.float32, torch.bfloat16)\ndtype = PAIR[xla.is_available()]",
        ),
        (
            "class Kinds:\n    table = {True: torch.half, False: torch.float}\n    def pick(self, x):\n        return self.table[x.is_cuda]\ndtype = Kinds().pick(device)",
            "class Kinds:\n    table = {True: torch.bfloat16, False: torch.float}\n    def pick(self, x):\n        return self.table[xla.is_accelerator(x)]\ndtype = Kinds().pick(device)",
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
    ("line", "kept"),
    [
        (
            "use_cuda = torch.cuda.is_available()\ndtype = torch.float16 if use_cuda else torch.float32",
            "dtype = torch.float16 if torch.cuda.is_available() else torch.float32",
        ),
        (
            'dtype = torch.float32 if device.type == "cpu" else torch.float16',
            'dtype = torch.float32 if device.type != "cuda" else torch.float16',
        ),
        (
            'dtype = torch.float16 if device.type != "cpu" else torch.float32',
            'dtype = torch.float16 if device.type == "cuda" else torch.float32',
        ),
        (
            'config = {"cuda": torch.cuda.is_available()}\ndtype = torch.float16 if config["cuda"] else torch.float32',
            'torch.float16 if config["cuda"] and torch.cuda.is_available() else torch.float32',
        ),
        (
            "config = dict(fast=torch.cuda.is_available())\ndtype = torch.float16 if config['fast'] else torch.float32",
            "torch.float16 if config['fast'] and torch.cuda.is_available() else torch.float32",
        ),
        (
            "def pick(fast):\n    return torch.float16 if fast else torch.float32\ndtype = pick(torch.cuda.is_available())",
            "return torch.float16 if fast and torch.cuda.is_available() else torch.float32",
        ),
        (
            "def pick(fast):\n    return torch.float32 if not fast else torch.float16\ndtype = pick(fast=torch.cuda.is_available())",
            "return torch.float32 if not (fast and torch.cuda.is_available()) else torch.float16",
        ),
        (
            "class Trainer:\n    def __init__(self, fast):\n        self.fast = fast\n"
            "        self.dtype = torch.float16 if self.fast else torch.float32\n"
            "dtype = Trainer(torch.cuda.is_available()).dtype",
            "torch.float16 if self.fast and torch.cuda.is_available() else torch.float32",
        ),
        (
            'if torch.cuda.is_available():\n    kind, dtype = "cuda", torch.float16\nelse:\n    kind, dtype = "cpu", torch.float32',
            "(torch.float16 if torch.cuda.is_available() else torch.float32)",
        ),
        (
            "use_cuda = torch.cuda.is_available()\nif use_cuda:\n    torch.cuda.set_device(0)\n    dtype = torch.float16\nelse:\n    dtype = torch.float32",
            "dtype = torch.float16 if torch.cuda.is_available() else torch.float32",
        ),
        (
            'half = device.type != "cpu"\ndtype = torch.float16 if half else torch.float32',
            'half = device.type == "cuda"',
        ),
        (
            "def run(net, x, half=False):\n    half &= device.type != 'cpu'\n    if half:\n        net.half()\n"
            "    return net(x.half() if half else x.float())\ndtype = torch.float32",
            'half &= device.type == "cuda"',
        ),
        (
            "use_cuda = torch.cuda.is_available()\nnet = nn.Linear(2, 2).to(device)\n"
            "net = net.half() if use_cuda else net\ndtype = torch.float32",
            "net = net.half() if torch.cuda.is_available() else net",
        ),
        (
            'def run(net, x):\n    half = x.device.type != "cpu"\n    net = net.half() if half else net\n'
            "    x = x.half() if half else x.float()\n    return net(x)\ndtype = torch.float32",
            'half = x.device.type == "cuda"',
        ),
    ],
)
def test_float16_that_xla_would_choose_is_chosen_for_cuda_alone(line: str, kept: str) -> None:
    source = HEAD + line + TAIL
    assert "XLA208" in [f.code for f in check(source.encode())]
    after = migrated(source)
    assert kept in after
    assert _that_choose_bfloat16(source) == _that_choose_bfloat16(after) != []
    assert "XLA208" not in [f.code for f in check(after.encode())]
    assert not re.search(r"\bfloat16|\.half\(", migrated(source, unsafe=True))


@pytest.mark.parametrize(
    "line",
    [
        "use_fp16 = torch.cuda.is_available()\ndtype = torch.float16 if use_fp16 else torch.float32",
        "dtype = torch.float16 if args.fp16 and torch.cuda.is_available() else torch.float32",
        'dtype = torch.float16 if args.fp16 and device.type == "cuda" else torch.float32',
        "def build(net, half=torch.cuda.is_available()):\n    return net.half() if half else net\ndtype = None",
        'net = build(nn.Linear(4, 1), half=device.type == "cuda")\ndtype = torch.float32',
        "class Config:\n    half: bool = torch.cuda.is_available()\ndtype = torch.float32",
    ],
)
def test_an_option_for_float16_holds_for_cuda_alone(line: str) -> None:
    source = HEAD + line + TAIL
    assert line in migrated(source)
    assert any("float16 is not chosen" in f.message for f in check(migrated(source).encode()))


@pytest.mark.parametrize(
    "line",
    [
        "use_cuda = torch.cuda.is_available()\ndtype = torch.float32\nif use_cuda:\n    x = x.cuda().half()",
        "use_cuda = torch.cuda.is_available()\n"
        "weights = torch.float16 if use_cuda else torch.float32\n"
        "dtype = torch.float32\nif use_cuda:\n    net.cuda()\n    dtype = torch.float16",
        'use_mps = torch.backends.mps.is_available()\ndtype = torch.float32 if device.type == "cpu" else torch.float16',
    ],
)
def test_float16_is_reported_if_its_other_value_is_not_known(line: str) -> None:
    """One tensor in float32 and another in float16 would fail: either all keep their type, or none."""
    source = HEAD + line + TAIL
    after = migrated(source)
    assert not re.search(r"if torch\.cuda", after)
    assert "XLA208" in [f.code for f in check(after.encode())]


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


ENGINE = """
class Engine:
    def __init__(self, half=True):
        self.half = half and TEST
        self.net = nn.Linear(4, 1).to(device)
        if self.half:
            self.net.half()
    def run(self, x):
        return self.net(x.half() if self.half else x.float())
Engine().run(torch.ones(2, 4, device=device)).mean().backward()
"""
FUNCTION = """
def run(x, half=True):
    half = half and TEST
    net = nn.Linear(4, 1).to(device)
    if half:
        net.half()
    return net(x.half() if half else x.float())
run(torch.ones(2, 4, device=device)).mean().backward()
"""


@pytest.mark.parametrize("script", [ENGINE, FUNCTION])
@pytest.mark.parametrize(
    ("line", "kept"),
    [
        ('device.type == "cuda"', 'device.type == "cuda"'),
        ('device.type != "cpu"', 'device.type == "cuda"'),
        ("torch.cuda.is_available()", "torch.cuda.is_available()"),
    ],
)
def test_a_flag_for_float16_holds_for_cuda_alone(script: str, line: str, kept: str) -> None:
    after = migrated(HEAD + script.replace("TEST", line))
    assert f"half = half and {kept}\n" in after
    before = _that_choose_bfloat16(HEAD + script.replace("TEST", line))
    assert before == _that_choose_bfloat16(after) != []
    assert ".half()" not in migrated(HEAD + script.replace("TEST", line), unsafe=True)


@pytest.mark.parametrize(
    ("flag", "use"),
    [
        ("half = wanted and use_cuda", "if half:\n    net.half()\n"),
        ("half = use_cuda and wanted", "if wanted and half:\n    net = net.half()\n"),
        ("half = use_cuda", "net = net.half() if half else net.float()\n"),
        ("use_fp16 = bool(use_cuda) and wanted", "if use_fp16:\n    net.to(torch.float16)\n"),
    ],
)
def test_an_option_for_float16_that_also_chooses_the_device_is_reported(
    flag: str, use: str
) -> None:
    """The device has to be XLA's, so the flag is True there, and chooses float16, too."""
    name = flag.partition(" ")[0]
    script = (
        "import sys\nimport torch\nfrom torch import nn\n"
        'wanted = "--half" in sys.argv\nuse_cuda = torch.cuda.is_available()\n'
        f'{flag}\ndevice = "cuda" if {name} else "cpu"\nnet = nn.Linear(2, 2)\n{use}net.to(device)\n'
    )
    rewritten = migrated(script)
    assert "use_cuda = xla.is_available()" in rewritten
    assert [f.code for f in check(rewritten.encode()) if f.code == "XLA208"]
