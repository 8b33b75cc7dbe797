"""Completion scripts: what a shell makes of them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from xla_migrate.cli.commands import COMMANDS

from .conftest import Runner


def completed(script: Path, *words: str) -> list[str]:
    given = " ".join(f"'{word}'" for word in words)
    program = (
        f"source {script}; COMP_WORDS=({given}); COMP_CWORD={len(words) - 1}; _xla_migrate;"
        ' echo "${COMPREPLY[*]}"'
    )
    answer = subprocess.run(["bash", "-c", program], capture_output=True, text=True, check=True)
    return answer.stdout.split()


def test_bash(run: Runner, here: Path) -> None:
    script = here / "completion.sh"
    script.write_text(run("completion", "bash").out)
    assert completed(script, "xla-migrate", "che") == ["check"]
    assert completed(script, "xla-migrate", "a.py", "--dif") == ["--diff"]
    assert "--fix" in completed(script, "xla-migrate", "check", "--f")
    assert "--fix" not in completed(script, "xla-migrate", "--f")
    assert completed(script, "xla-migrate", "verify", "--ste") == ["--steps"]
    assert "device-string" in completed(script, "xla-migrate", "explain", "device")
    assert "XLA101" in completed(script, "xla-migrate", "explain", "XLA1")
    assert completed(script, "xla-migrate", "completion", "z") == ["zsh"]
    assert completed(script, "xla-migrate", "help", "doc") == ["doctor"]


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_the_other_shells_parse_theirs(run: Runner, here: Path, shell: str) -> None:
    text = run("completion", shell).out
    assert all(name in text for name in COMMANDS)
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell} here")
    script = here / "script"
    script.write_text(text)
    subprocess.run([shell, "-n", script], check=True)


def test_no_such_shell(run: Runner) -> None:
    assert run("completion", "tcsh").err == (
        "xla-migrate: unknown shell tcsh; known shells: bash, zsh, fish\n"
    )
    assert run("completion").code == 2
    assert "xla-migrate completion bash" in run("completion", "--help").out


def test_help_of_each_command(run: Runner) -> None:
    for name in COMMANDS:
        result = run("help", name)
        assert (result.code, result.err) == (0, "")
        assert result.out.startswith("usage: xla-migrate")
        assert run(name, "--help").out == result.out
    assert run("help").out == run("--help").out
