"""xla.profile: steps and their markers, ranges, lines, and what is undone at the end."""

from __future__ import annotations

import gzip
import json
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from xla_migrate import runtime as xla
from xla_migrate.runtime.profiling import meter as _profile_meter
from xla_migrate.runtime.profiling.meter import COMPILING, LOADING, READING, TRACING

pytestmark = pytest.mark.e2e


def _events(folder: Path) -> list[dict[str, Any]]:
    (path,) = folder.glob("**/*.trace.json.gz")
    with gzip.open(path) as file:
        return [event for event in json.load(file)["traceEvents"] if event.get("ph") == "X"]


def _markers(folder: Path) -> list[int]:
    steps = [e for e in _events(folder) if e["name"] == "step"]
    return [int(e["args"]["step_num"]) for e in steps if "step_num" in e.get("args", {})]


class _Training:
    def __init__(self, device: Any, batches: int = 4) -> None:
        torch.manual_seed(0)
        self.model = nn.Linear(8, 3).to(device)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        data = TensorDataset(torch.randn(2 * batches, 8), torch.arange(2 * batches) % 3)
        self.loader = xla.MpDeviceLoader(DataLoader(data, batch_size=2), device)

    def backward(self, x: Any, y: Any) -> Any:
        loss = nn.functional.cross_entropy(self.model(x), y)
        loss.backward()
        return loss

    def train(self) -> None:
        for x, y in self.loader:
            self.backward(x, y)
            self.optimizer.step()


def test_each_training_step_has_one_marker_and_evaluation_has_none(
    device: Any, tmp_path: Path
) -> None:
    training = _Training(device)
    with xla.profile(tmp_path) as run:
        training.train()
        with torch.no_grad():
            for x, _ in training.loader:
                training.model(x).sum().item()
    assert _markers(tmp_path) == [0, 1, 2, 3]
    assert run.traced is not None
    assert run.traced.steps == 4
    assert run.startup is None


def test_accumulated_batches_are_one_step(device: Any, tmp_path: Path) -> None:
    training = _Training(device, batches=6)
    with xla.profile(tmp_path):
        for i, (x, y) in enumerate(training.loader):
            training.backward(x, y)
            if i % 3 == 2:
                training.optimizer.step()
    assert _markers(tmp_path) == [0, 1]


