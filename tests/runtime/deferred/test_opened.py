"""Files that are opened again have what waits to be written to them."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from xla_migrate import runtime as xla


@pytest.fixture(autouse=True)
def nothing_waits() -> Iterator[None]:
    xla.flush()
    yield
    xla.flush()


def _values(device: torch.device, count: int = 3) -> Iterator[tuple[int, torch.Tensor]]:
    for k in range(count):
        yield k, torch.ones((), device=device) * k
        xla.mark_step()


def test_a_file_that_is_opened_again_has_what_waits(device: torch.device, tmp_path: Path) -> None:
    path = tmp_path / "log"
    log = logging.getLogger("test_opened")
    log.propagate = False
    log.addHandler(logging.FileHandler(tmp_path / "logged"))
    with path.open("w") as f:
        for k, value in _values(device):
            xla.later(lambda k=k, value=value: f.write(f"{k} {value.item()}\n"), to=f)
            f.flush()
            xla.later(lambda value=value: log.warning("%f", value.item()))
        assert path.read_text().split("\n")[2] == "2 2.0"
        xla.later(lambda value=value: log.warning("%f", value.item()))
        assert len((tmp_path / "logged").read_text().split()) == 4
        xla.later(lambda value=value: f.write(f"{value.item()}\n"), to=f)
        assert f.tell() == len("0 0.0\n") * 3 + len("2.0\n")
