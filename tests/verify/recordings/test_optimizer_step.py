"""The optimizer's step, computed again from what was recorded: sound steps agree, faults are exact findings."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from xla_migrate.runtime.compat.apex import NovoGrad
from xla_migrate.runtime.compat.deepspeed_optimizers import BoundedLamb, FusedLion
from xla_migrate.verify.observe.training import options
from xla_migrate.verify.recordings.optimizer_step import judge

from .detailed import details_of

Make = Callable[..., torch.optim.Optimizer]
OURS: list[Make] = [NovoGrad, BoundedLamb, FusedLion]
TORCHS: list[Make] = [
    kind
    for kind in vars(torch.optim).values()
    if isinstance(kind, type)
    and issubclass(kind, torch.optim.Optimizer)
    and kind is not torch.optim.Optimizer
]
ALONE = [kind for kind in (*TORCHS, *OURS) if kind is not torch.optim.LBFGS]
NAMES = ["0.weight", "0.bias", "1.weight", "1.bias"]


def is_matrix_only(kind: Any) -> bool:
    return kind.__name__ == "Muon"


def trained(
    folder: Path, kind: Any, change: Callable[[Any], None] = lambda o: None, **arguments: Any
) -> tuple[Any, Any]:
    """Two steps of an optimizer: their updates, and the options of each."""
    used: list[Any] = []

    def train() -> Any:
        torch.manual_seed(1)
        if kind is torch.optim.SparseAdam:
            model: Any = nn.Sequential(nn.Embedding(60, 4, sparse=True))
            x: Any = torch.randint(60, (30,))
        else:
            bias = not is_matrix_only(kind)
            model = nn.Sequential(nn.Linear(6, 40, bias=bias), nn.Linear(40, 5, bias=bias))
            x = torch.randn(8, 6)
        optimizer = kind(model.parameters(), **{"lr": 0.05, **arguments})
        change(optimizer)

        def backward() -> None:
            model(x).square().sum().backward()
            used.append(options.of(optimizer))

        return model, optimizer, backward

    details, names = details_of(train, folder, steps=2)
    return details.updates, (used, names)


def judged(reference: Any, target: Any, step: int = 0, processes: int = 1) -> tuple[str, int]:
    (a, (theirs, names)), (b, (ours, _)) = reference, target
    return judge(a[step], b[step], theirs[step], ours[step], names, processes)


def inside_step(change: Callable[[Any], None]) -> Callable[[Any], None]:
    """Do something amid the step, which no option tells."""

    def plant(optimizer: Any) -> None:
        step = optimizer.step

        def stepping(*args: Any) -> Any:
            kept = [dict(group) for group in optimizer.param_groups]
            change(optimizer)
            out = step(*args)
            for group, before in zip(optimizer.param_groups, kept, strict=True):
                group.update(before)
            return out

        optimizer.step = stepping

    return plant


def without_decay(optimizer: Any) -> None:
    for group in optimizer.param_groups:
        group["weight_decay"] = 0.0


def faster(optimizer: Any) -> None:
    for group in optimizer.param_groups:
        group["lr"] = group["lr"] * 1.1


@pytest.mark.parametrize("step", [0, 1], ids=["first step", "with state"])
@pytest.mark.parametrize("kind", ALONE, ids=lambda kind: str(kind.__name__))
def test_a_sound_step_agrees(tmp_path: Path, kind: Any, step: int) -> None:
    reference, target = (trained(tmp_path / name, kind) for name in "ab")
    found, count = judged(reference, target, step)
    assert found == ""
    assert count >= 1


@pytest.mark.parametrize("kind", ALONE, ids=lambda kind: str(kind.__name__))
def test_another_rate_inside_the_step_is_found(tmp_path: Path, kind: Any) -> None:
    reference = trained(tmp_path / "a", kind)
    found, _ = judged(reference, trained(tmp_path / "b", kind, inside_step(faster)))
    assert "times as far" in found or "a different amount" in found


DECAYING = [kind for kind in ALONE if "weight_decay" in kind.__init__.__code__.co_varnames]


@pytest.mark.parametrize("kind", DECAYING, ids=lambda kind: str(kind.__name__))
def test_weight_decay_that_the_step_loses_is_found(tmp_path: Path, kind: Any) -> None:
    reference = trained(tmp_path / "a", kind, weight_decay=0.5)
    target = trained(tmp_path / "b", kind, inside_step(without_decay), weight_decay=0.5)
    # Decay that is part of the gradient leaves the sign alone, which is all that Adam's first step takes of it.
    found = judged(reference, target)[0] or judged(reference, target, 1)[0]
    assert "times as far" in found or "a different amount" in found


@pytest.mark.parametrize("kind", DECAYING, ids=lambda kind: str(kind.__name__))
def test_another_option_is_reported_with_both_values(tmp_path: Path, kind: Any) -> None:
    reference = trained(tmp_path / "a", kind, weight_decay=0.5)
    found, _ = judged(reference, trained(tmp_path / "b", kind, weight_decay=0.25))
    assert found == "the optimizer's weight_decay is 0.5 in the original, 0.25 here"


def test_a_step_that_calls_the_loss_again_is_not_judged_beyond_its_options(tmp_path: Path) -> None:
    def train() -> Any:
        torch.manual_seed(1)
        model = nn.Linear(3, 2)
        optimizer = torch.optim.LBFGS(model.parameters())
        step, x = optimizer.step, torch.randn(4, 3)

        def closure() -> Any:
            optimizer.zero_grad()
            loss = model(x).square().sum()
            loss.backward()
            return loss

        optimizer.step = lambda: step(closure)  # type: ignore[method-assign,assignment,misc]
        return model, optimizer, closure

    (a, names), (b, _) = (details_of(train, tmp_path / name) for name in "ab")
    assert judge(a.updates[0], b.updates[0], [{"lr": 1.0}], [{"lr": 1.0}], names) == ("", 0)
    found, _ = judge(a.updates[0], b.updates[0], [{"lr": 1.0}], [{"lr": 0.5}], names)
    assert found == "the optimizer's lr is 1 in the original, 0.5 here"
    in_float32 = (
        [{"lr": 0.1, "betas": [0.9, 0.999]}],
        [{"lr": 0.10000000149, "betas": [0.9, 0.999]}],
    )
    assert judge(a.updates[0], b.updates[0], *in_float32, names) == ("", 0)


def scaling(factor: float) -> Callable[[Any], None]:
    def plant(optimizer: Any) -> None:
        for group in optimizer.param_groups:
            for p in group["params"]:
                p.register_hook(lambda g: g * factor)

    return plant


@pytest.mark.parametrize(
    ("factor", "processes", "reason"),
    [
        (4.0, 4, "the average over 4 processes is missing"),
        (0.5, 2, "the average over 2 processes is taken twice, or clipping differs"),
        (3.0, 1, "the original may clip before the step, and this script does not"),
        (0.1, 1, "clipping, accumulation, or a loss scale"),
    ],
)
def test_gradients_times_a_factor_are_reported_with_the_likely_cause(
    tmp_path: Path, factor: float, processes: int, reason: str
) -> None:
    reference = trained(tmp_path / "a", torch.optim.SGD)
    target = trained(tmp_path / "b", torch.optim.SGD, scaling(factor))
    found, _ = judged(reference, target, 0, processes)
    assert f"every gradient is {factor:g} times the original's" in found
    assert reason in found


def test_a_class_of_another_package_is_not_imported(tmp_path: Path) -> None:
    updates, (used, names) = trained(tmp_path / "a", torch.optim.SGD)
    foreign = type(updates[0])("antigravity.SGD", updates[0].parameters)
    assert judge(foreign, foreign, used[0], used[0], names) == ("", 0)


def test_gradients_that_differ_by_more_than_a_factor_blame_no_optimizer(tmp_path: Path) -> None:
    def uneven(optimizer: Any) -> None:
        first = optimizer.param_groups[0]["params"][0]
        first.register_hook(lambda g: g * 2)

    reference = trained(tmp_path / "a", torch.optim.Adam)
    target = trained(tmp_path / "b", torch.optim.Adam, uneven)
    found, count = judged(reference, target)
    assert found == ""
    assert count == len(NAMES)
