"""Scripts of fixtures/styles print, migrated and on XLA:CPU, the results that they print on the CPU."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from xla_codemods.engine import migrate

from .. import warm

pytestmark = pytest.mark.e2e
pytest.importorskip("torch_xla")

STYLES = Path(__file__).parents[2] / "fixtures" / "styles"
# Those that run where there is no CUDA and nothing but torch.
RUN = [
    "compiled_flags",
    "detection",
    "distillation",
    "dqn_replay",
    "ema_mixup",
    "lstm_tbptt",
    "no_cuda_flag",
    "noam_transformer",
    "trainer_class",
    "unet_metrics",
    "wgan_gp",
]
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


def results(data: bytes, side: str, name: str, folder: Path, *arguments: str) -> list[float]:
    """The numbers on the lines that say "result"."""
    folder.mkdir()
    (folder / name).write_bytes(data)
    env = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "PJRT_DEVICE": "CPU",
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    command = [warm.for_side(side), name, *arguments]
    run = subprocess.run(
        command, cwd=folder, env=env, capture_output=True, text=True, timeout=300, check=False
    )
    assert run.returncode == 0, run.stderr[-3000:]
    lines = [line for line in run.stdout.splitlines() if line.startswith("result")]
    return [float(number) for line in lines for number in _NUMBER.findall(line)]


@pytest.mark.parametrize("name", RUN)
def test_same_results(name: str, tmp_path: Path) -> None:
    source = (STYLES / f"{name}.py").read_bytes()
    before = results(source, "reference", f"{name}.py", tmp_path / "original")
    after = results(migrate(source).data, "target", f"{name}.py", tmp_path / "migrated")
    assert before
    assert after == pytest.approx(before, rel=2e-3, abs=2e-3)


def test_a_flag_still_keeps_a_script_on_the_cpu(tmp_path: Path) -> None:
    """`--no-cuda`: model and batches stay on the host."""
    source = (STYLES / "no_cuda_flag.py").read_bytes()
    before = results(source, "reference", "train.py", tmp_path / "original", "--no-cuda")
    after = results(migrate(source).data, "target", "train.py", tmp_path / "migrated", "--no-cuda")
    assert before
    assert after == pytest.approx(before, rel=1e-5)
