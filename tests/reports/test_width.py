"""Text is fitted into a terminal without losing words or columns."""

from __future__ import annotations

import contextlib
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from xla_migrate.cli import main
from xla_migrate.cli.commands import COMMANDS
from xla_migrate.reports.width import columns, fitted, wrapped


@pytest.mark.parametrize(
    ("width", "text", "shown"),
    [
        (30, "one line that fits", "one line that fits"),
        (30, "first half of it\nand the other", "first half of it\nand the other"),
        (27, "a paragraph that is longer\nthan its terminal is, goes on",
         "a paragraph that is longer\nthan its terminal is, goes\non"),
        (36, "  --all   prints every one of the rules", "  --all   prints every one of the\n          rules"),
        (30, "  --very-long   prints every one of them",
         "  --very-long\n        prints every one of\n        them"),
        (30, "                       [--an-option VALUE]", "           [--an-option VALUE]"),
        (30, "usage: a command with its options and",
         "usage: a command with its\n       options and"),
    ],
)  # fmt: skip
def test_lines_are_wrapped_below_their_column(width: int, text: str, shown: str) -> None:
    assert fitted(text, width) == shown


@pytest.mark.parametrize("width", [60, 80, 140])
@pytest.mark.parametrize("name", ["", "check", *sorted(COMMANDS)])
def test_help_fits(
    name: str, width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def helped(at: int) -> str:
        monkeypatch.setenv("COLUMNS", str(at))
        with contextlib.suppress(SystemExit):
            main([name, "--help"] if name else ["--help"])
        return capsys.readouterr().out

    text = helped(width)
    assert max(map(len, text.splitlines())) <= width
    assert "".join(text.split()) == "".join(helped(200).split())


def test_wide_terminals_are_not_filled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    assert columns() == 98


def test_parts_of_a_right_column_are_joined() -> None:
    text = (
        "  --devices   also test every device and\n              the rest of them\n  --other     x"
    )
    assert (
        fitted(text, 60).splitlines()[0]
        == "  --devices   also test every device and the rest of them"
    )
    assert fitted(text, 40) == text


@pytest.mark.parametrize("text", ["", "a line\nand another that is long", "short"])
def test_other_text_is_unchanged(text: str) -> None:
    assert wrapped(text, 12, "ok  ", "    ") == [f"ok  {text}"]


@pytest.mark.parametrize("width", [60, 80, 140])
def test_findings_are_wrapped_in_a_terminal_only(width: int, tmp_path: Path) -> None:
    """Source lines and fixes are not."""
    script = tmp_path / "train.py"
    script.write_text("import torch\n\nwith torch.cuda.stream(torch.cuda.Stream()):\n    pass\n")
    command = [sys.executable, "-m", "xla_migrate", "check", "--no-cache", "--color=never"]
    command += ["--output-format=full", "train.py"]
    ours, theirs = pty.openpty()
    environment = {**os.environ, "COLUMNS": str(width)}
    subprocess.run(command, cwd=tmp_path, stdout=theirs, env=environment, check=False)
    os.close(theirs)
    shown = b""
    with contextlib.suppress(OSError):  # the end of a terminal on Linux
        while part := os.read(ours, 4096):
            shown += part
    os.close(ours)
    lines = shown.decode().splitlines()
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert max(map(len, lines)) <= width
    assert "".join(shown.decode().split()) == "".join(done.stdout.split())
    assert any(len(line) > 100 for line in done.stdout.splitlines())
