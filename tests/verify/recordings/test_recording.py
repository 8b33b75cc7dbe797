"""The file of a recording: what is saved is read again, and nothing else is read."""

from __future__ import annotations

import json
import math
import zipfile
from pathlib import Path
from typing import Any

import pytest

from xla_migrate.verify.judge.trace import read
from xla_migrate.verify.observe.process.packing import pack, unpack
from xla_migrate.verify.recordings.recording import (
    STAND_IN,
    RecordingError,
    RecordingFacts,
    load,
    save,
)

from ..traces import run

ABOUT = RecordingFacts(
    kind=STAND_IN,
    script="train.py",
    args=("--epochs", "1"),
    command=("verify", "--record", "r", "train.py"),
    recorded="2026-11-26T00:00:00+00:00",
    environment={"torch": "2.9.0", "device": "NVIDIA H100"},
    steps=1,
    seed=0,
    dropout="off",
    nproc=1,
)


def lines(weights: int = 600) -> list[dict[str, Any]]:
    parameters = {
        "optimizer": 0,
        "kind_of_optimizer": "SGD",
        "built": "train.py:3",
        "names": [f"w{i}" for i in range(weights)],
        "shapes": [[4, 4]] * weights,
        "trains": [True] * weights,
        "devices": ["cuda"],
        "redirected": False,
        "about": {"torch": "2.9.0"},
    }
    step = {
        "event": 0,
        "optimizer": 0,
        "step": 1,
        "skipped": False,
        "where": "train.py:9",
        "backwards": ["train.py:8"],
        "left": 0,
        "with_gradient": [True] * weights,
        "seconds": 0.1,
        "harness": 0.01,
        "counts": {},
        "reads": [],
        "options": [{"lr": 0.1}],
    }
    numbers = [i / 7 for i in range(weights)]
    values = {
        "event": 0,
        "losses": [1 / 3],
        "gradients": ["nan", *numbers[1:]],
        "weights": numbers * 2,
        "moved": numbers,
    }
    batch = {"loader": 0, "batch": 0, "names": ["0"], "shapes": [[2, 3]], "integers": [False]}
    return [
        {"kind": "parameters", **parameters},
        {"kind": "initial", "optimizer": 0, "weights": numbers * 2},
        {"kind": "batch", **batch, "rows": [pack([0.5, -1.5])]},
        {"kind": "step", **step},
        {"kind": "values", **values},
    ]


def recorded(folder: Path) -> Path:
    records = folder / "records"
    records.mkdir()
    file = records / "rank0.77.jsonl"
    text = "".join(json.dumps(line) + "\n" for line in lines())
    file.write_text(text + '{"kind": "st')  # the process was killed amid a line
    observed = run(losses=(1 / 3,))
    observed.traces = [read(file)]
    observed.output = "loss 0.3333\n"
    save(folder / "r.zip", ABOUT, {"float32": (observed, records)})
    return folder / "r.zip"


def test_a_saved_run_is_read_again(tmp_path: Path) -> None:
    found = load(recorded(tmp_path))
    assert found.about == ABOUT
    (trace,) = found.runs["float32"].traces
    assert (trace.rank, trace.process) == (0, 77)
    (step,) = trace.steps
    assert step.losses == [1 / 3]  # losses keep all of their digits
    assert math.isnan(step.gradients[0])
    assert step.gradients[8] == pytest.approx(8 / 7, rel=1e-7)
    assert step.norms[7] == pytest.approx(1.0)
    assert trace.details.batches[0, 0][0].rows == (0.5, -1.5)
    assert found.runs["float32"].output == "loss 0.3333\n"


def test_a_long_list_takes_four_bytes_a_number(tmp_path: Path) -> None:
    assert recorded(tmp_path).stat().st_size < 4.3 * 600 * 5 + 2_000


def test_packed_numbers_keep_infinity_and_are_float32() -> None:
    assert unpack(pack([1.5, math.inf, -1e300, 0.1])) == [
        1.5,
        math.inf,
        -math.inf,
        pytest.approx(0.1, rel=1e-7),
    ]


def test_a_later_format_is_refused_with_what_to_do(tmp_path: Path) -> None:
    file = recorded(tmp_path)
    with zipfile.ZipFile(file) as archive:
        head = json.loads(archive.read("recording.json"))
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("recording.json", json.dumps({**head, "version": 99}))
    with pytest.raises(RecordingError, match=r"format 99.*record again"):
        load(file)


@pytest.mark.parametrize("content", [b"", b"not a zip", None])
def test_any_other_file_is_refused(tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "other"
    if content is None:
        with zipfile.ZipFile(file, "w") as archive:
            archive.writestr("recording.json", json.dumps({"format": "other"}))
    else:
        file.write_bytes(content)
    with pytest.raises(RecordingError, match="not a recording"):
        load(file)


def test_a_missing_file_is_reported() -> None:
    with pytest.raises(RecordingError, match="No such file"):
        load(Path("/nowhere/r"))


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    link = tmp_path / "link.zip"
    (tmp_path / "real.zip").write_bytes(b"old")
    link.symlink_to("real.zip")
    save(link, ABOUT, {"float32": (run(), tmp_path)})
    assert link.is_symlink()
    assert load(tmp_path / "real.zip").about == ABOUT
