"""Patterns of .gitignore: what git says is right."""

from __future__ import annotations

import os
import random
import subprocess
from pathlib import Path

import pytest

from xla_migrate.files.find import ENDINGS
from xla_migrate.files.ignore import Patterns

NAMES = ["a", "b", "ab", "foo", "foobar", "x.py", "a.py", "é.py", "b c", "[x]", "a-b", "#h", "!n"]
ATOMS = [
    *("a", "b", "foo", "x.py", ".py", "é", "o", "-", " "),
    *("*", "?", "**", "/", "/", "*.py", "**/", "/**", "/**/", "**\\/"),
    *("[ab]", "[!a]", "[^b]", "[a-c]", "[z-a]", "[a-]", "[]a]", "[[:alpha:]]", "[[:digit:]x]"),
    *("[[:foo:]]", "[a", "[!]", "[\\]]", "\\", "\\a", "\\*"),
]


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("repository")
    subprocess.run(["git", "init", "-q", root], check=True)
    chance = random.Random(1)
    for _ in range(120):
        path = root.joinpath(*(chance.choice(NAMES) for _ in range(chance.randint(1, 4))))
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            if not path.exists():
                path.touch()
        except (FileExistsError, NotADirectoryError):
            continue
    return root


def ignored_by_git(root: Path, paths: list[str]) -> set[str]:
    answer = subprocess.run(
        ["git", "-C", root, "check-ignore", "-z", "--stdin", "--no-index", "-v", "-n"],
        input="\0".join(paths).encode(),
        stdout=subprocess.PIPE,
        check=False,
    ).stdout
    fields = answer.decode().split("\0")
    return {
        path
        for pattern, path in zip(fields[2::4], fields[3::4])
        if pattern and not pattern.startswith("!")
    }


def some_lines(chance: random.Random) -> list[str]:
    lines = []
    for _ in range(chance.choice([1, 1, 2, 3])):
        line = "".join(chance.choice(ATOMS) for _ in range(chance.randint(1, 4)))
        line = "!" + line if chance.random() < 0.25 else line
        lines.append(line + "/" if chance.random() < 0.2 else line)
    return lines


@pytest.mark.parametrize("seed", range(60))
def test_the_same_as_git(repository: Path, seed: int) -> None:
    lines = some_lines(random.Random(seed))
    (repository / ".gitignore").write_text("\n".join(lines) + "\n")
    folders: dict[str, bool] = {}
    for place, inside, files in os.walk(repository):
        inside[:] = [name for name in inside if name != ".git"]
        for name in (*inside, *files):
            folders[os.path.relpath(os.path.join(place, name), repository)] = name in inside
    wanted = ignored_by_git(repository, list(folders))
    patterns = Patterns(lines)
    narrowed = Patterns(lines, ENDINGS)
    for path, is_folder in folders.items():
        parts = path.split("/")
        above = ("/".join(parts[:k]) for k in range(1, len(parts)))
        got = any(patterns.decide(p, True) for p in above) or patterns.decide(path, is_folder)
        assert bool(got) == (path in wanted), (lines, path)
        if not is_folder:
            assert patterns.covers(path) == (path in wanted), (lines, path)
        if is_folder or path.endswith(ENDINGS):
            assert narrowed.decide(path, is_folder) == patterns.decide(path, is_folder), (
                lines,
                path,
            )


@pytest.mark.parametrize(
    ("line", "path", "expected"),
    [
        ("build/", "build", False),  # a file of that name stays
        ("/out", "sub/out", False),
        ("docs/*.py", "docs/a/b.py", False),
        ("docs/**/*.py", "docs/a/b.py", True),
        ("*.py   ", "a.py", True),
        ("a\\ ", "a ", True),
        ("# a.py", "a.py", False),
        ("\\#a", "#a", True),
        ("a.py\r\n", "a.py", True),
        ("", "", False),
        ("/", "a", False),
    ],
)
def test_fine_points(line: str, path: str, expected: bool) -> None:
    assert bool(Patterns([line]).decide(path, False)) is expected


def test_the_last_pattern_that_matches_decides() -> None:
    patterns = Patterns(["*.py", "!keep.py", "keep.py/"])
    assert patterns.decide("drop.py", False) is True
    assert patterns.decide("keep.py", False) is False
    assert patterns.decide("notes.md", False) is None
