"""All values of a name, or none if it may have another one."""

from __future__ import annotations

import ast

from xla_codemods.flow.edges import known_sources

from ...each import each
from ..helpers import script


@each(
    "program, values",
    [
        ("x = 1\nif a:\n    x = 2\nused(x)", ["1", "2"]),
        ("x = 1\nif a:\n    x = 2\nelse:\n    x, y = f()\nused(x)", []),
        ("x = 1\nx |= 2\nused(x)", ["1", "2"]),
        ("x = 1\nx += 2\nused(x)", []),
        ("for x in (1, 2):\n    used(x)", ["1", "2"]),
        ("for x in xs:\n    used(x)", []),
        ("with f() as x:\n    used(x)", []),
        ("def f(x):\n    used(x)\nf(1)\nf(x=2)", ["1", "2"]),
        ("def f(x=3):\n    used(x)\nf(1)", ["1"]),
        ("def f(x=3):\n    used(x)\nf(1)\nf()", ["1", "3"]),
        ("def f(x=3):\n    used(x)", []),
        ("def f(x):\n    used(x)\nf(1)\nf(*xs)", []),
    ],
)
def test_all_values_of_a_name_or_none(program: str, values: list[str]) -> None:
    file = script(program)
    (name,) = [call.args[0] for call, _ in file.index.calls_of("used")]
    assert isinstance(name, ast.Name)
    assert [ast.unparse(v) for v in known_sources(file, name, (ast.BitOr,))] == values
