"""Which folder is the project of a script."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from xla_migrate.verify.experiments.workspace import project_of


def test_the_working_folder_where_the_script_lies_in_it(tmp_path: Path) -> None:
    script = tmp_path / "tools" / "train.py"
    assert project_of(script, tmp_path) == tmp_path
    assert project_of(script, tmp_path / "elsewhere") == tmp_path / "tools"


def test_folders_of_many_projects_are_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    script = tmp_path / "mine" / "train.py"
    for folder in (tmp_path, Path(script.anchor)):
        assert project_of(script, folder) == script.parent
