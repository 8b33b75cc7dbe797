"""A script for DDP with four processes, and the same under SPMD: one process that drives four devices of the CPU."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import torch
from torch import nn

from xla_codemods.engine import Options, migrate
from xla_migrate.script_environment import free_port

from .. import warm
from .torchrun import Ended, environment

pytestmark = pytest.mark.e2e
pytest.importorskip("torch_xla")

SCRIPT = Path(__file__).parent / "scripts" / "scaled_by_processes.py"
DEVICES = 4
# As torchrun, but torch is imported once for all.
LAUNCHER = f"""
import os, runpy, sys, torch
script, sys.argv = sys.argv[1], sys.argv[1:]
children = []
for rank in range({DEVICES}):
    child = os.fork()
    if not child:
        os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE="{DEVICES}")
        try:
            runpy.run_path(script, run_name="__main__")
        except BaseException:
            import traceback
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    children.append(child)
sys.exit(any([os.waitpid(child, 0)[1] for child in children]))
"""


def run(folder: Path, text: bytes, *, spmd: bool) -> Ended:
    folder.mkdir()
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 3))
    torch.save(model.state_dict(), folder / "initial.pt")
    script = folder / "train.py"
    script.write_bytes(text)
    place = {"MASTER_ADDR": "localhost", "MASTER_PORT": str(free_port())}
    ended = subprocess.run(
        [
            warm.for_side("target" if spmd else "reference"),
            *([] if spmd else ["-c", LAUNCHER]),
            "train.py",
            "initial.pt",
            "last.pt",
        ],
        cwd=folder,
        env=environment(folder, target=spmd, processes=DEVICES) | place,
        capture_output=True,
        text=True,
        timeout=400,
    )
    return Ended(ended.returncode, ended.stdout + ended.stderr, folder)


def test_batches_rates_schedules_and_metrics_are_those_of_ddp(tmp_path: Path) -> None:
    original = SCRIPT.read_bytes()
    result = migrate(original, Options(parallel="spmd"))
    assert not [f for f in result.left if f.severity == "error" or f.code == "XLA613"]
    ddp = run(tmp_path / "ddp", original, spmd=False)
    spmd = run(tmp_path / "spmd", result.data, spmd=True)
    assert (ddp.code, spmd.code) == (0, 0), ddp.output[-3000:] + spmd.output[-3000:]
    expected, found = ddp.losses(), spmd.losses()
    assert len(expected) == 12, "2 epochs of 6 steps, the last of each is smaller"
    assert found.keys() == expected.keys(), "samples seen and rates"
    for line, losses in expected.items():
        assert found[line] == pytest.approx(losses, abs=1e-5), line
    saved, other = (
        torch.load(ended.folder / "last.pt", map_location="cpu") for ended in (ddp, spmd)
    )
    assert saved.keys() == other.keys()
    for name, tensor in saved.items():
        torch.testing.assert_close(other[name], tensor, atol=1e-5, rtol=1e-5)
