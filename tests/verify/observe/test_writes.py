"""Where other state is written to, and the line that is named for it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import nn

from tests.verify.traces import run
from xla_migrate.verify.judge.state import untracked
from xla_migrate.verify.judge.state.writes import of_tensor
from xla_migrate.verify.judge.trace import Movement, Write, read
from xla_migrate.verify.observe.process import records, where
from xla_migrate.verify.observe.training import writes

BEFORE = "import torch\nmodel = net()\ntrain(model)\ncheck(model)\nupdate()\n"
AFTER = "import torch\nimport xla\nmodel = net()\ntrain(model)\ncheck(model)\nupdate()\n"


@pytest.fixture
def recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr(records, "_file", None)
    monkeypatch.setattr(records, "_folder", tmp_path)
    monkeypatch.setattr(writes, "_groups", [])
    monkeypatch.setattr(writes, "_counts", type(writes._counts)())
    monkeypatch.setattr(where, "_project", (f"{Path(__file__).parent}/",))
    modes = torch.overrides._get_current_function_mode_stack()
    yield tmp_path
    for _ in torch.overrides._get_current_function_mode_stack()[len(modes) :]:
        torch.overrides._pop_mode()
    if records._file is not None:
        records._file.close()


def line() -> int:
    return sys._getframe(1).f_lineno


def test_lines_of_writes_in_place_through_views_and_by_another_tensor(recorded: Path) -> None:
    norm, ema, kept = nn.BatchNorm1d(3), {"w": torch.ones(2, 3)}, torch.zeros(3, 2)
    assert norm.num_batches_tracked is not None
    writes.watch(lambda: [("count", norm.num_batches_tracked), ("kept", kept)])
    writes.watch(lambda: list(ema.items()))
    for _ in range(3):
        norm(torch.ones(2, 3) * torch.rand(2, 1))
        at_norm = line() - 1
    kept.data.add_(1)
    at_data = line() - 1
    ema["w"] = ema["w"] * 0.9
    at_ema = line() - 1
    writes.step()
    norm.eval()
    norm(torch.ones(2, 3))
    writes.end()
    (path,) = recorded.glob("rank*.jsonl")
    found = {
        name: [(w.lines[0], w.times) for w in all_of] for name, all_of in read(path).writes.items()
    }
    here = Path(__file__).name
    assert found == {
        "count": [(f"{here}:{at_norm}", 3)],
        "kept": [(f"{here}:{at_data}", 1)],
        "w": [(f"{here}:{at_ema}", 1)],
    }


def written(tmp_path: Path, theirs: list[Write], ours: list[Write]) -> tuple[str, str] | None:
    runs = [run(writes={"count": theirs}), run(side="target", writes={"count": ours})]
    for one, text in zip(runs, (BEFORE, AFTER), strict=True):
        one.project = tmp_path / one.side
        one.project.mkdir()
        (one.project / "train.py").write_text(text)
    return of_tensor("count", *runs)


def test_the_line_that_only_one_of_them_writes_by_is_named(tmp_path: Path) -> None:
    """By its place in either file; lines that lead to all writes differ, too, but by less."""
    theirs = [Write(("net.py:7", "train.py:3"), 6)]
    ours = [Write(("net.py:7", "train.py:4"), 6), Write(("net.py:7", "train.py:5"), 2)]
    found = written(tmp_path, theirs, ours)
    assert found == (
        "train.py:4 of the original writes to it 0 times there, 2 times here",
        "train.py:5",
    )


def test_a_write_that_is_lost_has_a_place_in_the_original_alone(tmp_path: Path) -> None:
    found = written(tmp_path, [Write(("train.py:5",), 6)], [])
    assert found == ("train.py:5 of the original writes to it 6 times there, 0 times here", "")


def test_writes_that_are_alike_name_no_line(tmp_path: Path) -> None:
    assert written(tmp_path, [Write(("train.py:3",), 6)], [Write(("train.py:4",), 6)]) is None


def test_the_verdict_has_the_line(tmp_path: Path) -> None:
    name = "Net.bn.num_batches_tracked"
    runs = run(), run(side="target")
    for one, times in zip(runs, (18.0, 24.0), strict=True):
        one.project = tmp_path
        one.traces[0].untracked[name] = Movement(times, times, 0.0)
        one.traces[0].writes[name] = [Write(("train.py:3",), int(times))]
    (found,) = untracked.judge(*runs, 1e-5, runs)
    assert found.status == "failed"
    assert found.where == "train.py:3"
    assert found.detail.endswith(
        "train.py:3 of the original writes to it 18 times there, 24 times here"
    )
