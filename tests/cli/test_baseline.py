"""Baselines: what is known stays quiet, what is new does not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from .conftest import CUDA, Runner

LINE = "x = torch.ones(2).cuda()\n"


@pytest.fixture
def known(run: Runner, here: Path) -> Path:
    (here / "a.py").write_text(CUDA + LINE)
    assert run("check", "--write-baseline", ".") == (
        0,
        "2 findings written to xla-migrate-baseline.json\n",
        "",
    )
    (here / "pyproject.toml").write_text(
        '[tool.xla-migrate]\nbaseline = "xla-migrate-baseline.json"\n'
    )
    return here


def test_known_findings_are_left_out(run: Runner, known: Path) -> None:
    expected = "Nothing to migrate in 1 file. 2 findings hidden by the baseline.\n"
    assert run("check", ".") == (0, expected, "")
    (known / "pyproject.toml").unlink()
    assert run("check", ".").code == 1
    assert run("check", "--baseline", "xla-migrate-baseline.json", ".") == (0, expected, "")


def test_lines_may_move_and_be_indented(run: Runner, known: Path) -> None:
    (known / "a.py").write_text(
        "import torch\n# new\nif 1:\n    x  = 3\n    " + LINE + "\n\n    " + LINE
    )
    assert run("check", ".").code == 0


def test_one_more_of_the_same_is_new(run: Runner, known: Path) -> None:
    (known / "a.py").write_text(CUDA + LINE + LINE)
    result = run("check", ".")
    assert result.code == 1
    assert result.out.startswith("a.py:5:5: XLA101")
    assert "2 findings hidden" in result.out


def test_another_line_code_or_file_is_new(run: Runner, known: Path) -> None:
    (known / "a.py").write_text(CUDA.replace("x =", "y =") + LINE)
    assert "1 finding" in run("check", ".").out
    (known / "b.py").write_text((known / "a.py").read_text())
    assert "3 findings" in run("check", ".").out


def test_entries_that_no_longer_occur_are_counted(run: Runner, known: Path) -> None:
    (known / "a.py").write_text(CUDA)
    assert run("check", ".").out == (
        "Nothing to migrate in 1 file. 1 finding hidden by the baseline. "
        "1 entry of the baseline no longer occurs: update it with --write-baseline.\n"
    )


def test_a_rewrite_fixes_what_is_known_too(run: Runner, known: Path) -> None:
    assert "2 of 2 findings migrated" in run(".").out


def test_the_file_is_stable_and_small(run: Runner, known: Path) -> None:
    path = known / "xla-migrate-baseline.json"
    before = path.read_text()
    content = json.loads(before)
    assert list(content) == ["version", "files"]
    assert [entry["code"] for entry in content["files"]["a.py"]] == ["XLA101", "XLA101"]
    run("check", "--write-baseline", "--quiet", ".")
    assert path.read_text() == before


def test_from_another_folder(run: Runner, known: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/")
    assert run("check", known).code == 0


def test_files_that_cannot_be_judged_are_not_accepted(run: Runner, known: Path) -> None:
    (known / "bad.py").write_text("torch (")
    result = run("check", "--write-baseline", ".")
    assert result.code == 2
    assert "bad.py:1:7: XLA001" in result.out
    assert "bad.py" not in (known / "xla-migrate-baseline.json").read_text()
    assert run("check", ".").code == 2


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"version": 2, "files": {}}', '{"version": 1, "files": {"a.py": 3}}']
)
def test_what_is_no_baseline_is_told(run: Runner, known: Path, text: str) -> None:
    (known / "xla-migrate-baseline.json").write_text(text)
    result = run("check", ".")
    assert (result.code, result.out) == (2, "")
    assert "xla-migrate-baseline.json: " in result.err
    assert result.err.count("\n") == 1


def test_what_was_not_judged_stays_in_the_file(run: Runner, known: Path) -> None:
    (known / "b.py").write_text(CUDA)
    assert run("check", "--write-baseline", "b.py").out == (
        "1 finding written to xla-migrate-baseline.json\n"
    )
    assert run("check", ".").code == 0
    (known / "a.py").unlink()
    run("check", "--write-baseline", "b.py")
    assert "a.py" not in (known / "xla-migrate-baseline.json").read_text()


def test_what_was_not_looked_for_is_not_said_to_be_gone(run: Runner, known: Path) -> None:
    assert "no longer" not in run("check", "--select", "XLA4", ".").out
    assert "no longer" not in run("check", "--ignore", "XLA101", ".").out
    (known / "a.py").write_text("import torch\nx = torch.cuda\n")
    assert "2 entries of the baseline no longer occur" in run("check", ".").out


def test_a_baseline_below_is_named_from_here(run: Runner, here: Path) -> None:
    (here / "part").mkdir()
    (here / "part" / "pyproject.toml").write_text("[tool.xla-migrate]\n")
    (here / "part" / "a.py").write_text(CUDA)
    place = Path("part", "xla-migrate-baseline.json")
    assert run("check", "--write-baseline", ".").out == f"1 finding written to {place}\n"


def test_a_file_that_was_renamed_is_known(run: Runner, known: Path) -> None:
    (known / "a.py").rename(known / "moved.py")
    assert "2 findings hidden by the baseline" in run("check", ".").out
    (known / "moved.py").write_text("import torch\nz = torch.zeros(3).cuda()\n")
    assert run("check", ".").code == 1


def test_another_file_with_a_line_of_one_that_is_gone_is_new(run: Runner, known: Path) -> None:
    lines = "".join(f"x{i} = torch.ones({i}).cuda()\n" for i in range(5))
    (known / "a.py").write_text(f"import torch\n{lines}")
    run("check", "--write-baseline", ".")
    (known / "a.py").unlink()
    (known / "b.py").write_text("import torch\nx1 = torch.ones(1).cuda()\n")
    assert run("check", ".").code == 1
