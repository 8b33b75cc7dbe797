"""Faults planted in nested modules, forward and backward: the module at fault is reported."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from xla_migrate.verify.judge.details import Details
from xla_migrate.verify.recordings.first_wrong_module import WrongModule, first_wrong_module
from xla_migrate.verify.recordings.optimizer_step import gradients

from .detailed import details_of, scaled

D = 16


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(D, D) for _ in range(4))
        self.scale = 0.5
        self.scored: Callable[[Any], Any] = lambda scores: scores
        self.weighed: Callable[[Any], Any] = lambda weights: weights

    def forward(self, x: Any) -> Any:
        q, k, v = (one(x).unflatten(2, (4, 4)).transpose(1, 2) for one in (self.q, self.k, self.v))
        weights = self.weighed(self.scored(q @ k.transpose(2, 3) * self.scale).softmax(-1))
        return self.o((weights @ v).transpose(1, 2).flatten(2))


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(D), nn.LayerNorm(D)
        self.attention = Attention()
        self.mlp = nn.Sequential(nn.Linear(D, 2 * D), nn.GELU(), nn.Linear(2 * D, D))
        self.skip: Callable[[Any], Any] = lambda x: x

    def forward(self, x: Any) -> Any:
        x = self.skip(x) + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Stem(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.bn = nn.Conv1d(D, D, 3, padding=1), nn.BatchNorm1d(D)
        self.act = nn.ReLU(inplace=True)

    def forward(self, x: Any) -> Any:
        return self.act(self.bn(self.conv(x.transpose(1, 2)))).transpose(1, 2)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed, self.stem = nn.Embedding(50, D), Stem()
        self.layers = nn.ModuleList(Layer() for _ in range(3))
        self.head = nn.Linear(D, 5)
        self.pool: Callable[[Any], Any] = lambda x: x.mean(1)

    def forward(self, tokens: Any) -> Any:
        x = self.stem(self.embed(tokens))
        for layer in self.layers:
            x = layer(x)
        return self.head(self.pool(x))


def after(change: Callable[[Any], Any]) -> Callable[[Any], None]:
    def plant(module: Any) -> None:
        forward = module.forward
        module.forward = lambda *args: change(forward(*args))

    return plant


def before(change: Callable[[Any], Any]) -> Callable[[Any], None]:
    def plant(module: Any) -> None:
        forward = module.forward
        module.forward = lambda x: forward(change(x))

    return plant


def setting(name: str, value: Any) -> Callable[[Any], None]:
    return lambda module: setattr(module, name, value)


def hooked(name: str, factor: float) -> Callable[[Any], None]:
    return lambda module: getattr(module, name).register_hook(lambda g: g * factor)


def first_row_lost(x: Any) -> Any:
    return torch.cat([torch.zeros_like(x[:1]), x[1:]])


def without_bias(module: Any) -> None:
    module.forward = lambda x: F.linear(x, module.weight)


def norm_behind_the_attention(layer: Any) -> None:
    def forward(x: Any) -> Any:
        x = layer.norm1(x + layer.attention(x))
        return x + layer.mlp(layer.norm2(x))

    layer.forward = forward


FORWARD: list[tuple[str, Callable[[Any], None]]] = [
    ("layers.1.mlp.1", setting("approximate", "tanh")),
    ("layers.2.mlp.1", after(lambda x: x.clamp_min(0))),
    ("layers.0.norm1", setting("eps", 1e-2)),
    ("layers.2.norm2", setting("eps", 1e-3)),
    ("layers.1.mlp.2", after(lambda x: x * 1.001)),
    ("layers.1.attention", setting("scale", 0.51)),
    ("layers.0.attention", setting("weighed", lambda w: w.flip(1))),
    ("layers.2.mlp.0", without_bias),
    ("layers.0.attention.q", after(torch.neg)),
    ("layers.1.attention.v", after(lambda x: x.roll(1, 1))),
    ("layers.1", setting("skip", lambda x: x * 0)),
    ("layers.2", setting("skip", lambda x: x * 1.01)),
    ("head", after(lambda x: x + 0.001)),
    ("embed", after(lambda x: x * D**0.5)),
    ("stem.conv", setting("padding_mode", "circular")),
    ("stem.bn", setting("eps", 1e-2)),
    ("stem.bn", lambda module: module.eval()),
    ("Net", setting("pool", lambda x: x.amax(1))),
    ("layers.0.mlp.0", after(first_row_lost)),
    ("layers.1.attention.o", after(lambda x: x.bfloat16().float())),
    ("layers.2.attention", setting("scored", lambda s: s.bfloat16().float())),
    ("layers.1", norm_behind_the_attention),
]
BACKWARD: list[tuple[str, Callable[[Any], None]]] = [
    ("layers.1.mlp.2", before(scaled(2.0))),
    ("layers.0.attention.k", before(lambda x: x.detach())),
    ("layers.2.mlp.0", hooked("weight", 0.5)),
    ("layers.0.norm1", hooked("weight", 0.0)),
    ("layers.2.mlp.1", before(scaled(-1.0))),
    ("layers.1.attention", setting("scored", scaled(1.01))),
    ("head", hooked("bias", 0.0)),
    ("embed", hooked("weight", 1.5)),
    ("layers.1", setting("skip", lambda x: x.detach())),
    ("stem.conv", hooked("weight", 0.9)),
    ("stem.act", before(scaled(1.1))),
]
FAULTS = [*FORWARD, *BACKWARD]
ENOUGH = 31  # of 33: the project's aim is 27 of 30


def step(folder: Path, plant: Callable[[nn.Module], None], clip: bool = False) -> Any:
    def train() -> Any:
        torch.manual_seed(1)
        model = Net()
        plant(model)
        tokens, labels = torch.randint(50, (8, 6)), torch.randint(5, (8,))

        def backward() -> None:
            F.cross_entropy(model(tokens), labels).backward()
            if clip:
                nn.utils.clip_grad_norm_(model.parameters(), 0.1)

        return model, torch.optim.SGD(model.parameters(), lr=0.1), backward

    return details_of(train, folder)


def found(reference: tuple[Details, list[str]], target: tuple[Details, list[str]]) -> Any:
    (a, names), (b, _) = reference, target
    return first_wrong_module(
        a.modules[0], b.modules[0], gradients(a.updates[0], names), gradients(b.updates[0], names)
    )


@pytest.mark.parametrize("clip", [False, True], ids=["", "gradients are clipped"])
def test_planted_faults_are_attributed_to_their_modules(tmp_path: Path, clip: bool) -> None:
    reference = step(tmp_path / "reference", lambda model: None, clip)
    assert found(reference, step(tmp_path / "same", lambda model: None, clip)) is None
    wrong = []
    for number, (name, plant) in enumerate(FAULTS):

        def planted(model: Any, name: str = name, plant: Any = plant) -> None:
            plant(model if name == "Net" else model.get_submodule(name))

        blamed = found(reference, step(tmp_path / str(number), planted, clip))
        if blamed is None or blamed.name != name:
            wrong.append((number, name, str(blamed)))
    assert len(FAULTS) - len(wrong) >= ENOUGH, wrong


def test_the_report_names_class_line_and_difference(tmp_path: Path) -> None:
    reference = step(tmp_path / "a", lambda model: None)
    target = step(tmp_path / "b", lambda m: FORWARD[0][1](m.get_submodule("layers.1.mlp.1")))
    blamed = found(reference, target)
    assert isinstance(blamed, WrongModule)
    assert (blamed.kind, blamed.what) == ("GELU", "output")
    line = Path(__file__).read_text().splitlines()[int(blamed.where.rpartition(":")[2]) - 1]
    assert "nn.GELU()" in line
    assert "inputs agree to 1e-07, output differs by" in str(blamed)


def test_a_loss_scale_is_no_fault(tmp_path: Path) -> None:
    def train() -> Any:
        torch.manual_seed(1)
        model, tokens = Net(), torch.randint(50, (8, 6))

        def backward() -> None:
            (model(tokens).square().mean() * 1024).backward()
            for p in model.parameters():
                p.grad = None if p.grad is None else p.grad / 1024

        return model, torch.optim.SGD(model.parameters(), lr=0.1), backward

    def plain() -> Any:
        torch.manual_seed(1)
        model, tokens = Net(), torch.randint(50, (8, 6))
        backward = lambda: model(tokens).square().mean().backward()  # noqa: E731
        return model, torch.optim.SGD(model.parameters(), lr=0.1), backward

    scaled_loss = details_of(train, tmp_path / "a")
    assert found(scaled_loss, details_of(plain, tmp_path / "b")) is None


def test_another_input_of_the_model_is_blamed_on_no_module(tmp_path: Path) -> None:
    reference = step(tmp_path / "a", lambda model: None)

    def shifted(model: Any) -> None:
        model.register_forward_pre_hook(lambda module, args: args)
        model.embed.weight.data.add_(0)

    def train() -> Any:
        torch.manual_seed(1)
        model = Net()
        tokens = torch.randint(50, (8, 6)).flip(0)
        backward = lambda: model(tokens).sum().backward()  # noqa: E731
        return model, torch.optim.SGD(model.parameters(), lr=0.1), backward

    blamed = found(reference, details_of(train, tmp_path / "b"))
    assert blamed.name == ""
    assert "an input of the model" in str(blamed)


def test_a_module_that_is_not_called_is_blamed_on_the_code_around_it(tmp_path: Path) -> None:
    reference = step(tmp_path / "a", lambda model: None)

    def dropped(model: Any) -> None:
        layer = model.layers[1]
        layer.forward = lambda x: x + layer.attention(x)

    blamed = found(reference, step(tmp_path / "b", dropped))
    assert blamed.name == "layers.1"
    assert "norm1 is missing" in str(blamed)


@pytest.mark.parametrize("name", ["", "2.mlp.1"])
def test_each_backward_pass_through_a_tensor_is_compared_with_itself(
    tmp_path: Path, name: str
) -> None:
    """A gradient penalty goes through the model twice, so its tensors get two gradients in a step."""

    def train(name: str) -> Any:
        torch.manual_seed(1)
        model = nn.Sequential(nn.Linear(D, D), nn.Tanh(), Layer(), nn.Linear(D, 1))
        x = torch.randn(8, 6, D, requires_grad=True)
        if name:
            setting("approximate", "tanh")(model.get_submodule(name))

        def backward() -> None:
            score = model(x).mean((1, 2))
            (gradient,) = torch.autograd.grad(score.sum(), x, create_graph=True)
            (score.square().mean() + gradient.square().sum()).backward()

        return model, torch.optim.SGD(model.parameters(), lr=0.1), backward

    reference = details_of(lambda: train(""), tmp_path / "a")
    blamed = found(reference, details_of(lambda: train(name), tmp_path / "b"))
    assert (blamed.name if blamed else "") == name
    assert bool(blamed) == bool(name)
