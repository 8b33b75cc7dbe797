"""Step marks: what a mark with nothing to launch does."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch_xla
from torch_xla.core import xla_model as xm

from xla_migrate import runtime as xla
from xla_migrate.runtime.torch_xla.marks import mark, uploads


@pytest.fixture
def cuts(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """One entry for each mark that torch_xla is asked for."""
    seen: list[int] = []
    marker = torch_xla._XLAC._xla_step_marker

    def counted(*args: object, **kwargs: object) -> None:
        seen.append(1)
        marker(*args, **kwargs)

    monkeypatch.setattr(torch_xla._XLAC, "_xla_step_marker", counted)
    xla.mark_step()
    seen.clear()
    return seen


@pytest.mark.parametrize(
    "record",
    [
        lambda x: x + 1,
        lambda x: x.add_(1),
        lambda x: x[0].fill_(2),
        lambda x: x.uniform_(),
        lambda x: torch.ones(2, device=x.device),
        lambda x: torch.nn.functional.dropout(x),
        lambda x: x.copy_(torch.ones(2, device=x.device)),
        lambda x: xm.all_gather(x).sum(),
    ],
)
def test_a_mark_is_one_where_something_is_recorded(
    cuts: list[int], device: torch.device, record: Callable[[torch.Tensor], object]
) -> None:
    x = torch.zeros(2).to(device)
    mark()
    before = len(cuts)
    kept = record(x)
    mark(unless_empty=True)
    assert len(cuts) == before + 1
    mark(unless_empty=True)
    assert len(cuts) == before + 1
    mark()
    assert len(cuts) == before + 2
    del kept


def test_what_waits_for_a_mark_is_done_at_an_empty_one(cuts: list[int]) -> None:
    done: list[str] = []
    xm.add_step_closure(lambda: done.append("closure"))
    mark(unless_empty=True)
    assert done == ["closure"]
    assert cuts == []


def test_the_loaders_marks_behind_the_scripts_own_are_none(
    cuts: list[int], device: torch.device
) -> None:
    weight = torch.zeros(3).to(device)
    xla.mark_step()
    before = len(cuts)
    for batch in xla.MpDeviceLoader([torch.ones(3)] * 4, device):
        weight.add_(batch)
        xla.mark_step()
    assert len(cuts) == before + 4
    assert weight.tolist() == [4.0, 4.0, 4.0]


def test_the_counters_may_be_cleared(cuts: list[int], device: torch.device) -> None:
    import torch_xla.debug.metrics as met

    x = torch.zeros(2).to(device)
    xla.mark_step()
    met.clear_all()
    before = len(cuts)
    x.add_(1)
    mark(unless_empty=True)
    assert len(cuts) == before + 1
    assert x.tolist() == [1.0, 1.0]


def test_random_numbers_do_not_depend_on_empty_marks(cuts: list[int], device: torch.device) -> None:
    def drawn(marks: int) -> list[float]:
        xla.manual_seed(3)
        found = []
        for _ in range(2):
            found += torch.rand(1, device=device).tolist()
            for _ in range(marks):
                mark(unless_empty=True)
        return found

    assert drawn(1) == drawn(4)


def test_an_upload_that_ends_behind_a_mark_hides_no_operation(
    cuts: list[int], device: torch.device
) -> None:
    with uploads.one():
        sent = xm.send_cpu_data_to_device([torch.ones(2)], device)[0]
        mark()
    before = len(cuts)
    ones = torch.ones(2, device=device)  # as many tensors as the upload made
    mark(unless_empty=True)
    assert len(cuts) == before + 1
    del sent, ones


def test_an_upload_that_fails_hides_no_operation(cuts: list[int], device: torch.device) -> None:
    mark()
    before = len(cuts)
    with pytest.raises(RuntimeError), uploads.one():
        raise RuntimeError
    assert uploads.begun == uploads.ended
    ones = torch.ones(2, device=device)
    mark(unless_empty=True)
    assert len(cuts) == before + 1
    del ones


def test_a_tensor_named_anew_is_no_reason_for_a_mark(cuts: list[int], device: torch.device) -> None:
    loss = torch.ones(2, device=device).sum()
    mark()
    assert loss.detach().item() == 2
    before = len(cuts)
    mark(unless_empty=True)
    assert len(cuts) == before
