"""`xla-migrate doctor --cache -- COMMAND`: two starts, and what the second one read from the compile cache."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests import warm
from xla_migrate.cli import main
from xla_migrate.cli.doctor_cache import judged
from xla_migrate.target.cache_check import CacheStart

TRAINING = """\
import torch
from xla_migrate import runtime as xla
device = xla.xla_device()
model = torch.nn.Linear(4, 2).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
data = torch.utils.data.TensorDataset(torch.randn(4, 4))
loader = xla.MpDeviceLoader(torch.utils.data.DataLoader(data, batch_size=2), device)
for (x,) in loader:
    optimizer.zero_grad()
    model(x).sum().backward()
    xla.optimizer_step(optimizer)
"""

COLD = CacheStart(0, 0, 3, 0, 20.0)


@pytest.mark.parametrize(
    ("second", "status", "words"),
    [
        (CacheStart(0, 3, 0, 0, 4.0), "ok", "3 graphs read from the cache, 0 not in it, first step after 4 s"),
        (CacheStart(0, 0, 0, 3, 20.0), "fault", "3 could not be read"),
        (CacheStart(0, 2, 1), "fault", "2 graphs read from the cache, 1 not in it"),
    ],
)  # fmt: skip
def test_the_second_start_is_judged(second: CacheStart, status: str, words: str) -> None:
    first, again = judged(COLD, second)
    assert (first.status.strip(), again.status.strip().lower()) == ("ok", status)
    assert words in again.detail


def test_commands_that_fail_or_count_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--cache", "--", sys.executable, "-c", "raise SystemExit(3)"]) == 1
    assert "the command failed with exit code 3" in capfd.readouterr().out
    assert main(["doctor", "--cache", "--", sys.executable, "-c", ""]) == 0
    assert "no process reported compilations" in capfd.readouterr().out


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--cache"], "put the command after --"),
        (["--cache", "--", "/none"], "/none cannot be started"),
        (["--", "true"], "takes a command only with --cache"),
    ],
)
def test_wrong_usage_is_one_line(
    words: list[str], line: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["doctor", *words]) == 2
    told = capfd.readouterr().err
    assert line in told
    assert told.count("\n") == 1


@pytest.mark.e2e
def test_xla_cpu_cannot_read_its_cache(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "train.py").write_text(TRAINING)
    monkeypatch.setenv("PJRT_DEVICE", "CPU")
    words = [
        "--output-format",
        "json",
        "--cache",
        "--",
        warm.choosing(),
        str(tmp_path / "train.py"),
    ]
    assert main(["doctor", *words]) == 1
    first, second = json.loads(capfd.readouterr().out)["checks"]
    assert "0 graphs read from the cache" in first["detail"]
    assert "first step after" in first["detail"]
    assert "could not be read" in second["detail"]
    assert "cannot read it" in second["advice"]


# Stands in for a training on Neuron: it compiles a graph unless the cache has it, and reports as the runtime does.
ON_NEURON = """\
import json, os, pathlib
graph = pathlib.Path(os.environ["NEURON_COMPILE_CACHE_URL"], "MODULE_1", "model.neff")
graph.parent.mkdir(exist_ok=True)
graph.touch()
graph.with_name("model.log").touch()
names = ("PersistentCacheHit", "PersistentCacheMiss", "PersistentCacheDeserializeFailure")
report = pathlib.Path(os.environ["XLA_MIGRATE_CACHE_REPORT"], "1.json")
report.write_text(json.dumps({**dict.fromkeys(names, 0), "first_step": None}))
"""


def test_graphs_of_neuron_are_counted_by_its_files(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PJRT_DEVICE", "NEURON")
    assert main(["doctor", "--cache", "--", sys.executable, "-c", ON_NEURON]) == 0
    out = capfd.readouterr().out
    assert "first start: 0 graphs read from the cache, 1 not in it\n" in out
    assert "second start: 1 graphs read from the cache, 0 not in it\n" in out
