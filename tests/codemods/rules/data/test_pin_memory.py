"""Pinned memory that a choice or a statement asks for."""

from __future__ import annotations

import pytest

from ...helpers import migrated
from ..lines import line

HAS_CUDA = "torch.cuda.is_available()"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("x = x.pin_memory() if torch.cuda.is_available() else x", "x = x.pin_memory() if torch.cuda.is_available() else x"),
        ("x = x.pin_memory()", f"x = x.pin_memory() if {HAS_CUDA} else x"),
        ("x.pin_memory()", ""),
        ("x = x if not cuda else x.pin_memory()", f"x = x if not cuda or not {HAS_CUDA} else x.pin_memory()"),
        ("y = x.pin_memory() if cuda else x", f"y = x.pin_memory() if cuda and {HAS_CUDA} else x"),
        ("y = [t.pin_memory() for t in x]", f"y = [t.pin_memory() if {HAS_CUDA} else t for t in x]"),
        ("y = x.pin_memory().float()", f"y = (x.pin_memory() if {HAS_CUDA} else x).float()"),
        ("f(x.t().pin_memory() if cuda else x.t())", "f(x.t() if cuda else x.t())"),
        ("y = x.pin_memory() if cuda else z", f"y = (x.pin_memory() if {HAS_CUDA} else x) if cuda else z"),
        ("y = x.pin_memory() if ready() else x", f"y = x.pin_memory() if ready() and {HAS_CUDA} else x"),
    ],
)  # fmt: skip
def test_choices(before: str, after: str) -> None:
    source = f"{before}\nz = x.cuda()"
    assert line(source).startswith(after + "\n" if after else "z = ")


@pytest.mark.parametrize(
    ("imported", "call", "after"),
    [
        ("from torchrl.data import ReplayBuffer", "ReplayBuffer(s, pin_memory=True)", f"ReplayBuffer(s, pin_memory={HAS_CUDA})"),
        ("import other.data as od", "od.Loader(s, pin_memory=pin)", f"od.Loader(s, pin_memory=pin and {HAS_CUDA})"),
        ("from other import Loader", "Loader(s, pin_memory=False)", None),
        ("from other import given, booleans", "given(pin_memory=booleans())", None),
        ("from .own import Loader", "Loader(s, pin_memory=True)", None),
        ("", "Loader(s, pin_memory=True)", None),
        ("from xla_migrate import runtime as xla", "xla.MpDeviceLoader(s, pin_memory=True)", None),
    ],
)  # fmt: skip
def test_what_other_packages_make_pins_only_if_there_is_cuda(
    imported: str, call: str, after: str | None
) -> None:
    source = f"import torch\n{imported}\nmade = {call}\n"
    assert migrated(source) == source.replace(call, after or call)


@pytest.mark.parametrize(
    ("argument", "after"),
    [
        ("True", HAS_CUDA),
        ("pin", f"pin and {HAS_CUDA}"),
        (HAS_CUDA, HAS_CUDA),
        (f"pin and {HAS_CUDA}", f"pin and {HAS_CUDA}"),
        ("False", "False"),
    ],
)
def test_new_tensors_are_pinned_only_if_there_is_cuda(argument: str, after: str) -> None:
    source = f"import torch\npin = True\nx = torch.empty(4, pin_memory={argument})\n"
    assert migrated(source) == source.replace(f"={argument})", f"={after})")


def test_the_method_that_data_loaders_call_stays() -> None:
    source = """\
import torch

class Batch:
    def pin_memory(self):
        self.x = self.x.pin_memory()
        return self
"""
    assert migrated(source) == source


LOADERS = """\
import torch
from torch.utils.data import DataLoader
loader = DataLoader(data, pin_memory=True)
"""
LOOP = """
for x in loader:
    loss = model(x.cuda(non_blocking=True)).sum()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("rest", "pins"),
    [
        ("", True),
        ("def move(x):\n    return x.cuda(non_blocking=True)\nfor x in loader:\n    f(x)\n", True),
        (LOOP, False),
        (LOOP + "other = DataLoader(data, pin_memory=True)\nfor x in other:\n    f(x)\n", True),
    ],
)
def test_loaders_pin_unless_a_device_loader_does(rest: str, pins: bool) -> None:
    after = migrated(LOADERS + rest)
    assert ("pin_memory=True" in after) is pins
    assert ("non_blocking=True" in after) is ("non_blocking" in rest and LOOP not in rest)


def test_loaders_of_accelerate_pin() -> None:
    source = (
        "from accelerate import Accelerator\naccelerator = Accelerator()\n"
        f"{LOADERS}model, optimizer, loader = accelerator.prepare(model, optimizer, loader)\n"
        "for x in loader:\n    accelerator.backward(model(x))\n    optimizer.step()\n"
    )
    assert "pin_memory=True" in migrated(source)


@pytest.mark.parametrize(
    "source",
    [
        "def build(n, *, pin_memory):\n    return torch.zeros(n)\nx = build(2, pin_memory=True)\n",
        "class Loader(DataLoader):\n    def __init__(self, data, pin_memory):\n"
        "        super().__init__(data, pin_memory=pin_memory)\nloader = Loader(data, pin_memory=True)\n",
        "class Data:\n    def loader(self, pin_memory):\n"
        "        return DataLoader(data, pin_memory=pin_memory)\nloader = Data().loader(pin_memory=True)\n",
    ],
)
def test_functions_of_the_script_get_all_their_arguments(source: str) -> None:
    after = migrated(f"import torch\nfrom torch.utils.data import DataLoader\n{source}{LOOP}")
    assert "pin_memory=True" in after
    assert "MpDeviceLoader" in after
