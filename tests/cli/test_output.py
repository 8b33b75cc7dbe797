"""--output: the result goes elsewhere, the originals stay."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from .conftest import CLEAN, CUDA, XLA, Runner


@pytest.fixture
def project(here: Path) -> Path:
    for name, text in [
        ("a.py", CUDA),
        ("sub/b.py", CUDA),
        ("sub/clean.py", CLEAN),
        ("notes.md", "x"),
    ]:
        (here / "src" / name).parent.mkdir(parents=True, exist_ok=True)
        (here / "src" / name).write_text(text)
    return here


def tree(folder: Path) -> dict[str, str]:
    return {str(p.relative_to(folder)): p.read_text() for p in folder.rglob("*") if p.is_file()}


def test_a_file_to_a_file(run: Runner, project: Path) -> None:
    (project / "src/a.py").chmod(0o750)
    result = run("src/a.py", "--output", "new/xla.py")
    assert result == (0, "1 of 1 finding migrated in 1 file.\n", "")
    assert (project / "new/xla.py").read_text() == XLA
    assert stat.S_IMODE((project / "new/xla.py").stat().st_mode) == 0o750
    assert (project / "src/a.py").read_text() == CUDA


def test_an_unchanged_file_is_written_too(run: Runner, project: Path) -> None:
    assert run("src/sub/clean.py", "--output", "clean.py").code == 0
    assert (project / "clean.py").read_text() == CLEAN


def test_a_file_to_a_folder(run: Runner, project: Path) -> None:
    (project / "out").mkdir()
    run("src/a.py", "--output", "out")
    run("src/a.py", "--output", "out2/")
    assert tree(project / "out") == tree(project / "out2") == {"a.py": XLA}


def test_a_folder_keeps_its_shape(run: Runner, project: Path) -> None:
    assert run("src", "--output", "out").code == 0
    assert tree(project / "out") == {"a.py": XLA, "sub/b.py": XLA, "sub/clean.py": CLEAN}
    assert tree(project / "src")["a.py"] == CUDA


def test_again_and_from_within(run: Runner, project: Path) -> None:
    for _ in range(2):
        assert run(".", "--output", "out").code == 0
        assert sorted(tree(project / "out")) == ["src/a.py", "src/sub/b.py", "src/sub/clean.py"]


def test_a_file_that_could_not_be_judged_is_not_written(run: Runner, project: Path) -> None:
    (project / "src/bad.py").write_text("torch (")
    assert run("src", "--output", "out").code == 2
    assert "bad.py" not in tree(project / "out")
    assert tree(project / "out")["a.py"] == XLA


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["src/a.py", "--output", "src/a.py"], "src/a.py would be written over an original"),
        (["src/a.py", "--output", "src"], "src/a.py would be written over an original"),
        (["src", "--output", "src"], "would be written over an original"),
        (
            ["src/a.py", "src/sub/b.py", "--output", "src/notes.md"],
            "it is a file, and there is more",
        ),
        (
            ["src/a.py", "other/a.py", "--output", "out"],
            "other/a.py and src/a.py would be the same file",
        ),
        (["src/a.py", "--output", "link.py"], "src/a.py would be written over an original"),
    ],
)
def test_what_would_lose_something_is_refused(
    run: Runner, project: Path, words: list[str], message: str
) -> None:
    (project / "other").mkdir()
    (project / "other/a.py").write_text(CLEAN)
    (project / "link.py").symlink_to("src/a.py")
    before = tree(project)
    result = run(*words)
    assert (result.code, result.out) == (2, "")
    assert message in result.err
    assert result.err.count("\n") == 1
    assert tree(project) == before


def test_a_place_that_cannot_be_written_is_told(run: Runner, project: Path) -> None:
    (project / "out").write_text("a file")
    result = run("src/a.py", "--output", "out/a.py")
    assert result.code == 2
    assert "src/a.py: cannot be written: " in result.out
    assert os.listdir(project / "src") != []


def test_findings_lead_to_the_site_of_the_settings(run: Runner, here: Path) -> None:
    (here / "a.py").write_text(CUDA)
    (here / "pyproject.toml").write_text(
        '[tool.xla-migrate]\ndocs-url = "https://docs.example/m"\n'
    )
    assert (
        "https://docs.example/m/rules/XLA101/" in run("check", "--output-format", "json", ".").out
    )
    assert '"helpUri": "https://docs.example/m' in run("check", "--output-format=sarif", ".").out
    (here / "pyproject.toml").write_text('[tool.xla-migrate]\ndocs-url = "docs/"\n')
    result = run("check", ".")
    assert result.code == 2
    assert "tool.xla-migrate.docs-url: must be the address of a site" in result.err
