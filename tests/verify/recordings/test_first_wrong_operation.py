"""Inside a module at fault, the first operation that differs is reported."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from xla_migrate.verify.observe.details import calls, modules, operations, suspect
from xla_migrate.verify.observe.plan import Suspect
from xla_migrate.verify.observe.process.patching import Patches
from xla_migrate.verify.recordings.first_wrong_module import WrongModule, first_wrong_module
from xla_migrate.verify.recordings.first_wrong_operation import StepDetails, first_wrong_operation

from .detailed import recorded, scaled

Compute = Callable[[Any], Any]
CALL = ("Sequential:1", 2)  # the block's second
OUTPUT_DIFFERS = WrongModule("1", "Block", "model.py:1", "output", 1e-7, 1e-2, CALL)


class Block(nn.Module):
    def __init__(self, compute: Compute) -> None:
        super().__init__()
        self.compute, self.linear = compute, nn.Linear(8, 8)

    def forward(self, x: Any) -> Any:
        return self.compute(self.linear(F.layer_norm(x, (8,))))


def hooked(x: Any, factor: float) -> Any:
    x.register_hook(lambda gradient: gradient * factor)
    return x


def step(
    folder: Path, compute: Compute, watch: suspect.Watch | None = None, loss: float = 1
) -> StepDetails:
    """Two calls of the block, and a backward pass through them.

    Args:
        folder: for the record.
        compute: what the block computes.
        watch: of one call; by default, the operations of all calls are recorded.
        loss: a factor.
    """
    inside = modules.Recorder() if watch is None else watch.inside
    recorder = operations.Recorder(inside) if watch is None else watch.recorder

    def train() -> None:
        torch.manual_seed(0)
        block = Block(compute)
        model = nn.Sequential(nn.Linear(4, 8), block, block)
        (model(torch.randn(3, 4)).square() * loss).sum().backward()

    def end() -> None:
        inside.step_over(0)
        recorder.step_over(0)

    def around(*_: Any) -> Any:
        return nullcontext() if calls.running else recorder

    found = recorded(
        train,
        folder,
        [inside.entered],
        [inside.left],
        end,
        around if watch is None else watch.around,
    )
    return StepDetails(found.modules[0], found.operations[0])


def watched(folder: Path, compute: Compute, *, is_given: bool, loss: float = 1) -> StepDetails:
    """The same, with a close look at the block's second call."""
    inside = modules.Recorder()
    asked = Suspect(*CALL, 0, str(folder), is_given)
    watch = suspect.Watch(inside, operations.Recorder(inside), asked)
    return step(folder / ("given" if is_given else "stored"), compute, watch, loss)


def compute(x: Any) -> Any:
    return torch.softmax(F.gelu(x) * 0.5 + x, -1)


def names(found: StepDetails) -> list[str]:
    return [call.name for call in found.operations.calls]


INSIDE = ["layer_norm", "linear", "gelu", "mul", "add", "softmax"]


def test_the_results_of_the_outermost_functions_are_recorded(tmp_path: Path) -> None:
    found = watched(tmp_path, compute, is_given=False)
    assert names(found) == INSIDE
    assert [call.takes for call in found.operations.calls] == [
        ["input"],
        [0, "weight", "bias"],
        [1],
        [2],
        [3, 1],
        [4],
    ]
    assert found.operations.backward == [5, 4, 3, 2, 1, 0]


def test_all_calls_of_a_recording_are_recorded(tmp_path: Path) -> None:
    found = step(tmp_path, compute)
    assert names(found) == ["linear", *INSIDE, *INSIDE]
    assert [call.call for call in found.operations.calls] == [1, 2, 3, *[2] * 4, 4, 5, *[4] * 4]


