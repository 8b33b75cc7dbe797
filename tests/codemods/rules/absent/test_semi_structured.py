"""XLA919: calls that make 2:4 sparse tensors."""

from __future__ import annotations

from xla_codemods.engine import check


def test_a_function_that_is_passed_on_is_reported() -> None:
    source = (
        b"import torch\n\n"
        b"def compress(weights):\n"
        b"    return [*map(torch.sparse.to_sparse_semi_structured, weights)]\n"
    )
    assert [(finding.line, finding.code) for finding in check(source)] == [(4, "XLA919")]


def test_a_function_of_that_name_in_the_script_is_not_reported() -> None:
    source = (
        b"import torch\n\n"
        b"def to_sparse_semi_structured(weight):\n"
        b"    return weight\n\n"
        b"print(to_sparse_semi_structured(torch.ones(64, 64)))\n"
    )
    assert not check(source)
