"""Summaries of batches and inputs in the training process."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from xla_migrate.verify.judge.details import READERS, Details
from xla_migrate.verify.observe.details import batches, calls, inputs, modules, replay, samples
from xla_migrate.verify.observe.process import records
from xla_migrate.verify.observe.process.patching import Patches


@pytest.fixture
def patches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Patches]:
    monkeypatch.setattr(records, "_folder", tmp_path)
    monkeypatch.setattr(records, "_file", None)
    found = Patches()
    yield found
    found.undo()


def written(folder: Path) -> Details:
    out = Details()
    for file in folder.glob("*.jsonl"):
        for line in file.read_text().splitlines():
            record: dict[str, Any] = json.loads(line)
            READERS[record.pop("kind")](out, record)
    return out


def test_a_permuted_batch_has_the_same_norm_and_other_rows() -> None:
    x = torch.randn(8, 5000)
    order = torch.tensor([3, 1, 2, 0, 4, 5, 6, 7])
    a, b = samples.summary(x), samples.summary(x[order])
    assert torch.allclose(a[:3], b[:3], rtol=1e-5)
    assert not torch.allclose(a[3:], b[3:])
    assert torch.allclose(samples.rows(x)[order], samples.rows(x[order]))
    assert not torch.allclose(samples.rows(x), samples.rows(x[order]))


@pytest.mark.parametrize(
    "tensor",
    [
        torch.zeros(0),
        torch.tensor(3.0),
        torch.arange(5),
        torch.ones(2, 2, dtype=torch.bool),
        torch.ones(2, dtype=torch.complex64),
        torch.ones(3, 3).to_sparse(),
        torch.ones(300, dtype=torch.bfloat16),
    ],
)
def test_every_kind_of_tensor_has_a_summary_of_one_width(tensor: torch.Tensor) -> None:
    assert samples.summary(tensor).shape == (samples.WIDTH,)
    assert samples.rows(tensor).dim() == 1


def test_drawing_indices_leaves_the_scripts_random_numbers_alone() -> None:
    torch.manual_seed(3)
    expected = torch.randn(4)
    torch.manual_seed(3)
    samples.summary(torch.ones(12345))
    samples.rows(torch.ones(3, 54321))
    assert torch.equal(torch.randn(4), expected)


def test_stored_weights_and_batches_are_fed_to_another_run(
    tmp_path: Path, patches: Patches
) -> None:
    steps = iter((1, 2))
    store = replay.Store(tmp_path, lambda: next(steps))
    model, other = torch.nn.BatchNorm1d(3), torch.nn.BatchNorm1d(3)
    torch.nn.init.normal_(model.weight)
    model.running_mean.fill_(5.0)  # type: ignore[union-attr]
    store.entered(model, (), {})
    data = torch.randn(4, 2)
    store.drawn(0, 0, {"x": data[:2], "name": "a"})
    store.step_over(0)
    store.drawn(0, 1, ["no tensor"])  # so what follows cannot be replayed
    store.step_over(1)
    assert (store.models, store.batches, store.steps) == (1, 1, 1)
    feed = replay.Feed(tmp_path)
    feed.entered(torch.nn.Sequential(torch.nn.Linear(3, 3)), (), {})
    feed.entered(other, (), {})
    assert torch.equal(other.weight, model.weight)
    assert other.running_mean is not None
    assert other.running_mean[0] == 5
    batch = {"x": torch.zeros(7, 2), "name": "b"}
    feed.drawn(0, 0, batch)
    assert torch.equal(batch["x"], data[:2])  # type: ignore[arg-type]
    feed.drawn(0, 1, batch)
    assert replay.notes == {"the weights of Sequential were not recorded in these shapes"}
    replay.notes.clear()


def test_the_first_batches_of_each_loader_are_written(tmp_path: Path, patches: Patches) -> None:
    batches.install(patches, 2)
    x, y = torch.randn(12, 3), torch.arange(12)
    train = DataLoader(TensorDataset(x, y), batch_size=4)
    test = DataLoader({"a": x[0]}, batch_size=1, sampler=["a"])  # type: ignore[arg-type]
    for _ in range(2):
        list(train)
    list(test)
    batches.write()
    found = written(tmp_path).batches
    assert sorted(found) == [(0, 0), (0, 1), (1, 0)]
    images, labels = found[0, 1]
    assert (images.shape, images.integers, labels.integers) == ((4, 3), False, True)
    assert images.rows == pytest.approx(samples.rows(x[4:8]).tolist(), rel=1e-6)


def test_inputs_of_outermost_modules_are_written_by_step(tmp_path: Path, patches: Patches) -> None:
    calls.install(patches, [inputs.entered], [])
    model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Linear(3, 2))
    x, y = torch.randn(4, 3), torch.tensor([0, 1, 1, 0])
    with torch.no_grad():
        model(x)  # evaluation
    torch.nn.CrossEntropyLoss()(model(x), target=y)
    inputs.step_over(0)
    model(x + 1)
    inputs.step_over(1)
    found = written(tmp_path).inputs
    assert [(f.name, f.shape) for f in found[0]] == [("0.0", (4, 3)), ("1.target", (4,))]
    assert [(f.name, f.integers) for f in found[1]] == [("0.0", False)]


def test_a_module_that_raises_does_not_hide_the_next_call(tmp_path: Path, patches: Patches) -> None:
    calls.install(patches, [inputs.entered], [])
    model = torch.nn.Sequential(torch.nn.Linear(3, 3))
    with pytest.raises(RuntimeError):
        model(torch.ones(2, 5))
    model(torch.ones(2, 3))
    inputs.step_over(0)
    assert len(written(tmp_path).inputs[0]) == 2


class _Two(torch.autograd.Function):
    """As cuDNN's LSTM: the gradient of an output that is not used is None."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        ctx.set_materialize_grads(False)
        return x * 2, x * 3

    @staticmethod
    def backward(ctx: Any, first: torch.Tensor, second: Any) -> torch.Tensor:
        assert second is None
        return first * 2


class _TwoOutputs(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> Any:
        return _Two.apply(x)  # type: ignore[no-untyped-call]


def test_an_output_without_a_gradient_is_left_out(tmp_path: Path, patches: Patches) -> None:
    recorder = modules.Recorder()
    calls.install(patches, [recorder.entered], [recorder.left])
    used, _ = _TwoOutputs()(torch.ones(3, requires_grad=True))
    used.sum().backward()
    recorder.step_over(0)
    found = written(tmp_path).modules[0]
    outputs = [tensor for _, side, _, tensor in found.uses if side == 1]
    assert len(outputs) == 2
    assert outputs[0] in found.backward
    assert outputs[1] not in found.backward
