"""Which bindings of a name reach a use of it."""

from __future__ import annotations

import ast
import textwrap

import pytest

from xla_codemods.analysis import flow

from ..helpers import script


def reaching(source: str) -> list[int]:
    """Lines (from 1) of the bindings of `x` that the read `use(x)` may see."""
    model = script(textwrap.dedent(source).strip("\n") + "\n")
    calls = [
        n for n in ast.walk(model.tree) if isinstance(n, ast.Call) and ast.unparse(n.func) == "use"
    ]
    name = calls[0].args[0]
    assert isinstance(name, ast.Name)
    found = model.index.scope(name).find("x")
    assert found is not None
    home, bindings = found
    return [b.node.lineno for b in flow.reaching(bindings, name, home, model.parents)]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("x = 1\nx = 2\nuse(x)", [2]),
        ("x = 1\nuse(x)\nx = 2", [1]),
        ("x = 1\nx = use(x)", [1]),
        ("x = 1\nfor k in y:\n    x = use(x)", [1, 3]),
        ("x = 1\nfor x in use(x): pass", [1]),
        ("x = 1\nif c:\n    x = 2\nuse(x)", [1, 3]),
        ("x = 1\nif c:\n    x = 2\n    use(x)", [3]),
        ("x = 1\nx += 2\nuse(x)", [1, 2]),
        ("for x in y:\n    x = f(x)\n    use(x)", [2]),
        ("x = 0\nfor x in y:\n    use(x)\nx = 3", [2]),
        ("x = 0\nfor x in y:\n    use(x)\n    x = 3", [2]),
        ("x = 0\nfor k in y:\n    use(x)\n    x = 3", [1, 4]),
        ("x = 0\nwhile c:\n    x = 1\n    use(x)\n    x = 3", [3]),
        ("x = 0\nfor x in y:\n    pass\nuse(x)", [1, 2]),
        ("x = 0\nwith f() as x:\n    use(x)", [2]),
        ("x = 0\nwith f():\n    x = 2\nuse(x)", [3]),
        ("x = 0\nwith f():\n    with g():\n        x = 3\n    x += 1\nuse(x)", [4, 5]),
        ("x = 0\nif c:\n    with f():\n        x = 2\nelse:\n    x = 3\nuse(x)", [4, 6]),
        ("x = 0\nif c:\n    raise E\nelse:\n    x = 3\nuse(x)", [5]),
        ("x = 0\nif c:\n    x = 1\nelif d:\n    x = 2\nuse(x)", [1, 3, 5]),
        ("x = 0\nif c:\n    x = 1\nelif d:\n    x = 2\nelse:\n    x = 3\nuse(x)", [3, 5, 7]),
        (
            "x = 0\nfor k in y:\n    try:\n        x = 1\n    except E:\n        continue\n    use(x)",
            [4],
        ),
        ("x = 0\ntry:\n    x = 1\nexcept E:\n    use(x)", [1, 3]),
        ("x = 0\ntry:\n    with f():\n        x = 1\nexcept E:\n    use(x)", [1, 4]),
        ("x = 0\nif c:\n    for x in y:\n        pass\nelse:\n    x = 1\nuse(x)", [1, 3, 6]),
        ("x = 0\ntry:\n    x = 1\nexcept E:\n    pass\nuse(x)", [1, 3]),
        ("x = 0\nif c:\n    x = 1\nelse:\n    use(x)", [1, 3]),
        ("def f(x):\n    x = g(x)\n    use(x)", [2]),
        ("def f(x):\n    if x is None:\n        x = g()\n    use(x)", [1, 3]),
        ("x = 1\nx = 2\ndef f():\n    use(x)", [1, 2]),
        ("x = 1\nx = 2\ng = lambda: use(x)", [1, 2]),
        ("x = 1\nx = 2\ng = [use(x) for k in y]", [2]),
        ("x = 1\nx: int\nuse(x)", [1, 2]),
        ("x, z = 1, 2\nx, z = z, x\nuse(x)", [2]),
    ],
)
def test_reaching(source: str, lines: list[int]) -> None:
    assert reaching("import torch\nloss.backward()\n" + source) == [n + 2 for n in lines]
