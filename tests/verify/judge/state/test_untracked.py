"""What no optimizer steps on has to move alike, and half precision is nothing that a migration adds."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from tests.verify.traces import run
from xla_migrate.verify.judge.compare import compare
from xla_migrate.verify.judge.judgement import Judgement
from xla_migrate.verify.judge.observed import ObservedRun
from xla_migrate.verify.judge.state import untracked
from xla_migrate.verify.judge.trace import Movement, read
from xla_migrate.verify.observe.numerics import precision
from xla_migrate.verify.observe.process import records
from xla_migrate.verify.observe.process.patching import Patches
from xla_migrate.verify.observe.training import names
from xla_migrate.verify.observe.training import untracked_state as observed_state

EMA = Movement(norm=-0.02, projection=0.3, size=4.0)


def moving(moved: Movement | None, side: str = "target", **changes: object) -> ObservedRun:
    known = {} if moved is None else {"Average.module.0.weight": moved}
    return run(side=side, untracked=known, **changes)


def state(moved: Movement | None) -> Judgement | None:
    found = untracked.judge(moving(EMA, "reference"), moving(moved), 1e-5)
    return next((v for v in found if v.name == "other state"), None)


def test_state_that_moved_alike_is_fine() -> None:
    found = state(Movement(-0.0201, 0.301, 4.0))
    assert found is not None
    assert (found.status, found.detail.split()[0]) == ("ok", "1")


@pytest.mark.parametrize("moved", [Movement(0.0, 0.0, 4.0), Movement(-0.04, 0.6, 4.0)])
def test_an_update_that_is_lost_or_doubled_is_named(moved: Movement) -> None:
    found = state(moved)
    assert found is not None
    assert found.status == "failed"
    assert found.detail.startswith("Average.module.0.weight, which no optimizer updates")


@pytest.mark.parametrize(
    ("variance", "status"),
    [(Movement(0.2001, 0.1, 2.0), "ok"), (Movement(0.0, 0.0, 2.0), "failed"), (None, "failed")],
)
def test_a_mean_that_follows_a_bias_before_the_norm(variance: Movement | None, status: str) -> None:
    """Rounding decides where Adam moves such a bias; the variance shows if the norm is updated."""
    moved = {"norm.running_mean": EMA, "norm.running_var": Movement(0.2, 0.1, 2.0)}
    other = {"norm.running_mean": Movement(-0.05, 0.9, 4.0)}
    other |= {} if variance is None else {"norm.running_var": variance}
    sides = run(side="reference", untracked=moved), run(side="target", untracked=other)
    found = [v for v in untracked.judge(*sides, 1e-5) if v.name == "other state"]
    assert [v.status for v in found] == [status]


def test_a_mean_that_is_never_updated_is_a_difference() -> None:
    variance = Movement(0.2, 0.1, 2.0)
    moved = {"norm.running_mean": EMA, "norm.running_var": variance}
    other = {"norm.running_mean": Movement(0.0, 0.0, 4.0), "norm.running_var": variance}
    sides = run(side="reference", untracked=moved), run(side="target", untracked=other)
    found = [v for v in untracked.judge(*sides, 1e-5) if v.name == "other state"]
    assert [v.status for v in found] == ["failed"]


def test_what_is_not_a_number_is_no_match() -> None:
    found = state(Movement(float("nan"), 0.3, 4.0))
    assert found is not None
    assert found.status == "failed"


def test_state_that_only_one_has_is_not_compared() -> None:
    assert state(None) is None


def test_what_does_not_move_is_alike() -> None:
    still = Movement(0.0, 0.0, 4.0)
    assert (
        untracked.judge(moving(still, "reference"), moving(Movement(1e-6, 0, 4.0)), 1e-5)[0].status
        == "ok"
    )


def test_masks_of_infinities_are_alike() -> None:
    nan = float("nan")
    mask = Movement(nan, nan, float("inf"))
    assert untracked.judge(moving(mask, "reference"), moving(mask), 1e-5)[0].status == "ok"


def test_half_precision_that_only_the_migrated_script_asks_for_fails() -> None:
    lowered = moving(None, lowered="train.py:12")
    found = compare(run(), lowered)
    assert [(v.name, v.where) for v in found.failed] == [("precision", "train.py:12")]
    both = compare(moving(None, "reference", lowered="train.py:9"), lowered)
    assert both.proven


class Watched(nn.Sequential):
    """Named as no other test's model is."""


@pytest.fixture
def recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr(observed_state, "_watched", [])
    monkeypatch.setattr(observed_state, "_begun", False)
    monkeypatch.setattr(records, "_file", None)
    monkeypatch.setattr(records, "_folder", tmp_path)
    yield tmp_path
    if records._file is not None:
        records._file.close()


