"""What expressions are found to be, and at what cost."""

from __future__ import annotations

import ast

from xla_codemods.script import Script
from xla_codemods.values import ACCEL, HOST, NUMBER, TENSOR, Value

from .helpers import script


def value_of(model: Script, text: str) -> Value:
    """The value of the last expression in the source that reads `text`."""
    nodes = [n for n in ast.walk(model.tree) if isinstance(n, ast.expr) and ast.unparse(n) == text]
    return model.value(max(nodes, key=lambda n: (n.lineno, n.col_offset)))


def test_a_name_in_a_cycle_knows_all_that_the_cycle_binds() -> None:
    model = script("""
        import torch
        a = torch.ones(2, device="cuda")
        b = torch.ones(2, device="cpu")
        for _ in range(3):
            a, b = b, a
        print(a, b)
        """)
    for name in ("a", "b"):
        assert value_of(model, name).has(TENSOR)
        assert not value_of(model, name).kinds & {ACCEL, HOST}  # either: so neither is claimed


def test_a_sum_that_feeds_itself() -> None:
    model = script("""
        total = 0.0
        for loss in losses:
            total = total + loss.item()
        print(total)
        """)
    assert value_of(model, "total").has(NUMBER)


def test_values_that_all_depend_on_each_other_cost_no_exponential_time() -> None:
    names = [f"v{k}" for k in range(40)]
    lines = [f"{name} = torch.add({', '.join(names)})" for name in names]
    model = script("import torch\n" + "\n".join(lines) + "\nprint(v0)\n")
    assert value_of(model, "v0").has(TENSOR)
    assert model.inference._work < 60_000
