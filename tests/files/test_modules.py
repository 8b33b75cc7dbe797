"""The other modules of a file's project, as the command finds them."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from xla_migrate.files import modules
from xla_migrate.files.find import Walk
from xla_migrate.files.modules import Projects
from xla_migrate.settings import Finder


def tree(root: Path, *names: str) -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("import torch\n")


def known(path: Path, given: Path | None = None) -> list[str]:
    """The modules that the file at `path` sees, where the command was given `given` (or the file)."""
    found = next(f for f in Walk(Finder()).files([str(given or path)]) if f.path == str(path))
    project = Projects().of(found)
    assert project is not None
    return sorted(project.modules.files)


def test_without_a_mark_it_is_what_was_given(tmp_path: Path) -> None:
    tree(tmp_path, "a/train.py", "a/lib/model.py", "b/other.py")
    script = tmp_path / "a" / "train.py"
    assert known(script) == ["lib/model.py", "train.py"]
    assert known(script, tmp_path) == ["a/lib/model.py", "a/train.py", "b/other.py"]
    assert known(tmp_path / "a" / "lib" / "model.py") == ["model.py"]


@pytest.mark.parametrize("mark", [".git", "pyproject.toml", "setup.py", "setup.cfg"])
def test_a_mark_above_says_where_it_begins(tmp_path: Path, mark: str) -> None:
    tree(tmp_path, "p/tools/train.py", "p/lib/model.py", "elsewhere.py")
    (tmp_path / "p" / mark).touch()
    seen = known(tmp_path / "p" / "tools" / "train.py")
    assert seen == sorted(
        ["lib/model.py", "tools/train.py"] + (["setup.py"] if mark == "setup.py" else [])
    )


def test_what_is_no_part_of_it(tmp_path: Path) -> None:
    tree(
        tmp_path,
        "train.py",
        ".hidden/a.py",
        "build/lib/a.py",
        "env/lib/a.py",
        "notes/__pycache__/a.py",
    )
    (tmp_path / "env" / "pyvenv.cfg").touch()
    (tmp_path / "link.py").symlink_to(tmp_path / "train.py")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "table.csv").touch()
    assert known(tmp_path / "train.py") == ["train.py"]


def test_an_unmarked_folder_around_a_named_file_is_searched_for_so_many_files_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree(tmp_path, "train.py", "a.py", "b.py")
    monkeypatch.setattr(modules, "MOST", 2)
    assert known(tmp_path / "train.py") == []


def test_a_marked_project_may_have_any_number_of_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree(tmp_path, "train.py", "a.py", "b.py")
    (tmp_path / "pyproject.toml").touch()
    monkeypatch.setattr(modules, "MOST", 2)
    assert known(tmp_path / "train.py") == ["a.py", "b.py", "train.py"]


def test_a_named_folder_may_have_any_number_of_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree(tmp_path, "train.py", "a.py", "b.py")
    monkeypatch.setattr(modules, "MOST", 2)
    found = next(iter(Walk(Finder()).files([str(tmp_path)])))
    project = Projects().of(found)
    assert project is not None
    assert sorted(project.modules.files) == ["a.py", "b.py", "train.py"]


def test_one_that_cannot_be_read_is_empty(tmp_path: Path) -> None:
    tree(tmp_path, "train.py", "gone.py")
    (found,) = Walk(Finder()).files([str(tmp_path / "train.py")])
    project = Projects().of(found)
    assert project is not None
    assert "gone.py" in project.modules.files
    (tmp_path / "gone.py").unlink()
    assert project.modules.files["gone.py"] == b""
    with pytest.raises(KeyError):
        project.modules.files["never.py"]


def test_notebooks_are_of_the_project_and_other_files_are_not(tmp_path: Path) -> None:
    tree(tmp_path, "lib.py")
    (tmp_path / "a.ipynb").write_text("{}")
    (tmp_path / "a.txt").write_text("")
    (book,) = Walk(Finder()).files([str(tmp_path / "a.ipynb")])
    (text,) = Walk(Finder()).files([str(tmp_path / "a.txt")])
    project = Projects().of(book)
    assert project is not None
    assert "lib.py" in project.modules.files
    assert Projects().of(text) is None


def test_its_fingerprint_changes_with_any_of_its_files(tmp_path: Path) -> None:
    tree(tmp_path, "train.py", "lib/model.py")
    past = 1_600_000_000
    for path in (tmp_path / "train.py", tmp_path / "lib" / "model.py"):
        os.utime(path, (past, past))
    (found,) = Walk(Finder()).files([str(tmp_path / "train.py")])
    seen = {_settled_fingerprint(found)}
    os.utime(tmp_path / "lib" / "model.py", (past + 5, past + 5))
    seen.add(_settled_fingerprint(found))
    tree(tmp_path, "lib/new.py")
    seen.add(_settled_fingerprint(found))
    assert len(seen) == 3


def _settled_fingerprint(found: object) -> bytes:
    """Once the file system's clock has moved on; before, nothing vouches for files that have just changed."""
    while not (told := Projects().fingerprint(found)):  # type: ignore[arg-type]
        time.sleep(0.01)
    return told


def test_the_json_beside_counts_where_it_was_asked_for(tmp_path: Path) -> None:
    tree(tmp_path, "train.py")
    (tmp_path / "ds.json").write_text("{}")
    (tmp_path / "annotations.json").write_text("[" + " " * (1 << 16) + "]")
    for path in tmp_path.iterdir():
        os.utime(path, (1_600_000_000, 1_600_000_000))
    (found,) = Walk(Finder()).files([str(tmp_path / "train.py")])
    plain = _settled_fingerprint(found)
    first = Projects()
    project = first.of(found)
    assert project is not None
    assert dict(project.beside) == {"ds.json": b"{}"}
    assert project.depends_on_files
    while not (whole := Projects().fingerprint(found, True)):
        time.sleep(0.01)
    os.utime(tmp_path / "ds.json", (1_600_000_009, 1_600_000_009))
    changed = Projects()
    assert changed.is_as_it_was(found, plain)
    assert not changed.is_as_it_was(found, whole)
    assert first.is_as_it_was(found, plain)
