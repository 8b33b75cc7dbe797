"""`torch.device("cuda")` in every spelling, and strings that a call takes for a device."""

from __future__ import annotations

import pytest

from ....each import each
from ...helpers import migrated
from ..lines import line


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('d = torch.device("cuda")', "d = xla.xla_device()"),
        ("d = torch.device('cuda:0')", "d = xla.xla_device()"),
        ('d = torch.device("cuda:1")', "d = xla.xla_device(1)"),
        ('d = torch.device("cuda", 0)', "d = xla.xla_device()"),
        ('d = torch.device("cuda", rank)', "d = xla.xla_device(rank)"),
        ('d = torch.device("cuda", index=rank)', "d = xla.xla_device(rank)"),
        ('d = torch.device(type="cuda", index=2)', "d = xla.xla_device(2)"),
        ('d = torch.device("cuda", torch.cuda.current_device())', "d = xla.xla_device()"),
        ('d = torch.device(f"cuda:{rank}")', "d = xla.xla_device(rank)"),
        ('d = torch.device(f"cuda:{rank:d}")', "d = xla.xla_device(rank)"),
        ('d = torch.device(f"cuda:{args.gpu}")', "d = xla.xla_device(args.gpu)"),
        ('d = torch.device("cuda:%d" % rank)', "d = xla.xla_device(rank)"),
        ('d = torch.device("cuda:%s" % (rank,))', "d = xla.xla_device(rank)"),
        ('d = torch.device("cuda:{}".format(rank))', "d = xla.xla_device(rank)"),
        ('d = torch.device("cuda:" + str(rank))', "d = xla.xla_device(rank)"),
        ('d = torch.device("cuda:" + args.gpu)', "d = xla.xla_device(int(args.gpu))"),
    ],
)
def test_spellings(before: str, after: str) -> None:
    assert line(before) == after


AVAILABLE = "torch.cuda.is_available()"
MPS = "torch.backends.mps.is_available()"


@pytest.mark.parametrize(
    "choice",
    [
        f'torch.device("cuda" if {AVAILABLE} else "cpu")',
        f'torch.device("cuda:0" if {AVAILABLE} else "cpu")',
        f'torch.device("cpu" if not {AVAILABLE} else "cuda")',
        f'torch.device("cuda") if {AVAILABLE} else torch.device("cpu")',
        f'torch.device("cuda", 0) if {AVAILABLE} else torch.device("cpu")',
        f'torch.device("cuda", index=0) if {AVAILABLE} else torch.device("cpu")',
        f'torch.device(type="cuda") if {AVAILABLE} else torch.device("cpu")',
        f'torch.device("cuda" if {AVAILABLE} else "mps" if {MPS} else "cpu")',
        f'torch.device("mps" if {MPS} else "cuda" if {AVAILABLE} else "cpu")',
        f'torch.device("cuda") if {AVAILABLE} else (torch.device("mps") if {MPS} else torch.device("cpu"))',
        'torch.device("cuda" if torch.cuda.device_count() > 0 else "cpu")',
        'torch.device("cuda" if torch.cuda.device_count() >= 1 else "cpu")',
        'torch.device("cuda" if torch.cuda.device_count() != 0 else "cpu")',
        'torch.device("cuda:0" if torch.cuda.device_count() else "cpu")',
        'torch.accelerator.current_accelerator() if torch.accelerator.is_available() else "cpu"',
        'torch.accelerator.current_accelerator() if torch.accelerator.is_available() else torch.device("cpu")',
    ],
)
def test_a_choice_by_availability_is_the_accelerator(choice: str) -> None:
    assert line(f"d = {choice}") == "d = xla.xla_device()"


