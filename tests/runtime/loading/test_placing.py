"""Where `xla.load` puts what a file holds: states on the CPU, all else where `map_location` says."""

from __future__ import annotations

import argparse
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence
from torch.utils.data import TensorDataset

from xla_migrate import runtime as xla
from xla_migrate.runtime.loading.batches import tensors_in


class Pair(NamedTuple):
    x: Any
    y: Any


@dataclass
class Sample:
    x: torch.Tensor
    name: str = "a"


@dataclass(frozen=True)
class Frozen:
    x: torch.Tensor


class Graph:
    """As libraries of graphs have it: an object with tensors."""

    def __init__(self) -> None:
        self.x, self.edge_index, self.num_nodes = torch.ones(3, 2), torch.zeros(2, 4).long(), 3


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer, self.scale = nn.Linear(2, 2), torch.ones(2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x) * self.scale


X, Y = torch.arange(6.0).reshape(3, 2), torch.arange(3)

DATA: dict[str, Any] = {
    "a tensor": X,
    "a dict": {"images": X, "labels": Y},
    "nested": {"train": {"images": X, "labels": Y}, "test": {"images": X}},
    "names with dots": {"train.images": X, "train.labels": Y},
    "names of files": {"0001.jpg": X, "0002.jpg": X},
    "weights of a loss": {"class_weight": Y},
    "a list": [X, Y],
    "a list of pairs": [(X, Y), (X, Y)],
    "a tuple": (X, Y),
    "a named tuple": Pair(X, Y),
    "a deque": deque([X, Y], maxlen=5),
    "a default dict": defaultdict(list, {"a": [X]}),
    "an ordered dict": OrderedDict(a=X, b=Y),
    "a data class": Sample(X),
    "a frozen one": Frozen(X),
    "an object": Graph(),
    "options": argparse.Namespace(prior=X, lr=0.1),
    "a data set": TensorDataset(X, Y),
    "packed": pack_padded_sequence(torch.ones(3, 2, 1), [3, 2]).data,
    "doubles and bytes": {"d": X.double(), "b": Y.byte(), "h": X.half(), "c": X > 1},
    "a graph's": {"x": X, "edge_index": Y, "edge_weight": Y},
    "integers as keys": {0: X, 1: Y},
}


@pytest.mark.parametrize("kind", DATA)
@pytest.mark.parametrize("location", ["the device", "cuda", "cuda:1", {"cuda:0": "cuda:1"}])
def test_data_goes_where_map_location_says(
    device: torch.device, tmp_path: Path, kind: str, location: Any
) -> None:
    torch.save(DATA[kind], tmp_path / "data.pt")
    where = device if location == "the device" else location
    loaded = xla.load(tmp_path / "data.pt", map_location=where, weights_only=False)
    held = loaded.tensors if isinstance(loaded, TensorDataset) else loaded
    before = DATA[kind].tensors if isinstance(DATA[kind], TensorDataset) else DATA[kind]
    assert type(loaded) is type(DATA[kind])
    found = list(tensors_in(held))
    assert found
    assert {tensor.device for tensor in found} == {device}
    for tensor, original in zip(found, tensors_in(before), strict=True):
        assert tensor.dtype == original.dtype
        assert torch.equal(tensor.cpu(), original)


@pytest.mark.parametrize("kind", DATA)
@pytest.mark.parametrize("location", ["cpu", None, torch.device("cpu"), lambda storage, _: storage])
def test_data_stays_where_the_cpu_is_said(
    device: torch.device, tmp_path: Path, kind: str, location: Any
) -> None:
    torch.save(DATA[kind], tmp_path / "data.pt")
    loaded = xla.load(tmp_path / "data.pt", map_location=location, weights_only=False)
    held = loaded.tensors if isinstance(loaded, TensorDataset) else loaded
    assert {tensor.device.type for tensor in tensors_in(held)} == {"cpu"}


def _model() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.LSTM(2, 2), nn.MultiheadAttention(2, 1)
    )


def _optimizer(kind: type[torch.optim.Optimizer] = torch.optim.AdamW) -> torch.optim.Optimizer:
    model = nn.Linear(2, 2)
    optimizer = kind(model.parameters(), lr=0.1)  # type: ignore[call-arg]
    model(torch.ones(3, 2)).sum().backward()
    optimizer.step()
    return optimizer


