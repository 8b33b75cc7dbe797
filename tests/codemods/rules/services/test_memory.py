"""Memory figures, the cache, errors of memory."""

from __future__ import annotations

import pytest

from xla_codemods.engine import check

from ...helpers import migrated
from ..lines import codes, line


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("m = torch.cuda.memory_allocated()", 'm = xla.memory_info()["bytes_used"]'),
        ("m = torch.cuda.max_memory_allocated(device)", 'm = xla.memory_info(device)["peak_bytes_used"]'),
        ("m = torch.cuda.memory_reserved(0)", 'm = xla.memory_info()["bytes_reserved"]'),
        ("m = torch.cuda.memory_cached()", 'm = xla.memory_info()["bytes_reserved"]'),
        ("m = torch.cuda.max_memory_cached()", 'm = xla.memory_info()["peak_bytes_reserved"]'),
        ("m = torch.cuda.memory.memory_allocated()", 'm = xla.memory_info()["bytes_used"]'),
        ("m = torch.accelerator.max_memory_allocated()", 'm = xla.memory_info()["peak_bytes_used"]'),
        ('m = f"{torch.cuda.memory_allocated() / 1e9:.1f}"', "m = f\"{xla.memory_info()['bytes_used'] / 1e9:.1f}\""),
        ("m = f'{torch.cuda.memory_allocated()}'", "m = f'{xla.memory_info()[\"bytes_used\"]}'"),
        ('m = torch.cuda.memory_stats()["allocated_bytes.all.peak"]', 'm = xla.memory_info()["peak_bytes_used"]'),
        ('s = torch.cuda.memory_stats(0)\nprint(s["allocated_bytes.all.peak"], s.get("reserved_bytes.all.current", 0))',
         's = xla.memory_info()\nprint(s["peak_bytes_used"], s.get("bytes_reserved", 0))'),
        ("free, total = torch.cuda.mem_get_info()", "free, total = xla.mem_get_info()"),
        ('free = torch.cuda.mem_get_info("cuda:1")[0]', "free = xla.mem_get_info(1)[0]"),
        ("print(torch.cuda.memory_summary())", "print(str(xla.memory_info()))"),
        ("torch.cuda.reset_peak_memory_stats()", "xla.reset_peak_memory_stats()"),
        ("torch.cuda.reset_max_memory_allocated(device)", "xla.reset_peak_memory_stats(device)"),
        ("torch.accelerator.reset_peak_memory_stats()", "xla.reset_peak_memory_stats()"),
    ],
)  # fmt: skip
def test_figures(before: str, after: str) -> None:
    assert line(before) == after


@pytest.mark.parametrize(
    "source",
    [
        "s = torch.cuda.memory_stats()",
        's = torch.cuda.memory_stats()\nprint(s["num_ooms"], s["allocated_bytes.all.peak"])',
        "s = torch.cuda.memory_stats()\nprint(s)",
        's = torch.cuda.memory_stats()["num_alloc_retries"]',
        "f = torch.cuda.memory_allocated",
        "torch.cuda.memory._record_memory_history()",
        's = torch.cuda.memory._dump_snapshot("a")',
        "s = torch.cuda.memory_snapshot()",
    ],
)
def test_figures_that_only_cuda_has(source: str) -> None:
    assert line(source) == source
    assert codes(source) == ["XLA125"]


@pytest.mark.parametrize(
    ("test", "severity"),
    [
        ("step == 3 and model.device.type == 'cuda'", "info"),
        ("torch.cuda.is_available()", "info"),
        ("step == 3", "warning"),
    ],
)
def test_a_record_that_cuda_alone_takes(test: str, severity: str) -> None:
    source = f"import torch\nif {test}:\n    torch.cuda.memory._record_memory_history()\n"
    assert [f.severity for f in check(source.encode()) if f.code == "XLA125"] == [severity]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("gc.collect()\ntorch.cuda.empty_cache()", "gc.collect()"),
        ("torch.cuda.empty_cache(); f()", "f()"),
        ("with torch.cuda.device(0):\n    torch.cuda.empty_cache()\nf()", "f()"),
        ("if torch.cuda.is_available():\n    torch.cuda.empty_cache()\nf()", "f()"),
        ("if big:\n    torch.cuda.empty_cache()\nelse:\n    f()", "if not big:\n    f()"),
        ("def free():\n    torch.cuda.empty_cache()", "def free():\n    pass"),
        ("try:\n    torch.cuda.empty_cache()\nexcept RuntimeError:\n    pass\nf()", "f()"),
        ("free = lambda: torch.cuda.empty_cache()", "free = lambda: None"),
        ("torch.cuda.ipc_collect()\nf()", "f()"),
        ("torch._C._cuda_clearCublasWorkspaces()\nf()", "f()"),
        ("torch.accelerator.empty_cache()\nf()", "f()"),
        ("torch.backends.cuda.cufft_plan_cache.clear()\nf()", "f()"),
        ("torch.backends.cuda.cufft_plan_cache.max_size = 3\nf()", "f()"),
        ("from torch.cuda import empty_cache\nempty_cache()\nf()", "f()"),
    ],
)  # fmt: skip
def test_the_cache(before: str, after: str) -> None:
    assert line(before) == after


@pytest.mark.parametrize(
    "source", ["store.empty_cache()", "atexit.register(torch.cuda.empty_cache)"]
)
def test_other_caches_stay(source: str) -> None:
    assert line(source) == source
    assert "XLA126" not in codes(source)


@pytest.mark.parametrize(
    "source",
    [
        "try:\n    f()\nexcept torch.cuda.OutOfMemoryError:\n    pass",
        "try:\n    f()\nexcept (torch.OutOfMemoryError, ValueError):\n    pass",
        'try:\n    f()\nexcept RuntimeError as e:\n    if "CUDA out of memory" in str(e):\n        pass',
    ],
)
def test_errors_of_memory(source: str) -> None:
    assert line(source) == source
    assert codes(source) == ["XLA131"]


def test_a_message_that_xla_has_too_is_no_finding() -> None:
    """TPU: "Ran out of memory in memory space hbm"."""
    source = (
        'try:\n    f()\nexcept RuntimeError as e:\n    if "out of memory" in str(e):\n        pass'
    )
    assert codes(source) == []


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("torch.cuda.empty_cache() if torch.cuda.is_available() else None", ""),
        ("None if not cuda else torch.cuda.ipc_collect()", ""),
        ("torch.cuda.is_available() and torch.cuda.empty_cache()", ""),
        ("cuda and step % 10 == 0 and torch.cuda.empty_cache()", ""),
        ("torch.cuda.empty_cache() if ready() else None", "None if ready() else None"),
        ("torch.cuda.empty_cache() if cuda else f()", "None if cuda else f()"),
    ],
)
def test_a_statement_that_only_empties_the_cache_goes(before: str, after: str) -> None:
    assert line(f"{before}\nx = 1") == (f"{after}\nx = 1" if after else "x = 1")


def test_several_resets_become_one() -> None:
    source = """\
import torch
torch.cuda.reset_max_memory_allocated()
torch.cuda.reset_max_memory_cached()
torch.cuda.reset_peak_memory_stats(1)
"""
    after = migrated(source)
    assert after.count("xla.reset_peak_memory_stats()") == 1
    assert after.count("xla.reset_peak_memory_stats(1)") == 1
