"""Functions of torch that a script replaces by its own, which the migration makes call the runtime's."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.utils.checkpoint

from xla_migrate import runtime as xla


def test_a_load_that_was_replaced_ends_and_keeps_its_arguments(
    device: torch.device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`torch.load = partial(torch.load, weights_only=False)`: written since torch 2.6 to load whole objects."""
    monkeypatch.setattr(torch, "load", functools.partial(xla.load, weights_only=False))
    xla.save({"weight": torch.ones(2, device=device), "path": tmp_path}, tmp_path / "a.pt")
    for load in (torch.load, xla.load):
        found = load(tmp_path / "a.pt")
        assert found["path"] == tmp_path  # refused with weights_only
        assert found["weight"].device.type == "cpu"


def test_a_load_that_takes_the_path_as_text_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch, "load", lambda path, **options: xla.load(str(path), **options))
    xla.save({"a": 1}, tmp_path / "a.pt")
    assert xla.load(tmp_path / "a.pt") == {"a": 1}


def test_a_save_that_was_replaced_ends_and_writes_host_tensors(
    device: torch.device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[int] = []
    torchs = torch.load

    def save(*args: Any, **options: Any) -> Any:
        calls.append(1)
        return xla.save(*args, **options)

    monkeypatch.setattr(torch, "save", save)
    xla.save({"weight": torch.ones(2, device=device)}, tmp_path / "a.pt")
    assert calls == [1]
    assert torchs(tmp_path / "a.pt")["weight"].device.type == "cpu"


class _WithItsOwnFile:
    """An object that saves a part of itself in a file of its own while it is saved."""

    def __init__(self, part: Any, path: Path) -> None:
        self.part, self.path = part, path

    def __getstate__(self) -> dict[str, Any]:
        xla.save(self.part, self.path)
        return {"path": self.path}


def test_another_object_that_is_saved_within_is_written_as_always(
    device: torch.device, tmp_path: Path
) -> None:
    whole = _WithItsOwnFile({"w": torch.ones(2, device=device)}, tmp_path / "part.pt")
    xla.save(whole, tmp_path / "whole.pt")
    assert torch.load(tmp_path / "part.pt")["w"].device.type == "cpu"


def test_a_checkpoint_function_that_was_replaced_ends(
    device: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    replaced = functools.partial(xla.checkpoint, use_reentrant=False)
    monkeypatch.setattr(torch.utils.checkpoint, "checkpoint", replaced)
    x = torch.ones(2, device=device, requires_grad=True)
    torch.utils.checkpoint.checkpoint(torch.sin, x).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == pytest.approx([0.5403, 0.5403], abs=1e-4)
