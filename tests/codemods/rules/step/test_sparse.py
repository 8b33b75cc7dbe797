"""Sparse tensors: on the device there are none, on the host they are no finding."""

from __future__ import annotations

import pytest

from xla_codemods.engine import check

from ...helpers import findings

HEAD = "import torch\ndevice = torch.device('cuda')\ndef f(table, x, n):\n    h = torch.from_numpy(table)\n"


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("s = h.to_sparse()\n    return s @ x", False),
        ("s = torch.sparse_coo_tensor(table, h, (n, n))\n    s = torch.eye(n) + s\n    return s.to(device)", False),
        ("s = h.to_sparse()\n    return s.to(device)", True),
        ("s = h.to_sparse()\n    return s", True),
        ("s = h.to_sparse()\n    x = s @ x\n    return s", True),
        ("return h.to_sparse().to(device)", True),
        ("s = x.to_sparse()\n    return s @ x", True),  # wherever `x` is
        ("s = h.to(device).to_sparse()\n    return s @ x", True),
        ("s = torch.sparse_coo_tensor(table, h, (n, n), device=device)\n    return s @ x", True),
    ],
)  # fmt: skip
def test_sparse_tensors(body: str, found: bool) -> None:
    codes = [code for _, code in findings(f"{HEAD}    {body}\n")]
    assert ("XLA513" in codes) is found


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("adj = load().cuda()\n    return torch.spmm(adj, x)", True),
        ("adj = load().to(device)\n    return adj.coalesce()", True),
        ("adj = adj0.cuda()\n    y = adj._indices()\n    return y", True),
        ("adj = load()\n    adj = adj.to(device)\n    return adj.crow_indices()", True),
        ("x = x.cuda()\n    return torch.spmm(load(), x)", False),
        ("adj = load().to(torch.float32)\n    return torch.mm(adj, x)", False),
        ("adj = load().cuda()\n    return adj.indices", False),
        ("return x.cuda().coalesce_all(), x._values", False),
    ],
)
def test_a_move_of_what_its_use_shows_to_be_sparse(body: str, found: bool) -> None:
    assert ("XLA513" in [code for _, code in findings(f"{HEAD}    {body}\n")]) is found


@pytest.mark.parametrize(
    ("test", "severity"),
    [
        ("a.is_sparse", "info"),
        ("a.is_sparse or b.is_sparse", "info"),
        ("a.is_sparse and flag", "info"),
        ("a.is_sparse or flag", "error"),
        ("not a.is_sparse", "error"),
        ("flag", "error"),
    ],
)
def test_what_is_reached_with_sparse_tensors_alone_is_a_note(test: str, severity: str) -> None:
    source = f"import torch\ndef f(a, b, flag):\n    b.cuda()\n    if {test}:\n        return torch.sparse.sum(a * b, dim=1)\n"
    assert [f.severity for f in check(source.encode()) if f.code == "XLA513"] == [severity]


@pytest.mark.parametrize(
    ("default", "given", "found"),
    [
        ("=True", "", True),
        ("=True", ", not args.dense", True),
        ("", ", True", True),
        ("", ", sparse=True", True),
        ("=False", ", args.sparse", False),
        ("=False", "", False),
    ],
)
def test_embeddings_whose_gradients_an_argument_chooses(
    default: str, given: str, found: bool
) -> None:
    source = (
        f"import torch\ndef make(n, sparse{default}):\n    return torch.nn.Embedding(n, 4, sparse=sparse)\n"
        f"def main(args):\n    return make(9{given}).cuda()\n"
    )
    assert ("XLA513" in {code for _, code in findings(source)}) is found


def test_products_of_what_the_file_moves_are_no_second_finding() -> None:
    source = """
import torch

def load(edges, values, n, device):
    return torch.sparse_coo_tensor(edges, values, (n, n)).coalesce().to(device)

class Layer(torch.nn.Module):
    def forward(self, x, adj):
        return torch.sparse.mm(adj, x)

device = torch.device("cuda")
adj = load(edges, values, 4, device)
model = Layer().to(device)
for _ in range(3):
    model(torch.ones(4, 2, device=device), adj).sum().backward()
"""
    found = [f for f in check(source.encode()) if f.code == "XLA513"]
    assert [(f.line, bool(f.edits)) for f in found] == [(5, True)]