def test_the_index_of_a_choice_stays() -> None:
    before = f'd = torch.device("cuda", gpu) if {AVAILABLE} else torch.device("cpu")'
    assert line(before) == "d = xla.xla_device(gpu)"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            'd = torch.device("cuda" if use_cuda else "cpu")',
            'd = xla.xla_device() if use_cuda else torch.device("cpu")',
        ),
        (
            'd = torch.device("cuda:1" if torch.cuda.is_available() and not args.no_cuda else "cpu")',
            'd = xla.xla_device(1) if xla.is_available() and not args.no_cuda else torch.device("cpu")',
        ),
        (
            'd = torch.device(f"cuda:{i}" if i >= 0 else "cpu")',
            'd = xla.xla_device(i) if i >= 0 else torch.device("cpu")',
        ),
        (
            'd = torch.device("cuda") if use_cuda else torch.device("cpu")',
            'd = xla.xla_device() if use_cuda else torch.device("cpu")',
        ),
        (
            'd = torch.device("mps" if mps else "cuda" if cuda else "cpu")',
            'd = torch.device("mps") if mps else xla.xla_device() if cuda else torch.device("cpu")',
        ),
    ],
)
def test_any_other_condition_stays(before: str, after: str) -> None:
    assert line(before) == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('x.to("cuda")', "x.to(xla.xla_device())"),
        ('x.to("cuda:0", torch.float32)', "x.to(xla.xla_device(), torch.float32)"),
        ('x.to(device="cuda", dtype=t)', "x.to(device=xla.xla_device(), dtype=t)"),
        ('x.to(f"cuda:{rank}")', "x.to(xla.xla_device(rank))"),
        ('x.to("cuda" if torch.cuda.is_available() else "cpu")', "x.to(xla.xla_device())"),
        ('x.to("cuda" if flag else "cpu")', 'x.to(xla.xla_device() if flag else "cpu")'),
        ('torch.zeros(2, device="cuda")', "torch.zeros(2, device=xla.xla_device())"),
        ('torch.nn.Linear(2, 2, device="cuda:0")', "torch.nn.Linear(2, 2, device=xla.xla_device())"),
        ('x.new_zeros(2, device="cuda")', "x.new_zeros(2, device=xla.xla_device())"),
        ('m.to_empty(device="cuda")', "m.to_empty(device=xla.xla_device())"),
        ('with torch.device("cuda"):\n    m()', "with xla.xla_device():\n    m()"),
    ],
)  # fmt: skip
def test_sinks(before: str, after: str) -> None:
    assert line(before) == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            'def f(x, device=torch.device("cuda")): pass',
            "def f(x, device=torch.device(xla.device_type())): pass",
        ),
        (
            'class C:\n    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")',
            "class C:\n    device = torch.device(xla.device_type())",
        ),
        (
            'd = torch.device("cuda")\ntorch.multiprocessing.spawn(run)',
            "d = torch.device(xla.device_type())\nxla.launch(run)",
        ),
    ],
)
def test_fact_1_9_what_is_evaluated_at_import_does_not_touch_the_device(
    before: str, after: str
) -> None:
    assert line(before) == after


@pytest.mark.parametrize(
    "source",
    [
        'd = torch.device("cpu")',
        'd = torch.device("mps" if torch.backends.mps.is_available() else "cpu")',
        'd = torch.device("meta")',
        'd = torch.device("xla")',
        "d = torch.device(x.device)",
        'x.to("cpu")',
        'money.to("EUR")',
        'print("cuda")',
        'raise ValueError("cuda")',
        'path = "cuda/kernels"',
        'kernel = load(name="cuda_ext", sources=["a.cu"])',
    ],
)
def test_other_devices_and_words_stay(source: str) -> None:
    assert line(source) == source


@pytest.mark.parametrize(
    ("choice", "after"),
    [
        (
            '"cuda" if args.cuda else "cpu"',
            'xla.xla_device() if args.cuda else torch.device("cpu")',
        ),
        (
            'f"cuda:{args.gpu}" if args.gpu >= 0 else "cpu"',
            'xla.xla_device(args.gpu) if args.gpu >= 0 else torch.device("cpu")',
        ),
        (
            '"cuda:%d" % args.gpu if args.cuda else "cpu"',
            'xla.xla_device(args.gpu) if args.cuda else torch.device("cpu")',
        ),
        (
            "'cpu' if args.cpu else 'cuda:' + str(args.gpu)",
            "torch.device('cpu') if args.cpu else xla.xla_device(args.gpu)",
        ),
        (
            '"cuda" if torch.cuda.is_available() and args.cuda else "mps" if args.mps else "cpu"',
            'xla.xla_device() if xla.is_available() and args.cuda else torch.device("mps" if args.mps else "cpu")',
        ),
        (
            '("cuda" if args.a else "cpu") if args.b else "cuda:1"',
            '(xla.xla_device() if args.a else torch.device("cpu")) if args.b else xla.xla_device(1)',
        ),
    ],
)
def test_no_device_of_a_device_is_made(choice: str, after: str) -> None:
    source = f"import torch\ndevice = torch.device({choice})\nx = torch.ones(1).to(device)\n"
    assert f"\ndevice = {after}\n" in migrated(source)


@each(
    "body",
    [
        "@dataclass\nclass Config:\n    gpu: str = 'cuda'\ncfg = Config()\nx = torch.ones(2, device=cfg.gpu)",
        "class Config:\n    where = 'cuda'\nx = torch.ones(2).to(Config.where)",
        "class Trainer:\n    def __init__(self):\n        self.target = 'cuda'\n    def run(self, x):\n        return x.to(self.target)",
    ],
)
def test_an_attribute_that_is_used_as_a_device_has_a_safe_fix(body: str) -> None:
    done = migrated(f"from dataclasses import dataclass\nimport torch\n{body}\n")
    assert "= xla.device_type()" in done


def test_an_attribute_that_is_only_displayed_is_no_device_for_sure() -> None:
    done = migrated("import torch\nclass C:\n    label = 'cuda'\nprint(C.label)\n")
    assert "label = 'cuda'" in done
