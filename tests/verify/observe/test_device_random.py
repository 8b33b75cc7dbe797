"""The stream of device random numbers: seeded by the script, not by what loads its data."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset

from xla_migrate.verify.observe.numerics import device_random
from xla_migrate.verify.observe.process.patching import Patches

from ... import warm


@pytest.fixture(autouse=True)
def installed() -> Iterator[None]:
    patches = Patches()
    before = device_random.generator.get_state()
    device_random.install(patches)
    try:
        yield
    finally:
        patches.undo()
        device_random.generator.set_state(before)


def draw() -> float:
    return float(torch.rand((), generator=device_random.generator))


class Seeding(Dataset[Any]):
    """Images by index, as torchvision's FakeData makes them."""

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> torch.Tensor:
        state = torch.get_rng_state()
        torch.manual_seed(index)
        image = torch.randn(2)
        torch.set_rng_state(state)
        return image


class Stream(IterableDataset[Any]):
    def __iter__(self) -> Iterator[torch.Tensor]:
        yield from (Seeding()[i] for i in range(4))


def test_a_seed_of_the_script_seeds_the_device() -> None:
    torch.manual_seed(3)
    first = draw()
    assert draw() != first
    torch.manual_seed(3)
    assert draw() == first


@pytest.mark.parametrize("data", [Seeding(), Stream()])
def test_seeds_set_while_data_are_loaded_do_not(data: Any) -> None:
    torch.manual_seed(3)
    expected = [draw() for _ in range(4)]
    torch.manual_seed(3)
    assert [draw() for _ in DataLoader(data, batch_size=1)] == expected


def test_a_loader_in_a_thread_does_not_keep_the_script_from_seeding() -> None:
    inside, leave = threading.Event(), threading.Event()

    class Waiting(Seeding):
        def __getitem__(self, index: int) -> torch.Tensor:
            inside.set()
            leave.wait(10)
            return super().__getitem__(index)

    reader = threading.Thread(target=lambda: list(DataLoader(Waiting())))
    reader.start()
    inside.wait(10)
    torch.manual_seed(3)
    first = draw()
    torch.manual_seed(3)
    assert draw() == first
    leave.set()
    reader.join()


def test_a_default_device_goes_on_working() -> None:
    """torch keeps the set of what it holds for: its own functions, not ours."""
    code = (
        "import torch\n"
        "from xla_migrate.verify.observe.numerics import device_random\n"
        "from xla_migrate.verify.observe.process.patching import Patches\n"
        "device_random.install(Patches())\n"
        "torch.set_default_device('meta')\n"
        "print(torch.rand(2).device, torch.randn(2).device, torch.empty(2).device)\n"
    )
    python = warm.python(*warm.TORCH)
    shown = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.split() == ["meta"] * 3
