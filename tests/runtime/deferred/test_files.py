"""Calls that write to files of the script: in order with what else is written, before the file is closed."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from xla_migrate import runtime as xla

from .steps import steps_of


def test_lines_are_there_when_the_file_is_closed(device: torch.device, tmp_path: Path) -> None:
    with open(tmp_path / "log", "w") as f:
        for k, value in steps_of(device):
            xla.later(lambda k=k, value=value: f.write(f"{k} {value.item()}\n"), to=f)
            if k == 1:
                f.write("between\n")
    assert (tmp_path / "log").read_text() == "0 0.0\n1 1.0\nbetween\n2 2.0\n"


def test_an_exception_closes_the_file_behind_them(device: torch.device, tmp_path: Path) -> None:
    def interrupted() -> None:
        with open(tmp_path / "log", "w") as f:
            for _, value in steps_of(device):
                xla.later(lambda value=value: print(value.item(), file=f), to=f)
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert (tmp_path / "log").read_text() == "0.0\n"


def test_redirected_lines_go_where_stdout_went(
    device: torch.device, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    buffer = io.StringIO()
    with contextlib.redirect_stdout(buffer):
        for k, value in steps_of(device):
            xla.later(lambda k=k, value=value: print(k, value.item()))
    xla.later(lambda value=value: print("behind", value.item()))
    assert buffer.getvalue() == "0 0.0\n1 1.0\n2 2.0\n"
    usual, sys.stdout = sys.stdout, (tmp_path / "log").open("w")
    for k, value in steps_of(device):
        xla.later(lambda k=k, value=value: print(k, value.item()))
    sys.stdout.close()
    sys.stdout = usual
    assert (tmp_path / "log").read_text() == "0 0.0\n1 1.0\n2 2.0\n"
    assert capsys.readouterr().out == "behind 2.0\n"


def test_rows_of_a_csv_writer(device: torch.device, tmp_path: Path) -> None:
    f = (tmp_path / "log.csv").open("w", newline="")
    writer = csv.writer(f)
    writer.writerow(["step", "loss"])
    for k, value in steps_of(device):
        xla.later(lambda k=k, value=value: writer.writerow([k, value.item()]), to=f)
    f.close()
    assert (tmp_path / "log.csv").read_text().split() == ["step,loss", "0,0.0", "1,1.0", "2,2.0"]


def test_a_flush_comes_behind_them(device: torch.device, tmp_path: Path) -> None:
    f = (tmp_path / "log").open("w")
    for _, value in steps_of(device):
        text = lambda value=value: f.write(json.dumps({"loss": value.item()}) + "\n")  # noqa: E731
        xla.later(text, to=f)
        f.flush()
    xla.flush()
    assert (tmp_path / "log").read_text().count("loss") == 3  # though it is not closed
    f.close()


@pytest.mark.parametrize("make", [io.StringIO, object])
def test_what_cannot_be_watched_is_written_at_once(device: torch.device, make: Any) -> None:
    target, seen = make(), []
    for k, value in steps_of(device):
        xla.later(lambda value=value: seen.append(value.item()), to=target)
        # Of the others some may have come by now; this step is not even launched.
        assert (float(k) in seen) is not isinstance(target, io.StringIO)
    xla.flush()
    assert seen == [0.0, 1.0, 2.0]


def test_a_file_that_nobody_closes_is_written_when_nobody_has_it(
    device: torch.device, tmp_path: Path
) -> None:
    def write() -> None:
        f = (tmp_path / "log").open("w")
        for k, value in steps_of(device):
            xla.later(lambda k=k, value=value: f.write(f"{k} {value.item()}\n"), to=f)
            f.flush()
            f.write("between\n")

    write()
    xla.flush()
    assert len((tmp_path / "log").read_text().split("\n")) == 7
