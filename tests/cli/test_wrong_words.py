"""A slip in the command line never rewrites anything."""

from __future__ import annotations

from pathlib import Path

import pytest

from .conftest import CUDA, Runner


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["chek", "."], "no command `chek`; did you mean `check`?"),
        (["verfy", "train.py"], "no command `verfy`; did you mean `verify`?"),
        (["Explain", "XLA101"], "no command `Explain`; did you mean `explain`?"),
        (["undo"], "no command `undo`: to undo a migration, use `git checkout FILE`"),
        (["revert", "train.py"], "no command `revert`: to undo a migration"),
        (["docter"], "no command `docter`; did you mean `doctor`?"),
        (["verfy", "train.py", "--", "--epochs", "1"], "`--` is accepted only by"),
        (["train.py", "--", "--epochs", "1"], "`--` is accepted only by"),
        (["train.py", "gone.py"], "gone.py: No such file or directory; nothing was written"),
        ([".", "chek"], "chek: No such file or directory; nothing was written"),
        (["--output", "new", "train.py", "gone"], "gone: No such file or directory"),
        (["check", "--fix", "train.py", "gone.py"], "gone.py: No such file or directory"),
        (["chek", "train.py", "--verify", "--", "1"], "no command `chek`; did you mean `check`?"),
        (["", "train.py"], "a path is empty"),
        (["train.py", "--output", ""], "a path is empty"),
        (["check", ""], "a path is empty"),
        (["train.py", "--select", ""], "--select: '' is not a code"),
        (["train.py", "--ignore", " ,"], "--ignore: ' ,' is not a code"),
        (
            ["train.py", ".", "-o", "two.py"],
            "--output two.py looks like a file name",
        ),
        (
            [".", "-o", "new/all.ipynb"],
            "--output new/all.ipynb looks like a file name",
        ),
        (
            ["verify", "train.py", "--style", "nativ", "--"],
            "--style: unknown value `nativ`; did you mean `native`?",
        ),
        (["help", "chek"], "no command `chek`; did you mean `check`?"),
    ],
)
def test_nothing_is_written(run: Runner, here: Path, words: list[str], message: str) -> None:
    (here / "train.py").write_text(CUDA)
    result = run(*words)
    assert (result.code, result.out) == (2, "")
    assert message in result.err
    assert result.err.count("\n") == 1
    assert [path.name for path in here.iterdir()] == ["train.py"]
    assert (here / "train.py").read_text() == CUDA


def test_a_folder_with_a_name_like_a_command(run: Runner, here: Path) -> None:
    (here / "chek").mkdir()
    (here / "chek" / "a.py").write_text(CUDA)
    assert run("chek").code == 0
    assert "xla_device" in (here / "chek" / "a.py").read_text()
