"""Files that are opened again have what waits to be written to them."""

from __future__ import annotations

import logging
import os
import pickle
from pathlib import Path

import pytest
import torch

from xla_migrate import runtime as xla

from .steps import steps_of


def test_a_file_that_is_opened_again_has_what_waits(device: torch.device, tmp_path: Path) -> None:
    path = tmp_path / "log"
    log = logging.getLogger("test_opened")
    log.propagate = False
    log.addHandler(logging.FileHandler(tmp_path / "logged"))
    with path.open("w") as f:
        for k, value in steps_of(device):
            xla.later(lambda k=k, value=value: f.write(f"{k} {value.item()}\n"), to=f)
            f.flush()
            xla.later(lambda value=value: log.warning("%f", value.item()))
        assert path.read_text().split("\n")[2] == "2 2.0"
        xla.later(lambda value=value: log.warning("%f", value.item()))
        assert len((tmp_path / "logged").read_text().split()) == 4
        xla.later(lambda value=value: f.write(f"{value.item()}\n"), to=f)
        assert f.tell() == len("0 0.0\n") * 3 + len("2.0\n")


def test_what_is_put_in_the_place_of_open_does_what_it_did(
    device: torch.device, tmp_path: Path
) -> None:
    value = torch.ones((), device=device)
    xla.later(lambda value=value: value.item())
    path = tmp_path / "text"
    with open(file=path, mode="w", encoding="utf-8", newline="\n") as f:
        f.write("é\n")
    assert Path(path).read_bytes() == "é\n".encode()
    with pytest.raises(FileNotFoundError):
        open(tmp_path / "none")  # noqa: SIM115
    with pytest.raises(TypeError):
        open(path, 3)  # type: ignore[call-overload]  # noqa: SIM115
    with open(os.open(path, os.O_RDONLY), "rb") as raw:
        assert raw.read() == path.read_bytes()
    assert pickle.loads(pickle.dumps(open)) is open
