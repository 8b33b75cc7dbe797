"""The line length of a project, from the settings of its formatter, linter or editor."""

from __future__ import annotations

from pathlib import Path

import pytest

from xla_migrate.files.line_length import line_length


@pytest.mark.parametrize(
    ("name", "text", "length"),
    [
        ("pyproject.toml", "[tool.ruff]\nline-length = 120\n", 120),
        ("pyproject.toml", "[tool.black]\nline-length = 79\n", 79),
        ("pyproject.toml", "[tool.black]\nskip-string-normalization = true\n", 88),
        ("pyproject.toml", "[project]\nname = 'x'\n", 100),
        ("pyproject.toml", "[tool.ruff\n", 100),
        ("ruff.toml", "line-length = 110\n", 110),
        ("setup.cfg", "[flake8]\nmax-line-length = 119\n", 119),
        (".flake8", "[flake8]\nmax_line_length = 119  # as black\n", 119),
        (
            ".editorconfig",
            "root = true\n[*]\nmax_line_length = 90\n[*.md]\nmax_line_length = 70\n",
            90,
        ),
        (".editorconfig", "[*]\nmax_line_length = 90\n[*.{js,py}]\nmax_line_length = 80\n", 80),
        (".editorconfig", "[*.py]\nmax_line_length = off\n", 100),
        ("README.md", "", 100),
    ],
)
def test_the_nearest_settings_hold(tmp_path: Path, name: str, text: str, length: int) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / name).write_text(text)
    folder = tmp_path / "package" / "part"
    folder.mkdir(parents=True)
    assert line_length(str(folder)) == length


def test_settings_above_the_repository_do_not_hold(tmp_path: Path) -> None:
    (tmp_path / "ruff.toml").write_text("line-length = 60\n")
    repository = tmp_path / "repository"
    (repository / ".git").mkdir(parents=True)
    assert line_length(str(repository)) == 100
