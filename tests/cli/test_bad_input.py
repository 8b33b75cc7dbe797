"""Bad input: one clear line, exit 2, the file untouched, the others done."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from xla_codemods.analysis.projects.project import Project
from xla_codemods.engine import Options
from xla_migrate.cli.migrate import judge
from xla_migrate.files import read

from .. import warm
from .conftest import CUDA, ENVIRONMENT, XLA, Runner

# Each mentions torch, so that it is looked at in folders, too.
UNPARSABLE = {
    "syntax": (b"import torch\ndef f(:\n", "2:7: XLA001 invalid syntax"),
    "python 2": (
        b"import torch\nprint 'x'\n",
        "2:1: XLA001 Missing parentheses in call to 'print'",
    ),
    "null bytes": (b"import torch\nx = '\0'\n", "2:1: XLA001 holds null bytes: not Python source"),
    "binary": (b"\x7fELF\x02\x01\x01\0\0torch", "1:1: XLA001 holds null bytes: not Python source"),
    "undecodable": (
        b"import torch\nx = '\xff'\n",
        "2:1: XLA001 cannot be decoded as utf-8: byte 0xff",
    ),
    "unknown encoding": (b"# coding: torch-8\n", "1:1: XLA001 cannot be decoded: unknown encoding"),
    "utf-16": ("import torch\n".encode("utf-16"), "1:1: XLA001 cannot be decoded"),
    "parentheses": (
        b"torch\nx = " + b"(" * 5000 + b")" * 5000,
        "XLA001 too many nested parentheses",
    ),
    "operators": (b"torch\nx = " + b"-" * 30000 + b"1", "XLA001 nested too deeply to be"),
    "blocks": (
        b"torch\n" + b"".join(b" " * k + b"if x:\n" for k in range(120)) + b" " * 120 + b"x\n",
        "XLA001 too many levels of indentation",
    ),
}
if sys.version_info >= (3, 11):  # Python 3.10 reads it
    UNPARSABLE["attributes"] = (b"torch\nx = x" + b".y" * 30000, "XLA001 nested too deeply to be")
    UNPARSABLE["sum"] = (b"torch\nx = " + b"1 + " * 30000 + b"1", "XLA001 nested too deeply to be")


@pytest.mark.parametrize("kind", UNPARSABLE)
def test_unparsable(run: Runner, here: Path, kind: str) -> None:
    data, message = UNPARSABLE[kind]
    (here / "bad.py").write_bytes(data)
    (here / "good.py").write_text(CUDA)
    for words in (["check", "bad.py"], ["check", "."], ["--diff", "."], ["bad.py", "good.py"]):
        result = run(*words)
        assert result.code == 2, words
        lines = [
            line for line in (result.out + result.err).splitlines() if line.startswith("bad.py")
        ]
        assert len(lines) == 1
        assert message in lines[0]
    assert (here / "bad.py").read_bytes() == data
    assert (here / "good.py").read_text() == XLA


def test_a_broken_file_without_trigger_words(run: Runner, here: Path) -> None:
    """Named, it is told; found in a folder, it is not parsed: there is nothing to migrate in it."""
    (here / "bad.py").write_text("def f(:\n")
    for words in (["check", "bad.py"], ["bad.py"], ["check", "bad.py", "."]):
        assert run(*words).out.startswith("bad.py:1:7: XLA001 invalid syntax\n")
    assert run("check", ".").code == 0
    assert run("check", "bad.py").code == 2  # whatever the cache knows by now


@pytest.mark.parametrize(
    "data", [b"", b"\n", b"\xef\xbb\xbf", b"# torch\n", b"'''torch'''", b"\x0c"]
)
def test_next_to_nothing_is_fine(run: Runner, here: Path, data: bytes) -> None:
    (here / "a.py").write_bytes(data)
    for words in (["check", "a.py"], ["check", "."], ["a.py"], ["--diff", "a.py"]):
        assert run(*words).code == 0
    assert (here / "a.py").read_bytes() == data


def test_what_is_no_file(run: Runner, here: Path) -> None:
    os.mkfifo(here / "pipe.py")
    (here / "loop.py").symlink_to("loop.py")
    (here / "dangling.py").symlink_to("gone.py")
    (here / "good.py").write_text(CUDA)
    names = ["pipe.py", "loop.py", "dangling.py", "gone.py", "/dev/null", "good.py"]
    result = run("check", *names)
    assert result.code == 2
    told = [line for line in result.out.splitlines() if "XLA101" not in line]
    assert told[:5] == [
        "/dev/null: is a device, not a file",
        "dangling.py: No such file or directory",
        "gone.py: No such file or directory",
        "loop.py: Too many levels of symbolic links",
        "pipe.py: is a pipe, not a file",
    ]
    assert run(*names).err == (
        "xla-migrate: loop.py: Too many levels of symbolic links; nothing was written\n"
    )
    assert (here / "good.py").read_text() == CUDA
    assert run("pipe.py", "good.py").out.startswith("pipe.py: is a pipe, not a file\n")
    assert (here / "good.py").read_text() == XLA


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is unreadable to root")
def test_unreadable_files(run: Runner, here: Path) -> None:
    (here / "a.py").write_text(CUDA)
    (here / "a.py").chmod(0)
    assert run("a.py") == (2, "a.py: Permission denied\n", "")


def test_read_only_files(run: Runner, here: Path) -> None:
    (here / "a.py").write_text(CUDA)
    (here / "a.py").chmod(0o444)
    result = run("a.py")
    assert (result.code, result.out.splitlines()[0]) == (2, "a.py: is read-only; not written")
    assert (here / "a.py").read_text() == CUDA
    assert run("check", "a.py").code == 1  # to look at it is no trouble


def test_huge_files(run: Runner, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read, "MAX_SOURCE", 1 << 20)
    (here / "a.py").write_bytes(b"import torch\n" + b"x = 1\n" * 200_000)
    for words in (["check", "a.py"], ["check", "."]):
        result = run(*words)
        assert result.code == 2
        assert result.out.startswith("a.py: is 1 MiB large; files beyond 1 MiB are not analysed")


def test_a_file_that_vanishes(run: Runner, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (here / "a.py").write_text(CUDA)
    (here / "b.py").write_text(CUDA)
    real = os.open

    def vanishing(path: str, *rest: int) -> int:
        if str(path).endswith("a.py"):
            raise FileNotFoundError(2, "No such file or directory")
        return real(path, *rest)

    monkeypatch.setattr(os, "open", vanishing)
    result = run("check", "--no-cache", ".")
    assert result.code == 2
    assert result.out.startswith("a.py: No such file or directory\nb.py:3:5: ")


def test_a_file_that_changes_meanwhile(
    run: Runner, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / "a.py").write_text(CUDA)
    real = judge.judge

    def slow(*words: object) -> object:
        verdict = real(*words)  # type: ignore[arg-type]
        (here / "a.py").write_text("edited = True\n")
        return verdict

    monkeypatch.setattr(judge, "judge", slow)
    result = run("a.py")
    assert result.code == 2
    assert "a.py: changed while it was being migrated; not written" in result.out
    assert (here / "a.py").read_text() == "edited = True\n"
    assert os.listdir(here) == ["a.py"]


def test_an_error_of_ours(run: Runner, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (here / "a.py").write_text(CUDA)
    (here / "b.py").write_text(CUDA)
    real = judge.engine.migrate

    def failing(data: bytes, options: Options, path: str, project: Project | None) -> object:
        if path.endswith("a.py"):
            raise KeyError("what\nis this")
        return real(data, options, path, project)

    monkeypatch.setattr(judge.engine, "migrate", failing)
    result = run(".")
    assert result.code == 2
    assert result.out.startswith(
        "a.py: internal error: KeyError: 'what\\nis this' at test_bad_input.py:"
    )
    assert "please report it" in result.out.splitlines()[0]
    assert (here / "a.py").read_text() == CUDA
    assert (here / "b.py").read_text() == XLA
    assert "Traceback" in run("--verbose", ".").err


def test_an_error_of_ours_elsewhere(
    run: Runner, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / "a.py").write_text(CUDA)
    monkeypatch.setattr("xla_migrate.reports.text.summary", lambda run: 1 / 0)
    result = run("check", "a.py")
    assert result.code == 2
    assert result.err.startswith("xla-migrate: internal error: ZeroDivisionError")
    assert result.err.count("\n") == 1


def test_odd_names(run: Runner, here: Path) -> None:
    names = [
        "new\nline.py",
        "sp ace.py",
        "é.py",
        "-dash.py",
        "a:b.py",
        os.fsdecode(b"\xff.py"),
        "'q\".py",
    ]
    for name in names:
        (here / name).write_text(CUDA)
    result = run(".")
    assert result.code == 0
    assert result.out.endswith("7 of 7 findings migrated in 7 files.\n")
    assert result.out.count("\n") == 8
    for name in names:
        assert (here / name).read_text() == XLA
        assert (here / (name + ".orig")).read_text() == CUDA


def test_a_terminal_that_knows_ascii_only(here: Path) -> None:
    (here / "é.py").write_text(CUDA)
    answer = subprocess.run(
        [sys.executable, "-m", "xla_migrate", "check", "é.py"],
        capture_output=True,
        env={**ENVIRONMENT, "PYTHONIOENCODING": "ascii", "LC_ALL": "C.UTF-8"},
    )
    assert answer.returncode == 1
    assert answer.stdout.startswith(b"\\xe9.py:3:5: XLA101")


def test_links_to_a_file(run: Runner, here: Path, tmp_path: Path) -> None:
    target = tmp_path / "elsewhere.py"
    target.write_text(CUDA)
    (here / "link.py").symlink_to(target)
    result = run("link.py")
    assert result.code == 0
    assert result.out.startswith(f"link.py: the original is kept as {target}.orig\n")
    assert (here / "link.py").is_symlink()
    assert target.read_text() == XLA
    assert os.listdir(here) == ["link.py"]


@pytest.mark.e2e
def test_an_interrupt_leaves_every_file_whole(here: Path) -> None:
    """A run is interrupted at many moments: every file is then the old or the new one, and nothing lies about."""
    program = (
        "import os, signal, sys, threading, time\n"
        "from xla_migrate.cli import main\n"
        "def stop():\n"
        "    time.sleep(float(sys.argv[1]))\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # a background job ignores it
        "threading.Thread(target=stop, daemon=True).start()\n"
        "began = time.perf_counter()\n"
        "code = main(['--jobs', '1', '--no-cache', '.'])\n"
        "print('seconds', time.perf_counter() - began)\n"
        "sys.exit(code)\n"
    )

    def run(delay: float) -> subprocess.CompletedProcess[str]:
        for number in range(40):
            (here / f"{number}.py").write_text(CUDA)
        return subprocess.run(
            [warm.python(*warm.COMMAND), "-c", program, str(delay)],
            capture_output=True,
            text=True,
            env=ENVIRONMENT,
        )

    whole = float(run(1000).stdout.rpartition("seconds ")[2])
    interrupted = 0
    for k in range(6):
        interrupted += run(whole * (k + 1) / 8).returncode == 130
        for name in os.listdir(here):
            text = (here / name).read_text()
            assert text == CUDA or (text == XLA and name.endswith(".py")), name
        assert not [name for name in os.listdir(here) if name.startswith(".")]
    assert interrupted


@pytest.mark.parametrize("line", ["!nvidia-smi", "%matplotlib inline", "  !pip install x"])
def test_a_line_of_a_notebook_in_a_module_is_called_that(line: str) -> None:
    data = f"import torch\nif torch:\n    pass\n{line}\n".encode()
    (row,) = judge.judge(data, "/x/export.py", Options(), True).left
    assert (row.code, row.line) == ("XLA001", 4)
    assert "use the .ipynb" in row.message
    (row,) = judge.judge(b"x = (1\n! y)\n", "/x/a.py", Options(), True).left
    assert "ipynb" not in row.message
