"""Filling the compile cache: with a stand-in for Neuron's tool, and with torch_xla's own counters."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from xla_migrate.cli import main
from xla_migrate.target.precompile import on_torch_xla

# Prints what the tool's manual shows, leaves what it leaves, and runs the command.
TOOL = """\
#!/bin/sh
mkdir -p "$NEURON_COMPILE_CACHE_URL/MODULE_1"
echo x > "$NEURON_COMPILE_CACHE_URL/MODULE_1/model.neff"
echo "INFO ||NCC_WRAPPER||: Using a cached neff at x. Exiting with a successfully compiled graph."
"$@"
code=$?
echo "INFO ||NEURON_PARALLEL_COMPILE||: Total graphs: 3"
echo "INFO ||NEURON_PARALLEL_COMPILE||: Total successful compilations: $((3 - ${FAILED:-0}))"
echo "INFO ||NEURON_PARALLEL_COMPILE||: Total failed compilations: ${FAILED:-0}"
exit $code
"""
TRAINING = """\
import torch
from xla_migrate import runtime as xla
device = xla.xla_device()
model = torch.nn.Linear(4, 2).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
data = torch.utils.data.TensorDataset(torch.randn(40, 4))
loader = xla.MpDeviceLoader(torch.utils.data.DataLoader(data, batch_size=2), device)
turns = 0
for (x,) in loader:
    optimizer.zero_grad()
    model(x).sum().backward()
    xla.optimizer_step(optimizer)
    turns += 1
print("turns", turns, "of", len(loader))
"""


@pytest.fixture
def tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "bin").mkdir()
    path = tmp_path / "bin" / "neuron_parallel_compile"
    path.write_text(TOOL)
    path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{path.parent}{os.pathsep}{os.environ['PATH']}")
    for name in ("PJRT_DEVICE", "NEURON_CC_FLAGS", "NEURON_COMPILE_CACHE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_on_neuron(tool: Path, capfd: pytest.CaptureFixture[str]) -> None:
    script = 'import os; print(os.environ["NEURON_CC_FLAGS"], os.environ["XLA_MIGRATE_BATCHES_PER_LOOP"])'
    (tool / "pyproject.toml").write_text("[tool.xla-migrate.target]\noptimization = 1\n")
    words = ["--for", "trn1", "--cache", str(tool / "cache"), "--", sys.executable, "-c", script]
    assert main(["precompile", *words]) == 0
    out = capfd.readouterr().out
    assert "--target=trn1 --optlevel=1 5\n" in out
    assert "graphs: 1 read from the cache, 3 compiled, 0 failed\n" in out
    assert f"cache: {tool}/cache: 1 files, 0.0 MiB (1 files more)" in out


def test_graphs_that_fail_and_commands_that_fail(
    tool: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    words = ["--for", "trn1", "--cache", str(tool / "cache"), "--", "sh", "-c"]
    monkeypatch.setenv("FAILED", "2")
    assert main(["precompile", *words, "true"]) == 1
    assert "1 compiled, 2 failed" in capfd.readouterr().out
    assert main(["precompile", *words, "exit 4"]) == 4
    assert "the command failed: exit code 4" in capfd.readouterr().out


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--for", "trn1", "--", "true"], "neuron_parallel_compile is not here"),
        (["--for", "v5e", "--", "true"], "no cache: give --cache FOLDER"),
        (["--for", "v5e", "--cache", "s3://b", "--", "true"], "torch_xla's cache is a folder"),
        (["--for", "v5e", "--cache", "c", "--", "/none"], "/none cannot be started"),
        (["--for", "trn9", "--", "true"], "--for: unknown machine trn9"),
        (["--for", "trn1"], "name the command behind --"),
        (["--batches", "0", "--", "true"], "--batches must be at least 1"),
    ],
)
def test_wrong_usage_is_one_line(
    words: list[str],
    line: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("PJRT_DEVICE", "XLA_PERSISTENT_CACHE_PATH"):
        monkeypatch.delenv(name, raising=False)
    assert main(["precompile", *words]) == 2
    told = capsys.readouterr().err
    assert line in told
    assert told.count("\n") == 1


def test_on_the_cpu_nothing_is_pretended(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PJRT_DEVICE", "CPU")
    assert main(["precompile", "--", "false"]) == 1
    assert "cannot read it back (measured)" in capsys.readouterr().out


@pytest.mark.e2e
def test_torch_xla_tells_what_its_cache_knew(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """On XLA:CPU, where the second start finds the entries but cannot read them."""
    (tmp_path / "train.py").write_text(TRAINING)
    env = {
        **os.environ,
        "PJRT_DEVICE": "CPU",
        "XLA_PERSISTENT_CACHE_PATH": str(tmp_path / "cache"),
        "XLA_MIGRATE_BATCHES_PER_LOOP": "3",
    }
    command = [sys.executable, str(tmp_path / "train.py")]
    first, second = on_torch_xla(command, env), on_torch_xla(command, env)
    assert capfd.readouterr().out.count("turns 3 of 20") == 2
    assert (first.code, second.code) == (0, 0)
    assert first.misses
    assert first.hits == first.unreadable == 0
    assert second.unreadable
    assert on_torch_xla(["true"], env).misses is None
