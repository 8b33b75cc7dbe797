"""The conditions under which code runs, and their results."""

from __future__ import annotations

import ast

import pytest

from xla_codemods.analysis.script import Script
from xla_codemods.flow.conditions import conditions, settled, truth
from xla_codemods.source import Source

CODE = """
def f(x):
    assert a
    if b:
        return 0
    if c:
        print(1)
    if d:
        g(HERE)
    else:
        g(1)
    return h
x = (HERE if e else 1) if not k else 2
y = p and HERE
z = q or HERE
"""


def test_conditions_of_each_place() -> None:
    file = Script(Source(CODE.encode()))
    found = [
        [(ast.unparse(test), needed) for test, needed in conditions(file, node)]
        for node, _ in file.index.names("HERE")
    ]
    assert found == [
        [("d", True), ("a", True), ("b", False)],
        [("e", True), ("not k", True)],
        [("p", True)],
        [("q", False)],
    ]


@pytest.mark.parametrize(
    ("test", "result", "settles"),
    [
        ("yes", True, True),
        ("not yes", False, False),
        ("yes and a", None, None),
        ("no and a", False, False),
        ("yes or a", True, True),
        ("no or a", None, None),
        ("bool(no) is True", False, False),
        ("no == False", True, True),
        ("not a or a and yes", None, True),
        ("a and not a", None, False),
        ("a or b", None, None),
    ],
)
def test_results_are_true_false_or_unknown(
    test: str, result: bool | None, settles: bool | None
) -> None:
    condition = ast.parse(test, mode="eval").body

    def known(part: ast.expr) -> bool | None:
        return {"yes": True, "no": False}.get(getattr(part, "id", ""))

    assert truth(condition, known) is result
    assert settled(condition, known) is settles
