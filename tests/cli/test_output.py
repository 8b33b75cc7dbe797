"""--output: the result goes elsewhere, the originals stay."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from .conftest import CLEAN, CUDA, OWN, XLA, Runner


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
    result = run("src", "--output", "out")
    assert result.code == 0
    assert result.err == "xla-migrate: 1 other file copied into out\n"
    assert tree(project / "out") == {
        "a.py": XLA,
        "notes.md": "x",
        "sub/b.py": XLA,
        "sub/clean.py": CLEAN,
    }
    assert tree(project / "src")["a.py"] == CUDA


def test_again_and_from_within(run: Runner, project: Path) -> None:
    for _ in range(2):
        assert run(".", "--output", "out").code == 0
        names = ["src/a.py", "src/notes.md", "src/sub/b.py", "src/sub/clean.py"]
        assert sorted(tree(project / "out")) == names


def test_a_file_that_could_not_be_judged_is_not_written(run: Runner, project: Path) -> None:
    (project / "src/bad.py").write_text("torch (")
    assert run("src", "--output", "out").code == 2
    assert "bad.py" not in tree(project / "out")
    assert tree(project / "out")["a.py"] == XLA


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["src/a.py", "--output", "src/a.py"],
            "the result of src/a.py would overwrite an original",
        ),
        (["src/a.py", "--output", "src"], "the result of src/a.py would overwrite an original"),
        (["src", "--output", "src"], "would overwrite an original"),
        (
            ["src/a.py", "src/sub/b.py", "--output", "src/notes.md"],
            "is a file, but there is more",
        ),
        (
            ["src/a.py", "other/a.py", "--output", "out"],
            "other/a.py and src/a.py would be the same file",
        ),
        (["src/a.py", "--output", "link.py"], "the result of src/a.py would overwrite an original"),
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
    assert "tool.xla-migrate.docs-url: must be a URL" in result.err


def test_what_lies_beside_the_code_is_copied(run: Runner, project: Path) -> None:
    (project / "src" / "conf.yaml").write_text("lr: 0.1\n")
    (project / "src" / "data.bin").write_bytes(b"x" * (5 << 20))
    (project / "src" / "secret.txt").write_text("x")
    (project / "src" / "notes.md").write_text("new")
    (project / "src" / ".gitignore").write_text("secret.txt\n")
    (project / ".git").mkdir()
    (project / "out").mkdir()
    (project / "out" / "notes.md").write_text("somebody's")
    told = run("src", "--output", "out").err
    assert "2 other files copied into out\n" in told
    assert "not copied into out (large): src/data.bin\n" in told
    assert "not copied into out (a different file exists): src/notes.md\n" in told
    made = tree(project / "out")
    assert made["conf.yaml"] == "lr: 0.1\n"
    assert made["notes.md"] == "somebody's"
    assert "secret.txt" not in made


def test_a_file_that_is_there_is_kept(run: Runner, project: Path) -> None:
    (project / "new.py").write_text("somebody's work\n")
    result = run("src/a.py", "--output", "new.py")
    assert "new.py: the previous file is kept as new.py.orig\n" in result.out
    assert (project / "new.py.orig").read_text() == "somebody's work\n"
    assert (project / "new.py").read_text() == XLA
    assert "kept" not in run("src/a.py", "--output", "new.py").out


def test_findings_name_the_file_whose_lines_they_count(run: Runner, here: Path) -> None:
    import json

    (here / "pyproject.toml").write_text(OWN)
    (here / "a.py").write_text("import mylib, torch\nx = y.cuda()\nmylib.by_hand(1, 2)\n")
    assert run("--diff", "a.py").err.startswith("a.py:3:1: XLA003 ")
    assert run("a.py", "--output", "out.py").out.startswith("out.py:4:1: XLA003 ")
    report = json.loads(run("a.py", "--output", "out.py", "--output-format", "json").out)
    assert [(f["path"], f["line"]) for f in report["findings"]] == [("out.py", 4)]
    assert [(f["path"], f["line"]) for f in report["migrated"]] == [("a.py", 2)]
    source = (here / "a.py").read_bytes()
    assert run("-", stdin=source).err.startswith("<stdout>:4:1: XLA003 ")
    assert run("-", "--diff", stdin=source).err.startswith("<stdin>:3:1: XLA003 ")
    assert run("a.py").out.startswith("a.py:4:1: XLA003 ")
