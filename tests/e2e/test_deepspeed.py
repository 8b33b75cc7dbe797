"""A script for DeepSpeed, migrated: two processes, and one that shards over two devices, beside a loop written out."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from xla_codemods.engine import Options, migrate

from .. import warm
from ..runtime.rehearsal import SOURCE

pytestmark = pytest.mark.e2e
pytest.importorskip("torch_xla")

ORIGINAL = (Path(__file__).parent / "scripts" / "deepspeed_engine.py").read_bytes()
Weights = dict[str, torch.Tensor]


def trained(folder: Path, port: int, *options: str, parallel: str = "") -> Weights:
    done = migrate(ORIGINAL, Options(parallel=parallel))
    assert not [f for f in done.left if f.severity == "error"]
    script, out = folder / "train.py", folder / "weights.pt"
    script.write_bytes(done.data)
    env = {**os.environ, "PYTHONPATH": str(SOURCE), "PJRT_DEVICE": "CPU", "OMP_NUM_THREADS": "1"}
    command = [warm.choosing()]
    if parallel:
        env["CPU_NUM_DEVICES"] = "2"
    else:
        command += ["-m", "torch.distributed.run", "--nproc_per_node=2", f"--master-port={port}"]
    command += [str(script), f"--out={out}", *options]
    ended = subprocess.run(command, env=env, capture_output=True, text=True, timeout=500)
    assert ended.returncode == 0, ended.stderr[-4000:]
    assert ended.stdout.split()[-2:] == ["steps", "8"]
    return torch.load(out)  # type: ignore[no-any-return]


def by_hand() -> Weights:
    """Both replicas' batches as one, with DeepSpeed's rates: the first update is at 0, the second at 0 (log 1)."""
    torch.manual_seed(0)
    x, y = torch.randn(64, 8), torch.randint(0, 4, (64,))
    model = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 4))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, weight_decay=0.1)
    rates = iter([0.0, 0.0, *[0.01] * 6])
    for _ in range(2):
        for k in range(0, 64, 16):
            optimizer.param_groups[0]["lr"] = next(rates)
            F.cross_entropy(model(x[k : k + 16]), y[k : k + 16]).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            optimizer.step()
            optimizer.zero_grad()
    return model.state_dict()


def agree(one: Weights, other: Weights, tolerance: float) -> None:
    for name, weights in other.items():
        torch.testing.assert_close(one[name].float(), weights, atol=tolerance, rtol=0)


def test_two_processes(tmp_path: Path) -> None:
    agree(trained(tmp_path, 29741, "--stage=1"), by_hand(), 2e-6)


def test_one_process_shards_over_two_devices(tmp_path: Path) -> None:
    agree(trained(tmp_path, 0, "--stage=3", parallel="spmd"), by_hand(), 2e-6)


def test_sharded_weights_behind_bfloat16(tmp_path: Path) -> None:
    agree(trained(tmp_path, 0, "--stage=3", "--half", parallel="spmd"), by_hand(), 1e-2)
