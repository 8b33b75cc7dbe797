"""Slices at positions that change from step to step."""

from __future__ import annotations

import pytest
import torch

from xla_migrate import runtime as xla

from .compiling import compiles


def test_fact_3_31_a_slice_compiles_for_every_start(device: torch.device) -> None:
    x = torch.randn(3, 11).to(device)
    xla.mark_step()
    assert compiles(lambda start: x[:, start : start + 4] * 2) == 6


def test_fact_3_31_narrow_compiles_once(device: torch.device) -> None:
    x = torch.randn(3, 12).to(device)
    xla.mark_step()
    assert compiles(lambda start: xla.narrow(x, 1, start, 4) * 2) == 1
    starts = torch.arange(6).to(device)
    xla.mark_step()
    by_tensor = [xla.narrow(x, 1, starts[2], 4), xla.narrow(x, 1, torch.tensor(2), 4)]
    assert all(torch.equal(found.cpu(), x.cpu()[:, 2:6]) for found in by_tensor)


def test_narrow_without_a_length_is_the_part_at_its_start(device: torch.device) -> None:
    x = torch.randn(3, 12).to(device)
    xla.mark_step()
    assert compiles(lambda start: xla.narrow(x, 1, start) * 2) == 1
    parts = [
        (xla.narrow(x, 0, 2), x[2]),
        (xla.narrow(x, 0, -1), x[-1]),
        (xla.narrow(x, -1, 4), x[..., 4]),
    ]
    assert all(torch.equal(part.cpu(), expected.cpu()) for part, expected in parts)


def test_narrow_is_torchs(device: torch.device) -> None:
    x = torch.randn(4, 6).to(device)
    for dim, start, length in ((0, 0, 4), (0, 3, 1), (1, 1, 5), (-1, -2, 2), (1, 6, 0), (0, 2, 0)):
        expected = torch.narrow(x.cpu(), dim, start, length)
        assert torch.equal(xla.narrow(x, dim, start, length).cpu(), expected)


@pytest.mark.parametrize(("start", "length"), [(0, 7), (5, 2), (7, 0), (-7, 1), (-1, 2), (0, -1)])
def test_narrow_outside_is_refused_not_clamped(
    device: torch.device, start: int, length: int
) -> None:
    with pytest.raises((IndexError, RuntimeError)):
        torch.narrow(torch.zeros(4, 6), 1, start, length)
    with pytest.raises(IndexError, match="size 6"):
        xla.narrow(torch.zeros(4, 6, device=device), 1, start, length)


def test_gradients_flow_through_narrow(device: torch.device) -> None:
    x = torch.ones(2, 6, device=device, requires_grad=True)
    xla.narrow(x, 1, 2, 3).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [[0, 0, 1, 1, 1, 0]] * 2


def test_eager_narrow_is_a_view(eager: None) -> None:
    x = torch.zeros(4)
    xla.narrow(x, 0, 1, 2).fill_(1)
    assert x.tolist() == [0, 1, 1, 0]


def test_fact_3_31_put_compiles_once(device: torch.device) -> None:
    x = torch.zeros(3, 12).to(device)
    xla.mark_step()

    def stored(start: int) -> torch.Tensor:
        x[:, start] = 1.0
        return x

    def put(start: int) -> torch.Tensor:
        xla.put(x, 1, start, 2.0)
        return x

    assert compiles(stored) == 6
    assert compiles(put) == 1


@pytest.mark.parametrize(
    ("dim", "start", "length", "shape"),
    [
        (0, 2, None, (6,)),
        (0, -1, None, ()),
        (1, 5, None, (4,)),
        (0, 1, 2, (2, 6)),
        (-1, 2, 3, (4, 3)),
        (1, 2, 3, (3,)),
        (1, 0, 6, ()),
    ],
)
def test_put_is_an_assignment(
    device: torch.device, dim: int, start: int, length: int | None, shape: tuple[int, ...]
) -> None:
    value = torch.randn(shape)
    expected, x = torch.zeros(4, 6), torch.zeros(4, 6).to(device)
    where = start if length is None else slice(start, start + length)
    expected[(slice(None), where) if dim else where] = value
    xla.put(x, dim, start, value, length)
    xla.put(x, dim, start, value.to(device), length)
    assert torch.equal(x.cpu(), expected)


def test_put_keeps_the_dtype_and_takes_numbers(device: torch.device) -> None:
    x = torch.zeros(3, dtype=torch.long).to(device)
    xla.put(x, 0, torch.tensor(1), 2.0)
    xla.put(x, 0, torch.tensor(2).to(device), 3)
    assert x.tolist() == [0, 2, 3]


@pytest.mark.parametrize(("start", "length"), [(6, None), (-7, None), (4, 3)])
def test_put_outside_is_refused_not_dropped(
    device: torch.device, start: int, length: int | None
) -> None:
    with pytest.raises(IndexError, match=r"put: .* size 6"):
        xla.put(torch.zeros(6, device=device), 0, start, 1.0, length)


def test_gradients_flow_through_put(device: torch.device) -> None:
    weight = torch.ones(2, device=device, requires_grad=True)
    x = torch.zeros(3, 2, device=device)
    xla.put(x, 0, 1, weight * 3)
    x.sum().backward()
    assert weight.grad is not None
    assert weight.grad.tolist() == [3, 3]


def test_eager_put_is_an_assignment(eager: None) -> None:
    x = torch.zeros(2, 4)
    xla.put(x, -1, 1, torch.ones(2, 2), 2)
    xla.put(x, 0, 1, 5.0)
    assert x.tolist() == [[0, 1, 1, 0], [5, 5, 5, 5]]
