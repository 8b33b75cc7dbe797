"""What a mask selects: assignments, sums and means."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from xla_migrate import runtime as xla

from .compiling import compiles


def _assigned(x: torch.Tensor, mask: torch.Tensor, value: Any) -> torch.Tensor:
    """What torch does on the host; a tensor gives its elements under the mask."""
    x = x.cpu().clone()
    given = value.cpu() if isinstance(value, torch.Tensor) else value
    x[mask.cpu()] = given[mask.cpu()] if isinstance(value, torch.Tensor) and value.dim() else given
    return x


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool])
@pytest.mark.parametrize("rows", [True, False])
@pytest.mark.parametrize("value", [0, 0.5, -1, float("inf"), torch.tensor(2.0), "other"])
def test_assign_is_torchs(device: torch.device, dtype: torch.dtype, rows: bool, value: Any) -> None:
    if value == float("inf") and not dtype.is_floating_point:
        pytest.skip("no integer")
    x = torch.randn(4, 3).to(dtype).to(device)
    mask = torch.tensor([True, False, True, False]).to(device)
    if not rows:
        mask = torch.rand(4, 3).to(device) > 0.5
    other = torch.randn(4, 3).to(dtype).to(device) if isinstance(value, str) else value
    expected = _assigned(x, mask, other)
    xla.assign(x, mask, other)
    assert torch.equal(x.cpu(), expected)


def test_assign_in_an_empty_batch(device: torch.device) -> None:
    x, mask = torch.zeros(0, 3, device=device), torch.zeros(0, dtype=torch.bool, device=device)
    xla.assign(x, mask, torch.ones(0, 3, device=device))
    xla.assign(x, mask, 1.0)
    assert x.shape == (0, 3)


def test_assign_through_views_and_gradients(device: torch.device) -> None:
    def grads(assign: Callable[..., None], where: torch.device) -> list[Any]:
        x = torch.arange(6.0).view(2, 3).to(where).requires_grad_()
        y = torch.ones(2, 3).to(where).requires_grad_()
        z = x * 2
        assign(z[:, 1:], z[:, 1:] > 3, (y * 3)[:, 1:])
        (z * z).sum().backward()
        assert x.grad is not None
        assert y.grad is not None
        return [z.tolist(), x.grad.tolist(), y.grad.tolist()]

    def plainly(x: torch.Tensor, mask: torch.Tensor, value: torch.Tensor) -> None:
        x[mask] = value[mask]

    assert grads(xla.assign, device) == grads(plainly, torch.device("cpu"))


def test_assign_with_other_indices_is_an_assignment(device: torch.device) -> None:
    x = torch.zeros(4, device=device)
    xla.assign(x, torch.tensor([0, 2], device=device), torch.arange(4.0, device=device))
    assert x.tolist() == [0, 0, 2, 0]
    rows = np.zeros(3)
    xla.assign(rows, np.array([True, False, True]), 1)  # type: ignore[arg-type]
    assert rows.tolist() == [1, 0, 1]


MASKED = {
    "all dimensions": (torch.arange(12.0).view(4, 3), torch.arange(12).view(4, 3) % 5 > 1, False),
    "first dimensions": (torch.arange(12.0).view(4, 3), torch.tensor([True, False, True, True]), False),
    "broadcast": (torch.arange(12.0).view(4, 3), torch.tensor([True, False, True]), True),
    "broadcast values": (torch.arange(3.0), torch.arange(12).view(4, 3) % 5 > 1, True),
    "nothing": (torch.arange(3.0), torch.zeros(3, dtype=torch.bool), False),
    "half precision": (torch.full((4096,), 16.0).half(), torch.arange(4096) > 4, False),
    "no number": (torch.tensor([1.0, float("nan"), 3.0]), torch.tensor([True, False, True]), False),
}  # fmt: skip


@pytest.mark.parametrize("name", MASKED)
@pytest.mark.parametrize("function", ["sum", "mean"])
def test_masked_reductions_are_torchs(name: str, function: str, device: torch.device) -> None:
    x, mask, broadcast = MASKED[name]

    def reduced(where: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
        leaf = x.to(where).clone().requires_grad_()
        call = getattr(xla, f"masked_{function}")
        found = call(leaf * 1, mask.to(where), broadcast=broadcast)
        found.backward()
        assert leaf.grad is not None
        return found.detach().cpu(), leaf.grad.cpu()

    torch.testing.assert_close(reduced(device), reduced(torch.device("cpu")), equal_nan=True)


COMPARED = {
    "one shape": ((4, 3), (4, 3), (4, 3), False),
    "first dimensions": ((4, 3), (4, 3), (4,), False),
    "broadcast rows": ((4, 3), (4, 1), (4,), False),
    "each with each": ((4, 1), (4,), (4,), False),
    "each with each of two dimensions": ((4, 4, 1), (4, 4), (4, 4), False),
    "integers as indices": ((4, 3), (4, 3), None, False),
    "masked_select": ((4, 3), (4, 3), (3,), True),
    "masked_select of one row": ((1, 3), (3,), (3,), True),
}


@pytest.mark.parametrize("name", COMPARED)
def test_comparisons_under_a_mask_are_torchs(name: str, device: torch.device) -> None:
    *shapes, of_mask, broadcast = COMPARED[name]
    one, other = (torch.randint(0, 3, shape) for shape in shapes)
    mask = torch.tensor([0, 2])
    if of_mask is not None:
        mask = torch.arange(math.prod(of_mask)).reshape(of_mask) % 3 != 1
    chosen = [x.masked_select(mask) if broadcast else x[mask] for x in (one, other)]
    expected = chosen[0] == chosen[1]
    operands = [x.to(device) for x in (one, other)]
    options = {"mask": mask.to(device), "broadcast": broadcast}
    assert xla.masked_count(torch.eq, *operands, **options).item() == expected.sum().item()
    share = xla.masked_share(torch.eq, *operands, **options)
    torch.testing.assert_close(share.cpu(), expected.float().mean())


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int32, torch.int64])
def test_masked_sums_of_integers_have_torchs_type(dtype: torch.dtype, device: torch.device) -> None:
    x, mask = torch.tensor([200, 1, 100]).to(dtype), torch.tensor([True, False, True])
    found = xla.masked_sum(x.to(device), mask.to(device))
    assert found.dtype == x[mask].sum().dtype
    assert found.item() == x[mask].sum().item()


def test_other_indices_select_as_in_torch(device: torch.device) -> None:
    x = torch.arange(4.0, device=device)
    assert xla.masked_sum(x, torch.tensor([1, 3], device=device)).item() == 4
    assert xla.masked_sum(np.ones(3), np.array([True, False, True])) == 2  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match="type"):
        xla.masked_mean(x.long(), x > 1)
    with pytest.raises(RuntimeError, match="shape of the mask"):
        xla.masked_sum(x, torch.ones(3, dtype=torch.bool, device=device)).item()


def test_masked_reductions_read_nothing_and_compile_once(device: torch.device) -> None:
    x = torch.arange(12.0).to(device)

    def step(limit: float) -> None:
        is_large = x > torch.tensor(limit).to(device)
        kept.append(xla.masked_mean(x, is_large) + xla.masked_sum(x, is_large))
        xla.mark_step()

    kept: list[torch.Tensor] = []
    for limit in (1.0, 2.0):
        step(limit)
    xla.flush()
    before = xla.metrics()
    for limit in (5.0, 8.0, 3.0):
        step(limit)
    after = xla.metrics()
    assert after["compiles"] == before["compiles"]
    assert after["host_reads"] == before["host_reads"]
    assert kept[-2].item() == 30 + 10


def test_facts_3_22_and_3_23_assign_reads_nothing_and_compiles_once(device: torch.device) -> None:
    x = torch.arange(12.0).to(device)
    limits = torch.arange(12.0).to(device)

    def stored(start: int) -> torch.Tensor:
        y, mask = x * 1, x > xla.narrow(limits, 0, start, 1)
        y[mask] = x[mask]
        return y

    def assigned(start: int) -> torch.Tensor:
        y = x * 1
        xla.assign(y, x > xla.narrow(limits, 0, start, 1), x)
        return y

    assert compiles(stored) >= 6
    assert compiles(assigned) == 1