# Made in the tests: a backward pass before the device is there breaks torch_xla's.
STATES: dict[str, Callable[[], Any]] = {
    "of a model": lambda: _model().state_dict(),
    "copied": lambda: dict(_model().state_dict()),
    "of one layer": lambda: dict(nn.Linear(2, 2).state_dict()),
    "of recurrent layers": lambda: dict(nn.LSTM(2, 2, bidirectional=True).state_dict()),
    "of attention": lambda: dict(nn.MultiheadAttention(2, 1).state_dict()),
    "of a wrapper": lambda: {
        f"module.{name}": value for name, value in _model().state_dict().items()
    },
    "with more": lambda: {**_model().state_dict(), "net.epoch": torch.tensor(3)},
    "of weight norm": lambda: dict(
        nn.utils.parametrizations.weight_norm(nn.Linear(2, 2)).state_dict()
    ),
    "of an average": lambda: torch.optim.swa_utils.AveragedModel(_model()).state_dict(),
    "of Adam": lambda: _optimizer().state_dict(),
    "of SGD": lambda: _optimizer(torch.optim.SGD).state_dict(),
}


@pytest.mark.parametrize("kind", STATES)
@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("weights_only", [True, False])
def test_states_stay_on_the_cpu(
    device: torch.device, tmp_path: Path, kind: str, inside: bool, weights_only: bool
) -> None:
    made = STATES[kind]()
    torch.save({"it": made, "images": X} if inside else made, tmp_path / "s.pt")
    loaded = xla.load(tmp_path / "s.pt", map_location=device, weights_only=weights_only)
    state = loaded["it"] if inside else loaded
    assert {tensor.device.type for tensor in tensors_in(state)} <= {"cpu"}
    if inside:
        assert loaded["images"].device == device


def test_parameters_and_leaves_stay_leaves(device: torch.device, tmp_path: Path) -> None:
    saved = {"p": nn.Parameter(X), "prompt": X.clone().requires_grad_()}
    torch.save(saved, tmp_path / "p.pt")
    loaded = xla.load(tmp_path / "p.pt", map_location=device)
    assert isinstance(loaded["p"], nn.Parameter)
    assert all(t.is_leaf and t.requires_grad and t.device == device for t in loaded.values())


def test_states_of_generators_stay(device: torch.device, tmp_path: Path) -> None:
    states = {
        "rng": torch.get_rng_state(),
        "random_state": torch.get_rng_state(),
        "generator": torch.Generator().get_state(),
        "cuda_rng": [torch.get_rng_state()],
        "random_images": X,
    }
    torch.save(states, tmp_path / "r.pt")
    loaded = xla.load(tmp_path / "r.pt", map_location=device)
    assert loaded.pop("random_images").device == device
    assert {tensor.device.type for tensor in tensors_in(loaded)} == {"cpu"}
    torch.set_rng_state(loaded["rng"])
    torch.Generator().set_state(loaded["generator"])


def test_whole_modules_and_optimizers_go_together(device: torch.device, tmp_path: Path) -> None:
    model = Net()
    optimizer = torch.optim.Adam(model.parameters())
    model(X).sum().backward()
    optimizer.step()
    torch.save({"optimizer": optimizer, "model": model}, tmp_path / "m.pt")
    for location in (device, None):
        loaded = xla.load(tmp_path / "m.pt", map_location=location, weights_only=False)
        net, steps = loaded["model"], loaded["optimizer"]
        assert net.scale.device == device
        held = [p for group in steps.param_groups for p in group["params"]]
        assert [id(p) for p in held] == [id(p) for p in net.parameters()]
        if location is not None:
            net(X.to(device)).sum().backward()
            xla.optimizer_step(steps)
            assert all(torch.isfinite(p).all() for p in net.parameters())
            assert {s["step"].device.type for s in steps.state.values()} == {"cpu"}


def test_sparse_tensors_stay_and_it_is_said(device: torch.device, tmp_path: Path) -> None:
    torch.save({"adj": torch.eye(3).to_sparse(), "x": X}, tmp_path / "g.pt")
    with pytest.warns(UserWarning, match="no sparse tensors"):
        loaded = xla.load(tmp_path / "g.pt", map_location=device)
    assert loaded["adj"].to_dense().equal(torch.eye(3))
    assert loaded["x"].device == device


def test_training_on_data_of_a_file(device: torch.device, tmp_path: Path) -> None:
    """Batch norm, an index and a loss: all fail on the CPU's tensors."""
    torch.save({"images": X, "labels": Y, "weight": torch.ones(3)}, tmp_path / "d.pt")
    data = xla.load(tmp_path / "d.pt", map_location="cuda")
    model = nn.Sequential(nn.BatchNorm1d(2), nn.Linear(2, 3)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    index = torch.tensor([0, 2], device=device)
    loss = nn.CrossEntropyLoss(data["weight"])(model(data["images"][index]), data["labels"][index])
    loss.backward()
    xla.optimizer_step(optimizer)
    assert torch.isfinite(loss.detach())
