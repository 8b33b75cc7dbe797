"""Compiler options that a script sets itself; in processes of their own, for they are heard once."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from .. import warm

BEGIN = (
    "import os, warnings\nwarnings.simplefilter('always')\nfrom xla_migrate import runtime as xla\n"
)


def run(code: str, side: str = "target", **env: str) -> subprocess.CompletedProcess[str]:
    inherited = {k: v for k, v in os.environ.items() if k not in ("XLA_FLAGS", "PJRT_DEVICE")}
    return subprocess.run(
        [warm.for_side(side), "-c", BEGIN + code],
        env={**inherited, **env},
        capture_output=True,
        text=True,
    )


@pytest.mark.e2e
def test_the_compiler_hears_them(tmp_path: Path) -> None:
    """XLA writes the options that it compiled with beside its dump."""
    code = f"""
os.environ["XLA_FLAGS"] = "--xla_dump_to={tmp_path} --xla_dump_hlo_as_text"
print(xla.compiler_options(optimization=1))
import torch
x = torch.ones(3, device=xla.xla_device()) * 2
xla.mark_step()
"""
    done = run(code, "reference", PJRT_DEVICE="CPU")  # torch_xla is imported later
    assert done.returncode == 0, done.stderr
    assert "xla_backend_optimization_level=1" in done.stdout
    dumped = [path.read_text() for path in tmp_path.glob("*debug_options")]
    assert dumped
    assert all("xla_backend_optimization_level: 1" in text for text in dumped)


def test_too_late_is_an_error() -> None:
    done = run("xla.xla_device(); xla.compiler_options(optimization=0)", PJRT_DEVICE="CPU")
    assert "torch_xla has already opened its device" in done.stderr


def test_what_means_nothing_here_is_a_warning_and_nonsense_an_error() -> None:
    done = run("print(xla.compiler_options(auto_cast='all'))", PJRT_DEVICE="CPU")
    assert done.stdout == "{'PJRT_DEVICE': 'CPU'}\n"
    assert "auto-cast = all is not used: XLA has no such option" in done.stderr
    done = run("xla.compiler_options(autocast='all')", PJRT_DEVICE="CPU")
    assert "autocast: no such option; did you mean auto-cast?" in done.stderr


@pytest.mark.parametrize("backend", ["eager"])
def test_nothing_is_set_without_torch_xla(backend: str) -> None:
    code = "print(xla.compiler_options(optimization=1), 'XLA_FLAGS' in os.environ)"
    assert run(code, XLA_MIGRATE_BACKEND=backend).stdout == "{} False\n"
