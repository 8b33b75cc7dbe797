"""Could git give a file back?"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from xla_migrate.files.git import can_restore


def git(folder: Path, *words: str) -> None:
    identity = ("-c", "user.name=x", "-c", "user.email=x@example.org")
    subprocess.run(["git", "-C", folder, *identity, *words], check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    git(tmp_path, "init", "-q", ".")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "train.py").write_bytes(b"x = 1\n")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "x")
    return tmp_path


def ask(path: Path) -> bool:
    return can_restore(str(path), path.read_bytes())


def test_a_file_as_it_was_committed(repository: Path) -> None:
    assert ask(repository / "sub/train.py")


def test_a_modified_file(repository: Path) -> None:
    (repository / "sub/train.py").write_bytes(b"x = 2\n")
    assert not ask(repository / "sub/train.py")
    git(repository, "add", ".")
    assert ask(repository / "sub/train.py")  # `git restore` takes it from the index


def test_an_untracked_and_an_ignored_file(repository: Path) -> None:
    (repository / "new.py").write_bytes(b"x = 1\n")
    assert not ask(repository / "new.py")
    (repository / ".gitignore").write_text("new.py\n")
    assert not ask(repository / "new.py")
    git(repository, "add", "-N", "-f", "new.py")  # an intent to add holds no content
    assert not ask(repository / "new.py")


def test_no_repository_and_no_git(
    repository: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    lone = tmp_path_factory.mktemp("lone") / "a.py"
    lone.write_bytes(b"x\n")
    assert not ask(lone)
    monkeypatch.setenv("PATH", os.devnull)
    assert not ask(repository / "sub/train.py")


def test_names_are_no_patterns(repository: Path) -> None:
    (repository / "[ab].py").write_bytes(b"x = 1\n")
    (repository / "a.py").write_bytes(b"x = 1\n")
    git(repository, "add", "a.py")
    assert not ask(repository / "[ab].py")
    git(repository, "add", "[[]ab].py")
    assert ask(repository / "[ab].py")


def test_a_link_into_another_repository(
    repository: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    link = tmp_path_factory.mktemp("elsewhere") / "link.py"
    link.symlink_to(repository / "sub/train.py")
    assert ask(link)


def test_line_ends_that_git_changes_count_as_lost(repository: Path) -> None:
    git(repository, "config", "core.autocrlf", "true")
    (repository / "crlf.py").write_bytes(b"x = 1\r\n")
    git(repository, "add", "crlf.py")
    assert not ask(repository / "crlf.py")


def test_an_unfinished_merge(repository: Path) -> None:
    git(repository, "checkout", "-q", "-b", "other")
    (repository / "sub/train.py").write_bytes(b"x = 2\n")
    git(repository, "commit", "-q", "-am", "2")
    git(repository, "checkout", "-q", "-")
    (repository / "sub/train.py").write_bytes(b"x = 3\n")
    git(repository, "commit", "-q", "-am", "3")
    with pytest.raises(subprocess.CalledProcessError):
        git(repository, "merge", "other")
    assert not ask(repository / "sub/train.py")
