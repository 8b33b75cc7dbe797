"""A run recorded without torch_xla and libcst is checked in another folder; each fault is blamed on its own check."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from xla_migrate.verify.recordings.recording import load

from .. import warm

pytestmark = pytest.mark.e2e
pytest.importorskip("torch_xla")

SCRIPT = """\
import sys
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(int(sys.argv[1]))
data = TensorDataset(torch.randn(96, 8), torch.randint(0, 3, (96,)))
loader = DataLoader(data, batch_size=8, shuffle=True)
model = nn.Sequential(nn.Linear(8, 16), nn.LayerNorm(16), nn.GELU(), nn.Linear(16, 3)).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, weight_decay=0.1)
scaler = torch.amp.GradScaler("cuda")
for step, (x, y) in enumerate(loader):
    with torch.autocast("cuda"):
        loss = nn.functional.cross_entropy(model(x.cuda()), y.cuda())
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    if step % 4 == 0:
        print(f"step {step} loss {loss.item():.3f}")
"""
TWO = """\
import os
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("nccl")
rank, size = dist.get_rank(), dist.get_world_size()
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
torch.manual_seed(1)
model = DistributedDataParallel(nn.Linear(8, 2).cuda(), device_ids=[rank])
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
data = torch.randn(6 * size, 16, 8)
for x in data[rank::size]:
    loss = model(x.cuda()).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
dist.destroy_process_group()
"""


def verify(folder: Path, *words: str, without: Path | None = None) -> tuple[int, str]:
    env = {**os.environ, "PJRT_DEVICE": "CPU", "OMP_NUM_THREADS": "1"}
    if without is not None:
        env["PYTHONPATH"] = os.pathsep.join([str(without), *sys.path])
    done = subprocess.run(
        [warm.choosing(), "-m", "xla_migrate", "verify", *words],
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        timeout=400,
    )
    return done.returncode, done.stdout + done.stderr


@pytest.fixture(scope="module")
def without(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that hides torch_xla and libcst."""
    folder = tmp_path_factory.mktemp("without")
    for name in ("torch_xla", "libcst"):
        (folder / f"{name}.py").write_text(f"raise ImportError('there is no {name} here')\n")
    return folder


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory, without: Path) -> Path:
    gpu = tmp_path_factory.mktemp("gpu")
    (gpu / "train.py").write_text(SCRIPT)
    words = ("--record", "r.rec", "train.py", "--steps", "8", "--", "1")
    code, output = verify(gpu, *words, without=without)
    assert code == 0, output
    assert "8 steps, float32, as written, bfloat16 (CPU stand-in" in output
    return gpu / "r.rec"


def checked(folder: Path, recording: Path, script: str, *words: str) -> dict[str, Any]:
    (folder / "train.py").write_text(script)
    options = ("--reference", str(recording), "--no-report", "--output-format", "json")
    code, output = verify(folder, "train.py", *options, *words)
    assert "{" in output, output
    report: dict[str, Any] = json.loads(output[output.index("{") : output.rindex("}") + 1])
    assert report["exit_code"] == code
    return report


def failed(report: dict[str, Any]) -> list[str]:
    return [v["name"] for v in report["verdicts"] if v["status"] == "failed"]


def test_the_same_training_is_proven_with_the_recorded_arguments(
    tmp_path: Path, recording: Path
) -> None:
    report = checked(tmp_path, recording, SCRIPT)
    assert report["proven"], report["message"]
    assert report["args"] == ["1"]
    assert any("CPU stand-in" in note for note in report["notes"])


