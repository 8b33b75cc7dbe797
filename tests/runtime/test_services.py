"""Timing, memory and counters."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest
import torch
import torch_xla.core.xla_model as xm

from xla_migrate import runtime as xla
from xla_migrate.runtime import _host, services
from xla_migrate.runtime.torch_xla import backend as torch_xla_backend


def test_fact_1_51_a_timed_event_waits_for_the_device(
    device: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[int] = []
    monkeypatch.setattr(services, "synchronize", lambda: waits.append(1))
    start, end = xla.Event(enable_timing=True), xla.Event(enable_timing=True)
    start.record()
    end.record()
    assert len(waits) == 2
    xla.Event().record()
    assert len(waits) == 2, "without timing there is nothing to wait for"


def test_elapsed_time_is_in_milliseconds(
    device: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = iter([10.0, 10.25])
    monkeypatch.setattr(services.time, "perf_counter", lambda: next(now))
    start, end = xla.Event(enable_timing=True, blocking=True), xla.Event(enable_timing=True)
    start.record()
    end.record()
    end.synchronize()
    assert start.elapsed_time(end) == 250.0
    assert end.query()


def test_elapsed_time_is_not_made_up(device: torch.device) -> None:
    start, end = xla.Event(enable_timing=True), xla.Event(enable_timing=True)
    start.record()
    with pytest.raises(ValueError, match="recorded"):
        start.elapsed_time(end)
    untimed = xla.Event()
    untimed.record()
    with pytest.raises(ValueError, match="enable_timing"):
        start.elapsed_time(untimed)


def test_events_on_the_eager_cpu(eager: None) -> None:
    start, end = xla.Event(enable_timing=True), xla.Event(enable_timing=True)
    start.record()
    end.record()
    assert start.elapsed_time(end) >= 0
    start.wait()


def test_fact_1_12_torch_xla_has_no_memory_figures_on_the_cpu(device: torch.device) -> None:
    with pytest.raises(RuntimeError):
        xm.get_memory_info(device)


@pytest.mark.parametrize("backend", ["device", "eager"])
def test_fact_1_12_memory_is_this_processs(backend: str, request: pytest.FixtureRequest) -> None:
    request.getfixturevalue(backend)
    before = xla.memory_info()
    held = torch.ones(50_000_000)  # 200 MB
    after = xla.memory_info("cuda:0")
    numbers = {name: (before[name] or 0, after[name] or 0) for name in before}
    used, peak, limit = (numbers[name] for name in ("bytes_used", "peak_bytes_used", "bytes_limit"))
    assert used[1] - used[0] > 150_000_000
    assert used[1] <= peak[1] <= limit[1]
    assert after["bytes_reserved"] == after["bytes_used"]
    free, total = xla.mem_get_info()
    assert 0 < free < total == limit[1]
    assert held.numel()


def test_the_peak_can_be_reset_where_linux_allows(device: torch.device) -> None:
    held = torch.ones(50_000_000)
    assert held.numel()
    del held
    high = xla.memory_info()["peak_bytes_used"] or 0
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        xla.reset_peak_memory_stats()
    low = xla.memory_info()["peak_bytes_used"] or 0
    assert caught or low < high - 100_000_000


def test_a_peak_that_cannot_be_reset_is_warned_of(
    device: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch_xla_backend.xr, "device_type", lambda: "TPU")
    with pytest.warns(UserWarning, match="cannot reset the peak"):
        xla.reset_peak_memory_stats()


def test_a_devices_figures_are_its_own(
    device: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch_xla_backend.xr, "device_type", lambda: "TPU")
    figures = {"bytes_used": 5, "bytes_limit": 9}
    monkeypatch.setattr(torch_xla_backend.xm, "get_memory_info", lambda device: figures)
    assert xla.memory_info() == {
        "bytes_used": 5,
        "peak_bytes_used": None,
        "bytes_reserved": 5,
        "peak_bytes_reserved": None,
        "bytes_limit": 9,
    }
    assert xla.mem_get_info() == (4, 9)


def test_no_proc_no_figures(monkeypatch: pytest.MonkeyPatch, eager: None) -> None:
    monkeypatch.setattr(_host, "_STATUS", Path("/nonexistent"))
    with pytest.raises(RuntimeError, match="Linux"):
        xla.memory_info()


def test_section_4_metrics_count_a_step(device: torch.device) -> None:
    x = torch.ones(7, 3).to(device)
    xla.synchronize()

    def difference(first: dict[str, int | None], last: dict[str, int | None]) -> dict[str, int]:
        return {name: (last[name] or 0) - (first[name] or 0) for name in first}

    steps = []
    for _ in range(2):
        before = xla.metrics()
        y = (x * 3).sum()
        xla.mark_step()
        y.item()
        steps.append(difference(before, xla.metrics()))
    quiet = {"uploads": 0, "fallbacks": 0, "host_reads": 1, "launches": 1, "step_marks": 1}
    assert {**steps[1], "uploads": 0} == {"compiles": 0, **quiet}
    assert steps[0]["compiles"] == 1
    before = xla.metrics()
    torch.ones(3).to(device)
    torch.median(x)
    after = difference(before, xla.metrics())
    assert after["uploads"] >= 1
    assert after["fallbacks"] >= 1


def test_eager_counts_nothing_and_says_so(eager: None) -> None:
    assert set(xla.metrics().values()) == {None}
    assert xla.metrics().keys() == set(torch_xla_backend.metrics())