def test_averages_and_statistics_are_watched(recorded: Path) -> None:
    model = Watched(nn.Linear(4, 3), nn.BatchNorm1d(3))
    average = torch.optim.swa_utils.AveragedModel(model)
    observed_state.begin({id(p) for p in model.parameters()})
    with torch.no_grad():
        average.module[0].weight.mul_(2)
    model(torch.ones(2, 4) * torch.tensor([[1.0], [2.0]]))
    observed_state.end()
    (path,) = recorded.glob("rank*.jsonl")
    trace = read(path)
    weight = trace.untracked["AveragedModel.0.weight"]
    assert weight.norm == pytest.approx(weight.size)
    assert trace.untracked["Watched.1.running_mean"].projection != 0
    assert "Watched.0.weight" not in trace.untracked
    assert not any(name.endswith(("running_var", "bias", "n_averaged")) for name in trace.untracked)
    del average


@pytest.mark.parametrize("kind", [dict, list])
def test_averages_that_are_no_module_are_watched(kind: type, recorded: Path) -> None:
    """Whether their tensors are written to or replaced."""
    model = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))
    average = {name: p.detach().clone() for name, p in model.named_parameters()}
    kept = average if kind is dict else list(average.values())
    observed_state.begin({id(p) for p in model.parameters()})
    for key in kept if kind is dict else range(len(kept)):
        kept[key] = kept[key] * 3
    observed_state.end()
    (path,) = recorded.glob("rank*.jsonl")
    of = f"a {kind.__name__}'s "
    found = read(
        path
    ).untracked.items()  # of models that other tests have left, too: these stay as they are
    moved = {name: m for name, m in found if name.startswith(of) and m.norm != 0}
    assert len(moved) == 2, "the matrices"
    first = moved[of + ("0.weight" if kind is dict else "0")]
    assert first.norm == pytest.approx(2 * model[0].weight.norm().item())


def test_dicts_of_other_classes_are_not_touched() -> None:
    class Lazy(dict[str, torch.Tensor]):
        def values(self) -> Any:
            raise RuntimeError("imports everything")

    model, lazy = Watched(nn.Linear(7, 5)), Lazy(w=torch.ones(5, 7))
    saved = model.state_dict()
    found = names.copies({id(p) for p in model.parameters()})
    assert [one for alike in found for one in alike if one is saved] == [saved]
    assert not [one for alike in found for one in alike if one is lazy]


@pytest.mark.parametrize(
    ("changed", "moved"), [((), [0.0]), ((0,), [1.0]), ((1,), [4.0]), ((0, 1), [])]
)
def test_of_copies_that_look_alike_the_one_that_changes_is_watched(
    changed: tuple[int, ...], moved: list[float], recorded: Path
) -> None:
    """A checkpoint that was loaded holds the weights, and the average, which training goes on with."""
    model = nn.Linear(9, 9)
    checkpoint = [{"of both": torch.eye(9) * value / 3} for value in (1.0, 2.0)]
    observed_state.begin({id(p) for p in model.parameters()})
    for which in changed:
        checkpoint[which]["of both"].mul_(which + 2)
    observed_state.end()
    traces = map(read, recorded.glob("rank*.jsonl"))
    found = [m for trace in traces for n, m in trace.untracked.items() if n == "a dict's of both"]
    assert [m.norm for m in found] == pytest.approx(moved)


def test_a_batch_norm_that_trains_where_it_did_not_is_told() -> None:
    name = "Net.bn.num_batches_tracked"
    theirs = run(untracked={name: Movement(18.0, 18.0, 0.0)})
    ours = run(side="target", untracked={name: Movement(24.0, 24.0, 0.0)})
    (found,) = untracked.judge(theirs, ours, 1e-5)
    assert found.status == "failed"
    assert found.detail.startswith("Net.bn has normalized 18 batches in training mode in the")
    assert untracked.judge(theirs, theirs, 1e-5)[0].status == "ok"


def test_a_cast_to_half_precision_is_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(precision, "lowered", [])
    patches = Patches()
    precision.install(patches, "float32")
    try:
        x = torch.ones(2).to(torch.float32).double().float()
        assert precision.lowered == []
        assert x.to(torch.bfloat16).dtype == torch.float32
    finally:
        patches.undo()
    assert len(precision.lowered) == 1


def test_what_a_model_and_its_average_call_the_same_is_left_out() -> None:
    model = Watched(nn.Linear(4, 3), nn.BatchNorm1d(3))
    average = copy.deepcopy(model)
    seen = [name for name, _ in names.of_models(without={id(p) for p in model.parameters()})]
    assert "Watched.0.weight" in seen  # the average's
    assert "Watched.1.running_mean" not in seen
    del average
