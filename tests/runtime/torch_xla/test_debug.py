"""XLA_MIGRATE_DEBUG=1 sees what XLA lets pass."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from xla_migrate import runtime as xla
from xla_migrate.runtime.torch_xla import backend as torch_xla_backend
from xla_migrate.runtime.torch_xla import debug


@pytest.fixture
def watched(device: torch.device) -> Iterator[torch.device]:
    with debug._Watch():
        yield device


def test_fact_3_5_xla_clamps_indices(device: torch.device) -> None:
    weight = torch.arange(4.0, device=device)[:, None]
    assert F.embedding(torch.tensor([7], device=device), weight).item() == 3
    logits = torch.zeros(2, 3, device=device)
    assert F.cross_entropy(logits, torch.tensor([0, 9], device=device)).isfinite()


def _out_of_range(device: torch.device) -> dict[str, object]:
    seven = torch.tensor([7], device=device)
    table = torch.zeros(4, 2, device=device)
    return {
        "embedding": lambda: nn.Embedding(4, 2).to(device)(seven),
        "cross_entropy": lambda: nn.CrossEntropyLoss()(table, seven.repeat(4)),
        "nll_loss": lambda: F.nll_loss(table, seven.repeat(4)),
        "gather": lambda: table.gather(0, seven[None]),
        "index_select": lambda: torch.index_select(table, 1, seven),
        "getitem": lambda: table[seven],
        "second": lambda: table[:, seven],
        "negative": lambda: F.embedding(seven - 8, table),
        "negative label": lambda: F.cross_entropy(table, seven.repeat(4) - 8),
    }


@pytest.mark.parametrize("case", list(_out_of_range(torch.device("cpu"))))
def test_fact_3_5_an_index_out_of_range_is_raised_with_its_line(
    watched: torch.device, case: str
) -> None:
    call = _out_of_range(watched)[case]
    with pytest.raises(IndexError, match=rf"{__file__}:\d+: .*(7|-1) is out of range"):
        call()  # type: ignore[operator]


def test_fact_3_5_what_is_in_range_passes(watched: torch.device) -> None:
    device = watched
    table = torch.zeros(4, 2, device=device, requires_grad=True)
    ids = torch.tensor([0, 3], device=device)
    assert F.embedding(ids, table).shape == (2, 2)
    labels = torch.tensor([0, 1, -100, 1], device=device)
    F.cross_entropy(table, labels).backward()
    F.cross_entropy(table, torch.rand(4, 2).to(device))
    assert table[ids - 4].shape == (2, 2), "negative positions count from the end"
    assert table[..., ids[:1]].shape == (4, 1)
    assert table[table.detach() == 0].shape == (8,)
    assert table[None].shape == (1, 4, 2)
    assert F.embedding(ids[:0], table).shape == (0, 2)


def test_fact_3_4_xla_takes_cpu_operands(device: torch.device) -> None:
    assert (torch.ones(2, device=device) + torch.ones(2)).device == device
    assert torch.ones(2).add_(torch.ones(2, device=device)).device.type == "cpu"


def test_fact_3_4_a_cpu_operand_is_reported_with_its_line(watched: torch.device) -> None:
    on_xla, on_cpu = torch.ones(2, device=watched), torch.ones(2)
    for operation in (torch.mul, torch.Tensor.mul_):
        for operands in ((on_xla, on_cpu), (on_cpu, on_xla)):
            with pytest.warns(UserWarning, match="CPU tensor of shape") as caught:
                operation(*operands)
            assert caught[0].filename == __file__
    weight = torch.ones(3)
    logits, labels = torch.zeros(1, 3, device=watched), torch.zeros(1, device=watched).long()
    with pytest.warns(UserWarning, match="cross_entropy"):
        F.cross_entropy(logits, labels, weight=weight)


def test_fact_3_4_what_cuda_takes_too_is_not_reported(watched: torch.device) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        x = torch.ones(3, device=watched)
        x.copy_(torch.zeros(3))
        torch.ones(3).to(x)
        x[0] = torch.tensor(1.0)
        assert (x * torch.tensor(2.0)).device == watched
        assert x[torch.tensor([0, 2])].shape == (2,)
        assert x.cpu().sum() == 1
        nn.Linear(3, 3).to(watched)(x).sum().backward()


def test_the_environment_turns_it_on(device: torch.device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XLA_MIGRATE_DEBUG", "1")
    monkeypatch.setattr(torch_xla_backend, "_first_use", True)
    xla.xla_device()
    watching = debug._watching
    assert watching is not None
    try:
        with pytest.raises(IndexError):
            F.embedding(torch.tensor([9]).to(device), torch.zeros(4, 2, device=device))
        debug.watch()
        assert debug._watching is watching, "once"
    finally:
        watching.__exit__(None, None, None)  # type: ignore[no-untyped-call]
        monkeypatch.setattr(debug, "_watching", None)
