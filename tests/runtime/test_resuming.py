"""The newest checkpoint of a folder."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

import pytest
import torch

from xla_migrate import runtime as xla


def test_the_highest_number_is_the_newest(eager: None, tmp_path: Path) -> None:
    assert xla.latest(tmp_path / "none") is None
    assert xla.latest(tmp_path) is None
    for step in (1000, 900):  # 900 is written last, as by a copy
        torch.save({"step": step}, tmp_path / f"step_{step}.pt")
    (tmp_path / "step_2000.pt.123.part").write_bytes(b"killed")
    (tmp_path / "log_3000.txt").write_text("no checkpoint")
    assert xla.latest(tmp_path) == tmp_path / "step_1000.pt"
    assert xla.latest(str(tmp_path), "*900*") == tmp_path / "step_900.pt"


def test_without_numbers_the_last_written_is(eager: None, tmp_path: Path) -> None:
    for second, name in enumerate(("best.pt", "last.pt")):
        torch.save({}, tmp_path / name)
        os.utime(tmp_path / name, (second, second))
    assert xla.latest(tmp_path) == tmp_path / "last.pt"


@pytest.mark.parametrize("zipped", [True, False])
def test_whole_files_pass_and_others_are_errors(eager: None, tmp_path: Path, zipped: bool) -> None:
    file = tmp_path / "1.pt"
    torch.save({"w": torch.ones(100)}, file, _use_new_zipfile_serialization=zipped)
    assert xla.latest(tmp_path) == file
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2])
    with pytest.raises((xla.CheckpointError, EOFError, RuntimeError)):
        xla.load(xla.latest(tmp_path))
    file.write_bytes(b"")
    with pytest.raises(xla.CheckpointError, match="empty"):
        xla.latest(tmp_path)
    file.write_bytes(b"\x93NUMPY and so on")
    for read in (lambda: xla.latest(tmp_path), lambda: xla.load(file)):
        with pytest.raises(xla.CheckpointError, match=r"1\.pt: not a checkpoint of torch\.save"):
            read()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("a.txt", "another zip file")
    with pytest.raises(xla.CheckpointError, match="a zip file, but not a checkpoint"):
        xla.latest(tmp_path)


def test_other_errors_of_loading_stay_what_they_are(eager: None, tmp_path: Path) -> None:
    file = tmp_path / "1.pt"
    torch.save({"path": Path("x")}, file)
    with pytest.raises(Exception, match=r"weights_only|Weights only"):
        xla.load(file, weights_only=True)
    with pytest.raises(FileNotFoundError):
        xla.load(tmp_path / "2.pt")
