"""What a script prints is noted, with the line that printed it, up to the end of the process."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from ... import warm

SCRIPT = """\
import atexit
import logging
import sys
import warnings

def late():
    print("late", 3)

print("loss", 0.5)
sys.stdout.write("half a ")
print("line 7")
atexit.register(late)
logging.basicConfig(stream=sys.stderr)
logging.warning("logged 4")
warnings.warn("strides do not match\\nsizes = [1, 32]")
print()
"""
ATTACH = """
import runpy, sys
from xla_migrate.verify.observe.process import printed, records, where
where.set_project({folder!r})
records.open_in({folder!r})
printed.install()
if {trains}:
    records.write("step")
runpy.run_path({folder!r} + "/train.py", run_name="__main__")
"""


def noted(folder: Path, trains: bool) -> list[list[str]]:
    (folder / "train.py").write_text(SCRIPT)
    code = ATTACH.format(folder=str(folder), trains=trains)
    done = subprocess.run(
        [warm.for_side("reference"), "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout == "loss 0.5\nhalf a line 7\n\nlate 3\n"
    records = [
        json.loads(line)
        for file in folder.glob("rank*.jsonl")
        for line in file.read_text().splitlines()
    ]
    return [line for record in records for line in record.get("lines", [])]


def test_lines_with_their_places_in_order(tmp_path: Path) -> None:
    assert noted(tmp_path, trains=True) == [
        ["loss 0.5", "train.py:9"],
        ["half a line 7", "train.py:10"],
        ["WARNING:root:logged 4", "train.py:14"],
        ["late 3", "train.py:7"],
    ]


def test_a_process_that_does_not_train_leaves_no_record(tmp_path: Path) -> None:
    assert noted(tmp_path, trains=False) == []
    assert list(tmp_path.glob("rank*")) == []


WARNS = """\
import logging
import sys
import warnings

def old(scale):
    warnings.warn(f"old({scale}) is deprecated", FutureWarning, stacklevel=2)

old(scale=2.0 ** 10)
print("\\r 10%|#", end="", file=sys.stderr)
old(scale=2.0 ** 12)
print("\\r100%|#", file=sys.stderr)
print("at 3: Warning: low")
logging.captureWarnings(True)
logging.basicConfig()
old(scale=2.0 ** 11)
print("a.py:7: a line of the script's own")
"""


def test_warnings_are_not_what_the_script_prints(tmp_path: Path) -> None:
    """Nor is the source that they show, which differs from the original's: `  scaler = GradScaler(init_scale=1024.)`.

    A warning may interrupt a progress bar, whose line has no end yet.
    """
    (tmp_path / "train.py").write_text(WARNS)
    code = ATTACH.format(folder=str(tmp_path), trains=True)
    subprocess.run(
        [warm.for_side("reference"), "-c", code], capture_output=True, text=True, check=True
    )
    lines = [
        line
        for file in tmp_path.glob("rank*.jsonl")
        for text in file.read_text().splitlines()
        for line, _ in json.loads(text).get("lines", [])
    ]
    assert lines == ["\r 10%|#\r100%|#", "at 3: Warning: low", "a.py:7: a line of the script's own"]
