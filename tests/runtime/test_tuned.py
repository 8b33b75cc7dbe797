"""Settings from outside go before the script's."""

from __future__ import annotations

import os
import subprocess
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from xla_migrate import runtime as xla
from xla_migrate.runtime import _tuned

from .. import warm


def _loader(**more: Any) -> Any:
    return DataLoader(TensorDataset(torch.arange(8.0)), batch_size=1, **more)


def _marks(device: torch.device) -> int:
    """Of a loop that marks by itself, too."""
    xla.mark_step()
    before = xla.metrics()["step_marks"] or 0
    total = torch.zeros(1, device=device)
    for (x,) in xla.MpDeviceLoader(_loader(), device):
        total += x
        xla.mark_step()
    after = xla.metrics()["step_marks"] or 0
    xla.mark_step()
    assert total.item() == 28
    return after - before


def test_batches_per_execution_takes_the_loop_s_own_marks_too(
    device: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_tuned, "_passes", 0)  # of loops that other tests have left
    usual = _marks(device)
    monkeypatch.setitem(_tuned._numbers, "batches_per_execution", 4)
    assert _marks(device) == 3  # before the first and the fifth batch, and one at the end
    assert usual >= 9  # one of the loop for each batch, and one at the end
    assert _tuned._passes == 0
    assert not _tuned.loader_marks()
    iterator = iter(xla.MpDeviceLoader(_loader(), device))
    next(iterator)
    assert _tuned.loader_marks()
    del iterator  # as `break` does
    assert not _tuned.loader_marks()


def test_prefetch_sizes_and_threads(device: torch.device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(_tuned._numbers, "host_to_device_transfer_threads", 3)
    monkeypatch.setitem(_tuned._numbers, "device_prefetch_size", 2)
    tuning = xla.MpDeviceLoader(_loader(), device, host_to_device_transfer_threads=2)._tuning
    assert tuning.host_to_device_transfer_threads == 3
    assert tuning.device_prefetch_size == 2
    assert tuning.loader_prefetch_size is None


@pytest.mark.parametrize(("wanted", "given"), [(2, {}), (0, {"num_workers": 1})])
def test_workers(
    device: torch.device, monkeypatch: pytest.MonkeyPatch, wanted: int, given: dict[str, Any]
) -> None:
    monkeypatch.setattr(_tuned, "_workers", wanted)
    loader = xla.MpDeviceLoader(_loader(**given), device)
    assert loader.num_workers == wanted
    assert [x.item() for (x,) in loader] == list(range(8))


@pytest.mark.parametrize(
    ("precision", "enabled", "dtype"),
    [
        ("bfloat16", False, torch.bfloat16),
        ("float32", True, torch.float32),
        ("", True, torch.bfloat16),
    ],
)
def test_precision(
    device: torch.device,
    monkeypatch: pytest.MonkeyPatch,
    precision: str,
    enabled: bool,
    dtype: torch.dtype,
) -> None:
    monkeypatch.setattr(_tuned, "_PRECISION", precision)
    x = torch.ones(2, 2, device=device)
    with xla.autocast("cuda", dtype=torch.bfloat16, enabled=enabled):
        assert (x @ x).dtype == dtype


def test_torch_compile(device: torch.device, monkeypatch: pytest.MonkeyPatch) -> None:
    model = torch.nn.Linear(2, 2)
    assert xla.compile(model) is model
    monkeypatch.setattr(_tuned, "_TORCH_COMPILE", "1")
    assert type(xla.compile(model)).__name__ == "OptimizedModule"


@pytest.mark.parametrize("setting", ["XLA_MIGRATE_WORKERS=many", "XLA_MIGRATE_PRECISION=half"])
def test_wrong_values_are_refused(setting: str) -> None:
    name, _, value = setting.partition("=")
    done = subprocess.run(
        [warm.python(*warm.TORCH), "-c", "import xla_migrate.runtime"],
        env={**os.environ, name: value},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert f"ValueError: {setting}" in done.stderr
