"""`xla-migrate explain-target`."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from xla_migrate.cli import main
from xla_migrate.cli.target.explain_target import main as explain_target
from xla_migrate.compiler.machines import machine_of

PYPROJECT = """
[tool.xla-migrate]
unsafe = true
[tool.xla-migrate.target]
for = "trn1"
optimization = 1
stochastic-rounding = true
[tool.xla-migrate.target.v5e]
optimization = 3
"""


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "pyproject.toml").write_text(PYPROJECT)
    monkeypatch.chdir(tmp_path)
    for name in ("PJRT_DEVICE", "XLA_FLAGS", "NEURON_CC_FLAGS"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def test_the_settings_name_machine_and_options(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain-target"]) == 0
    out = capsys.readouterr().out
    assert "NEURON_CC_FLAGS='--target=trn1 --optlevel=1'" in out
    assert "optimization = 1 (tool.xla-migrate.target)" in out
    assert "NEURON_RT_STOCHASTIC_ROUNDING_EN=1" in out


def test_the_command_line_wins_and_a_machine_has_its_own(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert explain_target(["--for", "v5e", "--output-format", "json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["environment"]["LIBTPU_INIT_ARGS"] == "--xla_optimization_level=EFFORT_O3"
    assert "stochastic-rounding = true is not used" in told["notes"][0]
    assert explain_target(["--for", "v5e", "--optimization", "0", "--output-format=json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["environment"]["LIBTPU_INIT_ARGS"] == "--xla_optimization_level=EFFORT_O0"
    assert told["parts"][1]["why"].startswith("optimization = 0 (command line)")


def test_a_shell_takes_what_it_is_given(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--cache", "/a b/it's", "--output-format", "shell"]
    assert explain_target(words) == 0
    script = capsys.readouterr().out + 'printf "%s|" "$NEURON_COMPILE_CACHE_URL" "$NEURON_CC_FLAGS"'
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "/a b/it's|--target=trn1 --optlevel=1|"


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--for", "trn9"], "--for: unknown machine trn9"),
        (["--optimisation", "1"], "no option --optimisation; did you mean"),
        (["--optimization", "0"], "optimization: 0 is not a value for trn1; valid values: 1, 2, 3"),
        (["--memory-fitting", "1"], "memory-fitting: not for trn1: Neuron's compiler has no such"),
    ],
)
def test_errors_are_one_line_and_2(
    words: list[str], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain-target", *words]) == 2
    told = capsys.readouterr().err
    assert line in told
    assert told.count("\n") == 1


def test_the_environment_is_asked_unless_told_otherwise(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NEURON_CC_FLAGS", "-O2")
    assert main(["explain-target"]) == 2
    assert "NEURON_CC_FLAGS has --optlevel=2 already" in capsys.readouterr().err
    assert main(["explain-target", "--without-environment"]) == 0


def test_wrong_settings_name_the_file_and_key(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "pyproject.toml").write_text('[tool.xla-migrate.target]\nauto-cast = "most"\n')
    assert main(["explain-target", "--for", "trn1"]) == 2
    assert "pyproject.toml: tool.xla-migrate.target.auto-cast: 'most' is not a valid value" in (
        capsys.readouterr().err
    )


@pytest.mark.parametrize(
    ("given", "machine"),
    [
        ("trn1.32xlarge", "trn1"),
        ("trn1n.32xlarge", "trn1n"),
        ("ml.trn1.2xlarge", "trn1"),
        ("trn2u.48xlarge", "trn2"),
        ("inf2.xlarge", "inf2"),
        ("v5litepod-8", "v5e"),
        ("v4-32", "v4"),
        ("ct5p-hightpu-4t", "v5p"),
        ("ct6e-standard-1t", "v6e"),
        ("TRN1", "trn1"),
        ("p4d.24xlarge", "p4d.24xlarge"),
    ],
)
def test_instance_types_say_their_machine(given: str, machine: str) -> None:
    assert machine_of(given) == machine
