"""Which files a run is about."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from xla_migrate.files.find import Walk
from xla_migrate.settings import Finder


def tree(root: Path, *paths: str, **texts: str) -> None:
    for path in paths:
        place = root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.touch()


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def found(*paths: str, force_exclude: bool = False, without: str = "") -> list[str]:
    walk = Walk(Finder(), force_exclude, without)
    files = [file.shown for file in walk.files(paths)]
    assert not walk.problems
    return files


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_folders_give_python_files_and_notebooks(here: Path) -> None:
    tree(
        here, "a.py", "sub/b.py", "sub/c.ipynb", "d.pyc", "e.txt", "script", "f.pyi", "deep/er/g.py"
    )
    assert found(".") == ["a.py", "deep/er/g.py", "sub/b.py", "sub/c.ipynb"]


def test_a_named_file_is_taken_whatever_it_is_called(here: Path) -> None:
    tree(here, "script", "build/a.py")
    write(here / ".gitignore", "build/\nscript\n")
    assert found("script", "build/a.py") == ["build/a.py", "script"]


@pytest.mark.parametrize(
    "folder", [".venv", "venv", "node_modules", "__pycache__", "build", "x.egg-info"]
)
def test_folders_that_nobody_writes_in_are_left_out(here: Path, folder: str) -> None:
    tree(here, f"{folder}/a.py", f"src/{folder}/b.py", "c.py")
    assert found(".") == ["c.py"]
    assert found(folder) == [f"{folder}/a.py"]  # unless it is named itself


def test_gitignore_of_every_level(here: Path) -> None:
    tree(
        here,
        ".git/config",
        "a.py",
        "out.py",
        "sub/out.py",
        "sub/keep.py",
        "sub/deep/x.py",
        "gen/y.py",
    )
    write(here / ".gitignore", "out.py\n/gen\nx.py\n")
    write(here / "sub/.gitignore", "!out.py\n")
    write(here / "sub/deep/.gitignore", "!x.py\n")
    assert found(".") == ["a.py", "sub/deep/x.py", "sub/keep.py", "sub/out.py"]
    assert found("sub") == ["sub/deep/x.py", "sub/keep.py", "sub/out.py"]


def test_a_file_in_an_ignored_folder_cannot_come_back(here: Path) -> None:
    tree(here, ".git/config", "gen/keep.py")
    write(here / ".gitignore", "gen/\n!gen/keep.py\n")
    assert found(".") == []


def test_gitignore_above_the_folder_counts_up_to_the_repository(here: Path) -> None:
    tree(here, "repo/.git/config", "repo/src/a.py", "repo/src/b.py", "repo/.git/info/exclude")
    write(here / ".gitignore", "a.py\n")  # outside of the repository
    write(here / "repo/.gitignore", "/src/b.py\n")
    assert found("repo/src") == ["repo/src/a.py"]
    write(here / "repo/.git/info/exclude", "a.py\n")
    assert found("repo/src") == found("repo") == []


def test_a_repository_within_begins_anew(here: Path) -> None:
    tree(here, ".git/config", "a.py", "inner/.git/config", "inner/a.py")
    write(here / ".gitignore", "a.py\n")
    assert found(".") == ["inner/a.py"]


def test_gitignore_counts_outside_of_repositories_too(here: Path) -> None:
    tree(here, "a.py", "b.py")
    write(here / ".gitignore", "a.py\n")
    assert found(".") == ["b.py"]


def test_settings_exclude(here: Path) -> None:
    tree(here, "a.py", "old/b.py", "build/c.py", "sub/old/d.py", "venv/e.py")
    write(here / "pyproject.toml", '[tool.xla-migrate]\nexclude = ["/old", "venv"]\n')
    assert found(".") == ["a.py", "build/c.py", "sub/old/d.py"]
    write(here / "pyproject.toml", '[tool.xla-migrate]\nextend-exclude = ["old/"]\n')
    assert found(".") == ["a.py"]
    assert found("old/b.py") == ["old/b.py"]
    assert found("old/b.py", "old", "a.py", force_exclude=True) == ["a.py"]


def test_force_exclude_takes_only_what_can_be_analysed(here: Path) -> None:
    names = ("a.py", "b.pyw", "c.ipynb", "train.sh", "tool", "notes.md", "LICENSE", "data.yaml")
    tree(here, *names)
    write(here / "train.sh", "CUDA_VISIBLE_DEVICES=0 python a.py\n")
    write(here / "tool", "#!/usr/bin/env python3\n")
    assert found(*names) == sorted(names)
    analysed = ["a.py", "b.pyw", "c.ipynb", "tool", "train.sh"]
    assert found(*names, force_exclude=True) == analysed
    write(here / "pyproject.toml", "[tool.xla-migrate]\nlaunch-files = false\n")
    assert found(*names, force_exclude=True) == analysed[:-1]


def test_each_part_has_the_settings_of_its_own(here: Path) -> None:
    tree(here, "a/x.py", "b/x.py", "b/deep/y.py")
    write(here / "pyproject.toml", '[tool.xla-migrate]\nselect = ["XLA1"]\n')
    write(here / "b/pyproject.toml", '[tool.xla-migrate]\nselect = ["XLA2"]\n')
    write(here / "b/deep/pyproject.toml", '[project]\nname = "no table of ours"\n')
    selected = {f.shown: f.settings.select for f in Walk(Finder()).files(["."])}
    assert selected == {"a/x.py": ("XLA1",), "b/x.py": ("XLA2",), "b/deep/y.py": ("XLA2",)}
    named = {f.shown: f.settings.select for f in Walk(Finder()).files(["b/deep/y.py", "a/x.py"])}
    assert named == {"a/x.py": ("XLA1",), "b/deep/y.py": ("XLA2",)}


def test_links_in_folders_are_not_followed(here: Path) -> None:
    tree(here, "a.py", "outside/x.py", "sub/b.py")
    (here / "sub/loop").symlink_to(here)
    (here / "sub/out").symlink_to(here / "outside")
    (here / "sub/link.py").symlink_to(here / "a.py")
    (here / "sub/broken.py").symlink_to(here / "gone.py")
    assert found("sub") == ["sub/b.py"]
    assert found("sub/link.py", "a.py") == ["sub/link.py"]  # the same file, once
    assert found("sub/out") == ["sub/out/x.py"]


def test_nothing_is_taken_twice(here: Path) -> None:
    tree(here, "a.py", "sub/b.py")
    assert found(".", "a.py", "./a.py", "sub", str(here / "sub/b.py")) == ["a.py", "sub/b.py"]


def test_what_is_no_file_is_told(here: Path) -> None:
    os.mkfifo(here / "pipe.py")
    (here / "loop.py").symlink_to(here / "loop.py")
    tree(here, "a.py")
    walk = Walk(Finder())
    files = walk.files(
        ["pipe.py", "loop.py", "gone.py", "a.py/b.py", "nu\0ll.py", "/dev/null", "."]
    )
    assert [f.shown for f in files] == ["a.py"]  # the pipe is passed over in the folder
    problems = dict(walk.problems)
    assert problems["pipe.py"] == "is a pipe, not a file"
    assert problems["/dev/null"] == "is a device, not a file"
    assert problems["loop.py"] == "Too many levels of symbolic links"
    assert problems["gone.py"] == "No such file or directory"
    assert problems["a.py/b.py"] == "Not a directory"
    assert "null" in problems["nu\0ll.py"]


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is unreadable to root")
def test_a_folder_that_cannot_be_read_is_told(here: Path) -> None:
    tree(here, "closed/a.py")
    (here / "closed").chmod(0)
    walk = Walk(Finder())
    assert walk.files(["."]) == []
    assert walk.problems == [("closed", "Permission denied")]
    (here / "closed").chmod(0o700)


def test_the_folder_of_the_output_is_not_entered(here: Path) -> None:
    tree(here, "a.py", "new/a.py")
    assert found(".", without=str(here / "new")) == ["a.py"]


def test_deep_trees(here: Path) -> None:
    place = here
    for _ in range(300):
        place = place / "d"
    place.mkdir(parents=True)
    tree(place, "a.py")
    assert len(found(".")) == 1
