"""Filling Neuron's compile cache, with a replacement of Neuron's tool."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from xla_migrate.cli import main

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
        (["--for", "trn1", "--", "true"], "neuron_parallel_compile is not installed"),
        (["--for", "trn9", "--", "true"], "--for: unknown machine trn9"),
        (["--for", "trn1"], "put the command after --"),
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


@pytest.mark.parametrize("machine", ["cpu", "v5e"])
def test_nothing_is_run_where_the_cache_cannot_be_read(
    machine: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["precompile", "--for", machine, "--", "false"]) == 1
    assert "cannot read it, so the next start compiles again" in capsys.readouterr().out
