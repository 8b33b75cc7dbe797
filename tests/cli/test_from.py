"""`--from torch_xla`, and `from` in the settings."""

from __future__ import annotations

from pathlib import Path

import pytest

from xla_migrate.cli import main

SOURCE = "import torch_xla\n\nloss.backward()\ntorch_xla.sync()\n"
REWRITTEN = "from xla_migrate import runtime as xla\n\nloss.backward()\nxla.mark_step()\n"


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "train.py"
    path.write_text(SOURCE)
    return path


def test_it_is_left_unless_it_is_asked(script: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(script)]) == 0
    assert script.read_text() == SOURCE
    assert "XLA011" in capsys.readouterr().out


@pytest.mark.parametrize("asked", [True, False])
def test_the_option_takes_the_settings_place(script: Path, asked: bool) -> None:
    settings = script.parent / "pyproject.toml"
    settings.write_text(f'[tool.xla-migrate]\nfrom = "{"cuda" if asked else "torch_xla"}"\n')
    words = ["--from", "torch_xla" if asked else "cuda", str(script)]
    main(words)
    assert script.read_text() == (REWRITTEN if asked else SOURCE)


def test_the_settings_ask(script: Path) -> None:
    (script.parent / "pyproject.toml").write_text('[tool.xla-migrate]\nfrom = "torch_xla"\n')
    assert main([str(script)]) == 0
    assert script.read_text() == REWRITTEN


def test_what_the_cache_knows_is_of_the_same_option(script: Path) -> None:
    assert main(["check", str(script)]) == 0
    assert main(["check", "--from", "torch_xla", str(script)]) == 1


def test_an_unknown_one_is_refused(script: Path) -> None:
    assert main(["--from", "jax", str(script)]) == 2
    assert script.read_text() == SOURCE
