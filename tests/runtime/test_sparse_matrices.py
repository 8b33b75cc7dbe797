"""`xla.sparse`: products and gradients are those of torch's sparse tensors; what it cannot do raises."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from xla_migrate import runtime as xla
from xla_migrate.runtime.sparse_matrices import SparseMatrix

MADE = torch.Generator().manual_seed(0)
INDICES = torch.tensor([[0, 2, 1, 2, 2], [1, 0, 3, 3, 0]])  # (2, 0) twice
DENSE = torch.randn(4, 2, generator=MADE)


def matrix(values: torch.Tensor) -> torch.Tensor:
    return torch.sparse_coo_tensor(INDICES, values, (3, 4))


@pytest.mark.parametrize(
    "product",
    [
        lambda a, x: a @ x,
        lambda a, x: torch.spmm(a, x),
        lambda a, x: torch.mm(a, x),
        lambda a, x: a.mm(x),
        lambda a, x: a.matmul(x),
        lambda a, x: torch.matmul(a, x),
        lambda a, x: torch.sparse.mm(a, x),
        lambda a, x: torch.sparse.mm(a.t(), torch.sparse.mm(a, x)),
        lambda a, x: torch.spmm(a.transpose(0, 1), a @ x),
        lambda a, x: torch.mv(a, x[:, 0]),
        lambda a, x: a @ x[:, 0],
        lambda a, x: torch.addmm(x[:3], a, x),
        lambda a, x: torch.sparse.addmm(x[:3], a, x, beta=0.5, alpha=2.0),
        lambda a, x: (a * 0.5) @ x + (-(a / 3)) @ x,
        lambda a, x: a.detach() @ x,
        lambda a, x: a.to_dense() @ x,
        lambda a, x: a.coalesce().to_dense() if isinstance(a, torch.Tensor) else a.to_dense(),
    ],
)
def test_products_and_gradients(device: torch.device, product: Callable[..., Any]) -> None:
    def tried(place: Any) -> list[torch.Tensor]:
        values = torch.arange(1.0, 6.0).requires_grad_()
        x = DENSE.clone().requires_grad_()
        a = matrix(values)
        result = product(a if place == "cpu" else xla.sparse(a).to(place), x.to(place))
        weights = torch.arange(result.numel(), device=place).view(result.shape).cos()
        (result * weights).sum().backward()
        return [result.detach().cpu(), *(v.grad for v in (values, x) if v.grad is not None)]

    for ours, torchs in zip(tried(device), tried("cpu"), strict=True):
        torch.testing.assert_close(ours, torchs)


@pytest.mark.parametrize("layout", ["to_sparse_csr", "to_sparse_csc", "to_sparse_coo"])
def test_other_layouts(device: torch.device, layout: str) -> None:
    a = matrix(torch.arange(1.0, 6.0)).to_dense()
    ours = xla.sparse(getattr(a, layout)()).to(device)
    torch.testing.assert_close((ours @ DENSE.to(device)).cpu(), a @ DENSE)
    torch.testing.assert_close((DENSE.t().to(device) @ ours.t()).cpu(), DENSE.t() @ a.t())


def test_it_answers_what_a_sparse_tensor_does(device: torch.device) -> None:
    a = matrix(torch.ones(5)).coalesce()
    ours = xla.sparse(a).to(device)
    assert (ours.shape, ours.size(1), ours.dim(), len(ours)) == (a.shape, 4, 2, 3)
    assert (ours.dtype, ours.device, ours.is_sparse, ours._nnz()) == (a.dtype, device, True, 4)
    assert ours.coalesce() is ours
    torch.testing.assert_close(ours.indices().cpu(), a.indices())
    torch.testing.assert_close(ours.values().cpu(), a.values())
    assert ours.double().dtype is ours.to(torch.float64).dtype is torch.float64
    for back in (ours.cpu(), ours.to("cpu"), xla.sparse(a).to(torch.device("cpu"))):
        torch.testing.assert_close(back, a)
    assert isinstance(xla.sparse(a).to(torch.float64).to(device), SparseMatrix)


def test_halves_add_up_in_float32(device: torch.device) -> None:
    n = 4096
    row = torch.stack([torch.zeros(n, dtype=torch.long), torch.arange(n)])
    a = torch.sparse_coo_tensor(row, torch.ones(n), (1, n))
    x = torch.ones(n, 1, device=device)
    assert (xla.sparse(a.bfloat16()).to(device) @ x.bfloat16()).item() == n
    with torch.autocast("xla", dtype=torch.bfloat16):
        result = torch.spmm(xla.sparse(a).to(device), x)
    assert (result.dtype, result.item()) == (torch.bfloat16, n)


@pytest.mark.parametrize(
    ("use", "words"),
    [
        (lambda a, x: nn.functional.dropout(a), "dropout.*products with dense matrices"),
        (lambda a, x: torch.sparse.softmax(a, 1), "_sparse_softmax"),
        (lambda a, x: a + x, "unsupported operand|add"),
        (lambda a, x: x * a, "mul"),
        (lambda a, x: a @ a, "product of two sparse"),
        (lambda a, x: a.sum(), "has no `sum`.*to_dense"),
        (lambda a, x: a.coalesce(), "coalesce on the CPU"),
        (lambda a, x: a.values(), "coalesce on the CPU"),
        (lambda a, x: a @ x[None], "cannot be multiplied"),
        (lambda a, x: a @ x[:2], "cannot be multiplied"),
        (lambda a, x: a @ x.double(), "one dtype"),
        (lambda a, x: a[0], "subscriptable"),
        (lambda a, x: nn.Linear(4, 2)(a), "linear"),
    ],
)
def test_what_it_cannot_do_raises(
    device: torch.device, use: Callable[..., Any], words: str
) -> None:
    with pytest.raises(
        (NotImplementedError, AttributeError, TypeError, RuntimeError), match=f"(?s){words}"
    ):
        use(xla.sparse(matrix(torch.ones(5))).to(device), torch.ones(4, 4).to(device))


def test_what_it_does_not_take(device: torch.device) -> None:
    dense = torch.ones(2, 2)
    assert xla.sparse(dense) is dense
    assert xla.sparse(None) is None
    for other in (torch.ones(2, 2, 2).to_sparse(), torch.ones(2, 2).to_sparse(1)):
        with pytest.raises(NotImplementedError, match="only matrices"):
            xla.sparse(other)


def test_on_eager_devices_it_is_the_tensor(monkeypatch: pytest.MonkeyPatch, eager: None) -> None:
    monkeypatch.setenv("XLA_MIGRATE_BACKEND", "eager")
    a = matrix(torch.ones(5))
    assert xla.sparse(a) is a


def test_a_training_step_is_one_graph(device: torch.device) -> None:
    a = xla.sparse(matrix(torch.ones(5)).coalesce()).to(device)
    layer = nn.Linear(2, 2).to(device)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    x = DENSE.to(device)
    for step in range(4):
        if step == 2:
            before = xla.metrics()
        torch.spmm(a, layer(x)).square().sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        xla.mark_step()
    after = xla.metrics()
    assert after["compiles"] == before["compiles"]
    assert after["host_reads"] == before["host_reads"]
    assert after["fallbacks"] == before["fallbacks"]
