"""Checkpoints of a traced script, which reach no file: what the script does with their names."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from xla_migrate.target.compile.child import saves


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with a checkpoint, `last.pt`, that was saved, and a file that is there."""
    for owner, names in (
        (os, "rename replace remove unlink"),
        (shutil, "move copyfile copy copy2"),
    ):
        for name in names.split():
            monkeypatch.setattr(owner, name, getattr(owner, name))
    saves._follow_moves()
    (tmp_path / "there.txt").write_text("there")
    saves._saved[str(tmp_path / "last.pt")] = "weights"
    yield tmp_path
    saves._saved.clear()


def known(folder: Path) -> set[str]:
    return {Path(path).relative_to(folder).as_posix() for path in saves._saved}


@pytest.mark.parametrize("copy", ["copyfile", "copy", "copy2"])
def test_a_copy_is_a_second_checkpoint(folder: Path, copy: str) -> None:
    getattr(shutil, copy)(folder / "last.pt", folder / "best.pt")
    assert known(folder) == {"last.pt", "best.pt"}
    assert os.listdir(folder) == ["there.txt"]


def test_a_copy_into_a_folder_keeps_its_name(folder: Path) -> None:
    (folder / "kept").mkdir()
    shutil.copy(folder / "last.pt", folder / "kept")
    assert known(folder) == {"last.pt", "kept/last.pt"}


@pytest.mark.parametrize(("owner", "move"), [(os, "rename"), (os, "replace"), (shutil, "move")])
def test_a_checkpoint_that_moves_has_another_name(folder: Path, owner: Any, move: str) -> None:
    getattr(owner, move)(folder / "last.pt", folder / "best.pt")
    assert known(folder) == {"best.pt"}


def test_a_checkpoint_that_is_removed_is_gone(folder: Path) -> None:
    (folder / "last.pt").unlink()
    assert known(folder) == set()


def test_other_files_are_really_copied_moved_and_removed(folder: Path) -> None:
    shutil.copyfile(folder / "there.txt", folder / "copy.txt")
    shutil.move(folder / "copy.txt", folder / "moved.txt")
    os.remove(folder / "there.txt")
    assert os.listdir(folder) == ["moved.txt"]