FORWARD: list[tuple[Compute, str]] = [
    (lambda x: torch.softmax(F.gelu(x) * 0.51 + x, -1), "first in `mul` ("),
    (lambda x: torch.softmax(F.relu(x) * 0.5 + x, -1), "the original calls `gelu` ("),
    (lambda x: torch.softmax(x * 0.5 + x, -1), "the migrated script calls no function"),
    (lambda x: torch.softmax(F.gelu(x, approximate="tanh") * 0.5 + x, 1), "first in `gelu` ("),
]
BACKWARD: list[tuple[Compute, str]] = [
    (
        lambda x: torch.softmax(F.gelu(scaled(2.0)(x)) * 0.5 + x, -1),
        "the gradient of the result of `linear` (",
    ),
    (
        lambda x: torch.softmax(scaled(1.01)(F.gelu(x)) * 0.5 + x, -1),
        "the gradient of the result of `gelu` (",
    ),
    (
        lambda x: torch.softmax(hooked(F.gelu(x), 1.01) * 0.5 + x, -1),
        "look at `gelu` (",
    ),
    (
        lambda x: torch.softmax(F.gelu(x).detach() * 0.5 + x, -1),
        "the migrated script passes it to `detach` (",
    ),
]


@pytest.mark.parametrize(("other", "report"), [*FORWARD, *BACKWARD])
@pytest.mark.parametrize("loss", [1, 1024], ids=["", "a loss scale"])
def test_a_planted_fault_is_found_without_the_original(
    tmp_path: Path, other: Compute, report: str, loss: float
) -> None:
    reference = step(tmp_path / "recorded", compute)
    first = step(tmp_path / "first", other, loss=loss)
    wrong = first_wrong_module(reference.modules, first.modules)
    assert wrong is not None
    inside = modules.Recorder()
    watch = suspect.Watch(
        inside, operations.Recorder(inside), Suspect(*wrong.call, 0, "", is_given=False)
    )
    target = step(tmp_path / "target", other, watch, loss)
    found = first_wrong_operation(reference, target, wrong, is_given=False)
    assert report in found


@pytest.mark.parametrize(("other", "report"), FORWARD)
def test_a_planted_fault_is_confirmed_with_the_original(
    tmp_path: Path, other: Compute, report: str
) -> None:
    reference = watched(tmp_path, compute, is_given=False)
    target = watched(tmp_path, other, is_given=True)
    found = first_wrong_operation(reference, target, OUTPUT_DIFFERS, is_given=True)
    assert found.startswith("confirmed with the original's input: ")
    assert report in found


def test_a_module_that_computes_the_same_is_not_confirmed(tmp_path: Path) -> None:
    reference = watched(tmp_path, compute, is_given=False)
    target = watched(tmp_path, lambda x: compute(x.double()).float(), is_given=True)
    found = first_wrong_operation(reference, target, OUTPUT_DIFFERS, is_given=True)
    assert found.startswith("given the original's input, its output agrees")


def test_a_run_without_operations_is_named(tmp_path: Path) -> None:
    known = watched(tmp_path, compute, is_given=False)
    empty = known._replace(operations=replace(known.operations, calls=[], results=[]))
    for reference, target, whose in (
        (empty, known, "the original"),
        (known, empty, "the migrated script"),
    ):
        found = first_wrong_operation(reference, target, OUTPUT_DIFFERS, is_given=False)
        assert found == f"no operation inside it was recorded in {whose}"


def test_operations_that_agree_are_no_cause(tmp_path: Path) -> None:
    known = watched(tmp_path, compute, is_given=False)
    found = first_wrong_operation(known, known, OUTPUT_DIFFERS, is_given=False)
    assert found == "the operations inside it that both call agree"


def test_compiled_scripts_are_not_looked_into(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    patches = Patches()
    monkeypatch.setattr(operations, "_compiled", [])
    monkeypatch.setattr(torch, "compile", lambda model: model)
    operations.note_compilation(patches)
    assert operations.can_record()
    torch.compile(nn.Linear(1, 1))
    patches.undo()
    assert not operations.can_record()