@pytest.mark.parametrize(
    ("old", "new", "blamed", "evidence"),
    [
        ("shuffle=True", "shuffle=False", ["same data"], "batch 1: `0` differs"),
        (
            "scaler =",
            "model[0].weight.data.mul_(1.1)\nscaler =",
            ["same initial weights"],
            "0.weight",
        ),
        (
            "lr=0.01",
            "lr=0.02",
            ["numbers", "optimizer step"],
            "step 1: the optimizer's lr is 0.01 in the original, 0.02 here",
        ),
        (
            "nn.GELU()",
            "nn.GELU('tanh')",
            ["numbers", "modules"],
            "step 1: `2` (GELU, train.py:9): inputs agree to 1e-07, output differs by"
            " ...; first in `gelu` (train.py:",
        ),
        (
            "data =",
            "hook = lambda module, given, output: output.register_hook(lambda g: g * 2) and None\n"
            "nn.modules.module.register_module_forward_hook(hook)\ndata =",
            ["numbers", "modules"],
            "no function of torch takes it, so look at autograd functions and hooks",
        ),
    ],
)
def test_a_fault_is_blamed_on_the_first_check_that_sees_it(
    tmp_path: Path, recording: Path, old: str, new: str, blamed: list[str], evidence: str
) -> None:
    script = SCRIPT.replace(old, new)
    report = checked(tmp_path, recording, script)
    assert failed(report) == blamed
    assert "the original was changed after the recording: train.py" in report["notes"]
    detail = next(v["detail"] for v in report["verdicts"] if v["name"] == blamed[-1])
    assert all(part in detail for part in evidence.split(" ...")), detail


def test_other_arguments_are_reported(tmp_path: Path, recording: Path) -> None:
    report = checked(tmp_path, recording, SCRIPT, "--", "2")
    assert failed(report) == ["same data"]
    assert "other arguments: recorded ['1'], here ['2']" in report["notes"]


def test_float16_is_recorded_with_its_scale_and_compared_in_bfloat16(
    tmp_path: Path, recording: Path
) -> None:
    exact, written, lower = (run.traces[0].steps for run in load(recording).runs.values())
    assert {step.scale for step in written} == {65536.0}
    for one, other in zip(exact, written, strict=True):
        assert other.gradient_norm == pytest.approx(one.gradient_norm, rel=0.02)  # not scaled
    assert [step.loss for step in lower] != [step.loss for step in written]
    report = checked(tmp_path, recording, SCRIPT, "--precision", "bfloat16")
    assert report["proven"], report["message"]
    note = "as written, the original's loss scale was 65536, and its scaler skipped no step"
    assert note in report["notes"]


def test_replayed_weights_and_batches_hide_no_fault_and_cause_none(
    tmp_path: Path, recording: Path
) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    words = ("train.py", "--record", "r.rec", "--with-weights", "--steps", "8", "--", "1")
    code, output = verify(tmp_path, *words)
    assert code == 0, output
    assert "with the initial weights of 1 model and the batches of 8 steps" in output
    stored = tmp_path / "r.rec"
    report = checked(tmp_path, stored, SCRIPT, "--replay", "--", "2")
    assert report["proven"], report["message"]
    assert any(note.startswith("replayed: ") for note in report["notes"])
    spoiled = checked(tmp_path, stored, SCRIPT.replace("lr=0.01", "lr=0.02"), "--replay", "--", "2")
    assert failed(spoiled) == ["numbers", "optimizer step"]
    code, output = verify(tmp_path, "train.py", "--reference", str(recording), "--replay")
    assert code == 2
    assert "the recording holds no weights and no batches: record with --with-weights" in output


def test_two_processes_write_one_file(tmp_path: Path, without: Path) -> None:
    (tmp_path / "train.py").write_text(TWO)
    words = ("train.py", "--record", "r.rec", "--nproc", "2", "--steps", "5")
    code, output = verify(tmp_path, *words, without=without)
    assert code == 0, output
    other = tmp_path / "other"
    other.mkdir()
    report = checked(other, tmp_path / "r.rec", TWO)
    assert report["proven"], report["message"]
    spoiled = checked(other, tmp_path / "r.rec", TWO.replace("data[rank::size]", "data[:6]"))
    assert failed(spoiled) == ["same data"]
    (other / "train.py").write_text(TWO)
    code, output = verify(other, "train.py", "--reference", str(tmp_path / "r.rec"), "--nproc", "3")
    assert code == 2
    assert "2 processes were recorded and 3 train here" in output
