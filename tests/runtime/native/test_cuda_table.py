"""docs/bench/cuda.py: what it makes of runs."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from types import ModuleType

import pytest

from ...e2e.fixtures import ALL, ROOT
from .training import Training, difference, longer_arguments

SCRIPT = ROOT / "docs" / "bench" / "cuda.py"


@pytest.fixture(scope="module")
def cuda() -> ModuleType:
    spec = importlib.util.spec_from_file_location("bench_cuda", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["bench_cuda"] = module
    spec.loader.exec_module(module)
    return module


def told(*losses: float, device: str = "cuda", failure: str = "") -> Training:
    return Training((losses,), frozenset({device}), failure)


def test_equal_is_bit_for_bit(cuda: ModuleType) -> None:
    run = told(1.0, 0.5)
    assert cuda.same_losses(run, run, run, "cuda") == cuda.Verdict("equal, 2 losses", True)
    off = cuda.same_losses(run, run, told(1.0, 0.5000001), "cuda")
    assert off == cuda.Verdict("NOT equal: from loss 1 on, by 1.0e-07", False)


@pytest.mark.parametrize(
    ("again", "migrated", "text"),
    [
        (
            told(1.0, 0.25),
            told(1.0, 0.0),
            "not decided: the original differs from itself by 2.5e-01, the migrated from it by 5.0e-01",
        ),
        (told(1.0, 0.5), told(1.0), "NOT equal: another number of losses"),
        (told(1.0, 0.5), told(1.0, 0.5, device="cpu"), "migrated computed on cpu"),
        (told(1.0, 0.5), told(failure="OOM"), "migrated fails: OOM"),
        (Training((), frozenset(), ""), told(1.0, 0.5), "the original computed on nothing"),
    ],
)
def test_what_is_not_equal(
    cuda: ModuleType, again: Training, migrated: Training, text: str
) -> None:
    assert cuda.same_losses(told(1.0, 0.5), again, migrated, "cuda") == cuda.Verdict(text, False)


def test_speed_is_the_median_of_the_rounds_ratios(cuda: ModuleType) -> None:
    good = cuda.speed([(1.0, 1.0), (2.0, 1.0), (0.99, 1.0)])
    assert good == cuda.Verdict("1000.00 ms | 1000.00 ms | 1.000", True)
    assert cuda.speed([(0.97, 1.0)]).text.endswith("| 0.970 TOO SLOW")


def test_what_cannot_run_is_named(cuda: ModuleType) -> None:
    fixtures = {fixture.name: fixture for fixture in ALL}
    assert cuda.missing(fixtures["ddp_accum"], 1) == "not run: needs 2 GPUs"
    assert cuda.missing(fixtures["gpt"], 1) == ""
    assert cuda.missing(fixtures["lbfgs"], 1, "bf16") == "has no mode bf16"
    if importlib.util.find_spec("apex") is None:
        assert cuda.missing(fixtures["cnn_apex"], 1) == "not run: needs apex"


def test_a_longer_run_has_more_units() -> None:
    gpt = next(fixture for fixture in ALL if fixture.name == "gpt")
    assert "--max_iters=120" in longer_arguments(gpt, 10, ROOT)


def test_differences_are_relative_above_1() -> None:
    assert difference(told(100.0, 0.5), told(101.0, 0.5)) == pytest.approx(1 / 101)
    assert difference(told(1.0), told(1.0, 0.5)) is None
    assert difference(Training((), frozenset(), ""), Training((), frozenset(), "")) is None


@pytest.mark.e2e
def test_without_cuda_it_says_so_in_one_line() -> None:
    env = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    env["PYTHONPATH"] = os.pathsep.join([str(ROOT / "src"), str(ROOT / "codemods")])
    done = subprocess.run([sys.executable, str(SCRIPT)], env=env, capture_output=True, text=True)
    assert done.returncode == 2
    assert (done.stdout, done.stderr) == ("", "no CUDA device here: nothing was compared\n")