def test_a_script_without_optimizer_has_a_marker_per_backward(
    device: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("xla_migrate.runtime.profiling.recording._has_optimizer", lambda: False)
    training = _Training(device)
    with xla.profile(tmp_path):
        for x, y in training.loader:
            training.backward(x, y)
            with torch.no_grad():
                for p in training.model.parameters():
                    p -= 0.1 * p.grad
    assert _markers(tmp_path) == [0, 1, 2, 3]


def test_steps_are_skipped_and_limited(device: Any, tmp_path: Path) -> None:
    training = _Training(device)
    ended: list[int] = []
    with xla.profile(tmp_path, skip=1, steps=2, finished=lambda: ended.append(1)) as run:
        training.train()
        assert ended == [1]  # though the context is still open
    assert ended == [1]
    assert _markers(tmp_path) == [0, 1]
    assert run.startup is not None
    assert run.startup.steps == 1
    assert run.traced is not None
    assert run.traced.steps == 2


def test_the_last_step_counts_without_a_mark(device: Any, tmp_path: Path) -> None:
    training = _Training(device)
    with xla.profile(tmp_path):
        training.backward(torch.randn(2, 8).to(device), torch.tensor([0, 1]).to(device))
        training.optimizer.step()
    assert _markers(tmp_path) == [0]


def test_ranges_and_lines_of_the_script_are_in_the_trace(device: Any, tmp_path: Path) -> None:
    training = _Training(device)

    @torch.profiler.record_function("decorated")
    def slow() -> None:
        end = time.perf_counter() + 0.1
        while time.perf_counter() < end:
            pass

    with xla.profile(tmp_path):
        with torch.profiler.record_function("a range of the script"):
            slow()
        assert xla.range_push("pushed") == 0
        training.train()
        assert xla.range_pop() == 0
        assert xla.range_pop() == -1
    names = {event["name"] for event in _events(tmp_path)}
    assert {"a range of the script", "decorated", "pushed"} <= names
    assert any("test_profiling.py:" in name and ": " not in name for name in names)


def test_time_is_told_by_kind_and_by_line(device: Any, tmp_path: Path) -> None:
    training = _Training(device)
    with xla.profile(tmp_path) as run:
        for x, y in training.loader:
            loss = training.backward(x, y)
            training.optimizer.step()
            end = time.perf_counter() + 0.05
            while time.perf_counter() < end:
                pass  # a line that takes long
            loss.item()  # a line that reads
    assert run.traced is not None
    kinds = run.traced.kinds()
    assert sum(kinds.values()) == pytest.approx(run.traced.seconds)
    assert kinds[TRACING] >= 0.19
    assert kinds[READING] > 0
    assert kinds[LOADING] > 0
    text = run.summary()
    assert "traced, 4 steps" in text
    source = Path(__file__).read_text().splitlines()
    reading = next(i for i, line in enumerate(source, 1) if line.endswith("# a line that reads"))
    by_line = dict(run.traced.lines())
    here = by_line[__file__, reading]
    assert here[READING] == pytest.approx(kinds[READING])
    busy = [by_line.get((__file__, reading - n), {}).get(TRACING, 0) for n in (1, 2)]
    assert sum(busy) > 0.5 * kinds[TRACING]


def test_compiling_is_told_apart(device: Any, tmp_path: Path) -> None:
    width = 8 + int(time.time()) % 1000  # a graph that is in no cache
    with xla.profile(tmp_path) as run:
        torch.ones(width, 5, device=device).cumsum(0).mul(3).sum().item()
        xla.mark_step()
    assert run.traced is not None
    kinds = run.traced.kinds()
    assert kinds[COMPILING] > 0.5 * (kinds[COMPILING] + kinds[READING])
    assert run.traced.executing is not None


def test_everything_is_undone(device: Any, tmp_path: Path) -> None:
    import torch_xla

    training = _Training(device)
    training.train()

    def watched() -> list[Any]:
        return [
            torch_xla.sync,
            torch.Tensor.item,
            torch.autograd.backward,
            torch.profiler.record_function.__enter__,
            xla.MpDeviceLoader.__iter__,
            _profile_meter.loader.DeviceIterator.__next__,
            _profile_meter._BaseDataLoaderIter.__next__,
        ]

    before = watched()

    def fail() -> None:
        with xla.profile(tmp_path):
            training.train()
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert watched() == before
    assert _markers(tmp_path) == [0, 1, 2, 3]  # written all the same


def test_one_profile_at_a_time(device: Any, tmp_path: Path) -> None:
    with xla.profile(tmp_path / "one"), pytest.raises(RuntimeError, match="already running"):
        xla.profile(tmp_path / "two").__enter__()
    with xla.profile(tmp_path / "three"):
        pass


def test_wrong_limits_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="skip must be at least 0"):
        xla.profile(tmp_path, steps=0)
    assert xla.profile(tmp_path).summary() == ""


def test_a_profile_that_ends_before_the_trace_begins(device: Any, tmp_path: Path) -> None:
    training = _Training(device)
    with xla.profile(tmp_path, skip=9) as run:
        training.train()
    assert run.startup is not None
    assert run.startup.steps == 4
    assert not list(tmp_path.glob("**/*.pb"))
    assert "start, 4 steps" in run.summary()


def test_eagerly_torch_s_profiler_records(eager: None, tmp_path: Path) -> None:
    training = _Training("cpu")
    with xla.profile(tmp_path, skip=1) as run:
        xla.range_push("a range")
        training.train()
        xla.range_pop()
        training.train()
    (path,) = tmp_path.glob("*.pt.trace.json")
    names = [event.get("name") for event in json.loads(path.read_text())["traceEvents"]]
    assert {f"ProfilerStep#{n}" for n in range(7)} <= set(names)
    assert "Optimizer.step#SGD.step" in names
    assert run.traced is not None
    assert run.traced.steps == 7
    assert run.traced.executing is None
    assert "device executing" not in run.summary()


def test_places_are_the_user_s(tmp_path: Path) -> None:
    here = _profile_meter.place(sys._getframe())
    assert here[0] == __file__
    assert _profile_meter.shown(("/elsewhere/x.py", 3)) == "/elsewhere/x.py:3"
    assert _profile_meter.shown(_profile_meter.NOWHERE) == "no line of the script"
