"""The command as a user types it: what it prints, writes and returns."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from xla_migrate import __version__

from .conftest import BY_HAND, CLEAN, CUDA, ENVIRONMENT, OWN, SAFE, UNSAFE, XLA, Runner


def test_rewrites_in_place_and_says_where_the_original_is(run: Runner, here: Path) -> None:
    (here / "train.py").write_text(CUDA)
    result = run("train.py")
    assert result == (
        0,
        "train.py: the original is kept as train.py.orig\n1 of 1 finding migrated in 1 file.\n",
        "",
    )
    assert (here / "train.py").read_text() == XLA
    assert (here / "train.py.orig").read_text() == CUDA


def test_a_second_run_changes_nothing_and_leaves_nothing(run: Runner, here: Path) -> None:
    (here / "train.py").write_text(CUDA)
    run("train.py")
    before = (here / "train.py").stat().st_mtime_ns
    assert run("train.py") == (0, "Nothing to migrate in 1 file.\n", "")
    assert (here / "train.py").stat().st_mtime_ns == before
    assert sorted(os.listdir(here)) == ["train.py", "train.py.orig"]


def test_no_copy_where_git_has_the_original(run: Runner, here: Path) -> None:
    (here / "train.py").write_text(CUDA)
    subprocess.run(["git", "init", "-q", "."], check=True)
    subprocess.run(["git", "add", "."], check=True)
    assert run(".").out == "1 of 1 finding migrated in 1 file.\n"
    assert sorted(os.listdir(here)) == [".git", "train.py"]


def test_check_writes_nothing(run: Runner, here: Path) -> None:
    (here / "train.py").write_text(CUDA)
    expected = (
        1,
        "train.py:3:5: XLA101 [*] `.cuda()` fails on an XLA host: use `.to(xla.xla_device())`\n"
        "1 finding in 1 file: `xla-migrate` migrates it.\n",
        "",
    )
    assert run("check", ".") == run("check", "train.py") == run("--check", ".") == expected
    assert (here / "train.py").read_text() == CUDA
    assert os.listdir(here) == ["train.py"]


def test_diff_goes_to_stdout_and_the_summary_to_stderr(run: Runner, here: Path) -> None:
    (here / "train.py").write_text(CUDA)
    result = run("--diff", ".")
    assert result.code == 1
    assert result.out.startswith("--- train.py\n+++ train.py\n@@ -1,3 +1,4 @@\n import torch\n")
    assert result.err == "1 of 1 finding would be migrated in 1 file.\n"
    assert (here / "train.py").read_text() == CUDA
    (here / "train.py").write_text(XLA)
    assert run("--diff", ".") == (0, "", "Nothing to migrate in 1 file.\n")


@pytest.mark.parametrize(
    ("source", "check", "rewrite", "with_unsafe"),
    [(CLEAN, 0, 0, 0), (SAFE, 1, 0, 0), (UNSAFE, 1, 1, 0), (BY_HAND, 1, 1, 1), ("x = (", 2, 2, 2)],
)
def test_exit_codes(
    run: Runner, here: Path, source: str, check: int, rewrite: int, with_unsafe: int
) -> None:
    (here / "pyproject.toml").write_text(OWN)
    for words, code in [
        (["check"], check),
        (["--diff"], max(check, rewrite)),
        ([], rewrite),
        (["--unsafe"], with_unsafe),
    ]:
        (here / "a.py").write_text(source)
        assert run(*words, "a.py").code == code, words


def test_unsafe_is_asked_for_on_the_command_line_or_in_the_settings(
    run: Runner, here: Path
) -> None:
    (here / "pyproject.toml").write_text(OWN)
    (here / "a.py").write_text(UNSAFE)
    assert "0 of 1 finding migrated in 1 file; 1 more with --unsafe." in run("a.py").out
    (here / "pyproject.toml").write_text("[tool.xla-migrate]\nunsafe = true\n" + OWN)
    assert run("--no-unsafe", "a.py").code == 1
    assert run("check", "a.py").out.startswith("a.py:2:1: XLA003 [*] ")
    assert run("a.py").code == 0
    assert "xla.synchronize()" in (here / "a.py").read_text()


def test_select_and_ignore(run: Runner, here: Path) -> None:
    (here / "a.py").write_text(CUDA)
    assert run("check", "--select", "XLA4", "a.py").code == 0
    assert run("check", "--select", "XLA4,xla101", "a.py").code == 1
    assert run("check", "--select", "XLA4", "--select=XLA1", "a.py").code == 1
    assert run("check", "--ignore", "XLA1", "a.py").code == 0
    (here / "pyproject.toml").write_text('[tool.xla-migrate]\nignore = ["XLA1"]\n')
    assert run("check", "a.py").code == 0
    assert run("check", "--ignore", "XLA4", "a.py").code == 0  # adds to the settings
    (here / "pyproject.toml").write_text('[tool.xla-migrate]\nselect = ["XLA4"]\n')
    assert run("check", "a.py").code == 0
    assert run("check", "--select", "XLA1", "a.py").code == 1  # takes their place
    (here / "pyproject.toml").write_text(
        '[tool.xla-migrate.per-file-ignores]\n"a.py" = ["XLA101"]\n'
    )
    (here / "b.py").write_text(CUDA)
    assert run("check", ".").out.startswith("b.py:3:5: ")
    assert run("a.py").out == "Nothing to migrate in 1 file.\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "name a file or folder"),
        (["check"], "name a file or folder"),
        (["--nope", "a.py"], "no option --nope"),
        (["--chekc", "a.py"], "no option --chekc; did you mean `--check`?"),
        (["check", "--fix", "--diff", "a.py"], "--diff writes nothing"),
        (["--fix", "a.py"], "no option --fix; it works only with `check`"),
        (["--write-baseline", "a.py"], "no option --write-baseline"),
        (["--select"], "--select needs a value: --select CODES"),
        (["--diff=yes", "a.py"], "--diff takes no value"),
        (["--select", "E501", "a.py"], '--select: "E501" is neither a code'),
        (["--select", "XLA999", "a.py"], "no rule has the code XLA999"),
        (
            ["--ignore", "XLA001", "a.py"],
            "XLA001 is reported for files that cannot be analysed: exclude",
        ),
        (["--jobs", "0", "a.py"], "--jobs: must be a number from 1, not '0'"),
        (["--target", "tpu", "a.py"], "--target: unknown value `tpu`; known: `xla`"),
        (
            ["--output-format", "jsn", "a.py"],
            "--output-format: unknown value `jsn`; did you mean `json`?",
        ),
        (["--check", "--diff", "a.py"], "--check writes nothing"),
        (["--check", "--output", "b.py", "a.py"], "--check writes nothing"),
        (["--diff", "--output", "b.py", "a.py"], "--diff writes nothing"),
        (["--diff", "--output-format", "json", "a.py"], "--diff prints a diff"),
        (["-", "a.py"], "standard input (-) cannot be combined with other paths"),
        (["-", "--output", "b.py"], "source from standard input is printed to standard output"),
        (["-", "--output-format", "json"], "- prints the new source"),
        (["--stdin-filename", "b.py", "a.py"], "--stdin-filename needs - as the path"),
        (["check", "--baseline", "gone.json", "a.py"], "gone.json: the baseline cannot be read"),
        (["explain"], "explain takes one code or name"),
    ],
)
def test_wrong_usage_is_one_line_and_2(
    run: Runner, here: Path, words: list[str], message: str
) -> None:
    (here / "a.py").write_text(CUDA)
    result = run(*words)
    assert result.code == 2
    assert result.out == ""
    assert result.err.startswith(f"xla-migrate: {message}")
    assert result.err.count("\n") == 1
    assert (here / "a.py").read_text() == CUDA


def test_wrong_settings_are_one_line_and_2(run: Runner, here: Path) -> None:
    (here / "a.py").write_text(CUDA)
    for text, message in [
        ('selct = ["XLA1"]', "tool.xla-migrate.selct: no such setting; did you mean `select`?"),
        ('select = ["XLA199"]', "tool.xla-migrate: no rule has the code XLA199"),
        (
            'per-file-ignores = {"a.py" = ["XLA001"]}',
            "XLA001 is reported for files that cannot be analysed",
        ),
    ]:
        (here / "pyproject.toml").write_text(f"[tool.xla-migrate]\n{text}\n")
        for words in (["a.py"], ["check", "."], ["-", "--stdin-filename", "a.py"]):
            result = run(*words)
            assert (result.code, result.out) == (2, "")
            assert result.err.startswith(f"xla-migrate: {here}/pyproject.toml: tool.xla-migrate")
            assert message in result.err
            assert result.err.count("\n") == 1
    assert (here / "a.py").read_text() == CUDA


def test_help_and_version(run: Runner) -> None:
    assert run("--version") == (0, f"xla-migrate {__version__}\n", "")
    for words in (["--help"], ["-h"], ["check", "--help"]):
        text = run(*words).out
        assert text.startswith("usage: xla-migrate")
        assert "--output-format FORMAT" in text
        assert all(len(line) < 100 for line in text.splitlines())
    assert run("explain", "--help").code == 0


def test_a_sub_commands_word_that_is_a_file_too(run: Runner, here: Path) -> None:
    (here / "check").mkdir()
    (here / "check" / "a.py").write_text(CUDA)
    (here / "explain").write_text(CUDA)
    result = run("check")
    assert result.code == 2
    assert "write `xla-migrate ./check` to migrate it" in result.err
    assert run("explain").code == 2
    assert run("check", ".").out.startswith("check/a.py:3:5: ")
    assert run("check", "check").code == 1
    assert run("--diff", "explain").code == 1  # not the first word: a path
    assert run("./check", "./explain").out.endswith("2 of 2 findings migrated in 2 files.\n")


def test_two_dashes_are_for_verification(run: Runner, here: Path) -> None:
    (here / "--diff").write_text(CUDA)
    for words in (["check", "--", "--diff"], ["./--diff", "--", "--epochs", "1"], ["--", "a.py"]):
        result = run(*words)
        assert (result.code, result.out) == (2, "")
        assert "`xla-migrate verify train.py -- ARGS`" in result.err
    assert (here / "--diff").read_text() == CUDA
    assert run("check", "./--diff").out.startswith("--diff:3:5: ")


def test_paths_are_shown_from_here(
    run: Runner, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / "sub").mkdir()
    (here / "sub" / "a.py").write_text(CUDA)
    assert run("check", here / "sub").out.startswith("sub/a.py:3:5: ")
    monkeypatch.chdir(here / "sub")
    assert run("check", "..").out.startswith("a.py:3:5: ")
    monkeypatch.chdir("/")
    assert run("check", here).out.startswith(f"{str(here)[1:]}/sub/a.py:3:5: ")


def test_an_empty_folder_is_told(run: Runner, here: Path) -> None:
    result = run("check", ".")
    assert result.code == 0
    assert result.err == "xla-migrate: no Python files or notebooks in .\n"


def test_formats(run: Runner, here: Path) -> None:
    (here / "a.py").write_text(CUDA)
    report = json.loads(run("check", "--output-format", "json", "a.py").out)
    assert [f["code"] for f in report["findings"]] == ["XLA101"]
    assert report["summary"]["exit_code"] == 1
    log = json.loads(run("check", "--output-format=sarif", "a.py").out)
    assert log["runs"][0]["tool"]["driver"]["rules"][0]["help"]["text"].startswith(
        "`.cuda()` moves"
    )
    assert run("check", "--output-format", "github", "a.py").out.startswith("::error title=")
    report = json.loads(run("--output-format", "json", "a.py").out)
    assert [f["code"] for f in report["migrated"]] == ["XLA101"]
    assert report["findings"] == []
    assert report["copies"] == [{"path": "a.py", "copy": "a.py.orig"}]


def test_sarif_has_the_manual_of_every_code(run: Runner, here: Path) -> None:
    (here / "pyproject.toml").write_text(OWN)
    (here / "a.py").write_text(SAFE)
    (here / "b.py").write_text("x = (  # torch")
    (here / "c.py").write_text("x = 1  # xla-migrate: ignore[XLA101]\n")
    log = json.loads(run("check", "--output-format=sarif", ".").out)
    assert [r["id"] for r in log["runs"][0]["tool"]["driver"]["rules"]] == [
        "XLA001",
        "XLA002",
        "XLA003",
    ]


def test_statistics_effort_and_quiet(run: Runner, here: Path) -> None:
    (here / "a.py").write_text(CUDA)
    assert run("check", "--statistics", "a.py").out.startswith(
        "1  XLA101  [*] cuda-method\n1 finding "
    )
    assert "by a run     1 of 1 finding (100 %)" in run("check", "--effort", "a.py").out
    assert run("check", "-q", "a.py").out.count("\n") == 1
    assert run("--quiet", "a.py").out == "a.py: the original is kept as a.py.orig\n"


def test_suppressions_are_honoured_and_unused_ones_reported(run: Runner, here: Path) -> None:
    (here / "a.py").write_text(CUDA.replace("()\n", "()  # xla-migrate: ignore[XLA101]\n"))
    (here / "b.py").write_text("x = 1  # xla-migrate: ignore[XLA101]\n")
    result = run("check", ".")
    assert result.out.startswith("b.py:1:8: XLA002 this comment does not suppress XLA101 here")
    assert run("check", "--ignore", "XLA1", "a.py").code == 0  # not selected, but in use


def test_as_a_module() -> None:
    answer = subprocess.run(
        [sys.executable, "-m", "xla_migrate", "--version"],
        capture_output=True,
        text=True,
        env=ENVIRONMENT,
        check=True,
    )
    assert answer.stdout == f"xla-migrate {__version__}\n"


def test_a_reader_that_goes_away_is_no_crash(here: Path) -> None:
    for k in range(200):
        (here / f"{k}.py").write_text(CUDA * 30)
    answer = subprocess.run(
        f"{sys.executable} -m xla_migrate check . | head -1",
        shell=True,
        capture_output=True,
        text=True,
        env=ENVIRONMENT,
        check=True,
    )
    assert answer.stdout.count("\n") == 1
    assert answer.stderr == ""


def test_parallel_spmd(run: Runner, here: Path) -> None:
    (here / "train.py").write_text("import torch\nmodel = net.cuda()\nmodel(x).sum().backward()\n")
    assert "+xla.use_spmd()" in run("--diff", "--parallel", "spmd", "train.py").out
    assert "use_spmd" not in run("--diff", "--parallel", "replicas", "train.py").out
    assert "use_spmd" not in run("--diff", "train.py").out, "also behind the cache"
    assert run("--parallel", "ddp", "train.py").code == 2
