"""Every `ast` node finds its libcst node, by order, whatever stands between them."""

from __future__ import annotations

import ast
from pathlib import Path

import libcst as cst
import pytest

from xla_codemods.rewriting.pairing import _kind, in_order, pair


def agree(source: bytes) -> int:
    """Pair every node of `source` that can be paired; their contents must be the same. How many there were."""
    tree, module = ast.parse(source), cst.parse_module(source)
    nodes = [n for n in in_order(tree) if _kind(n) is not None and not isinstance(n, ast.Tuple)]
    for ours, theirs in pair([tree], module, nodes).items():
        match ours, theirs:
            case ast.Name(id=name), cst.Name(value=value):
                assert name == value
            case ast.Attribute(attr=name), cst.Attribute(attr=cst.Name(value=value)):
                assert name == value
            case ast.Call(args=args, keywords=keywords), cst.Call(args=given):
                assert len(args) + len(keywords) == len(given)
            case ast.Constant(value=str(text)), cst.SimpleString():
                assert theirs.evaluated_value == text
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name), _:
                assert theirs.name.value == name  # type: ignore[attr-defined]
            case ast.Constant(value=bool() | None as word), cst.Name(value=value):
                assert str(word) == value
            case ast.Constant(value=int(number)), cst.Integer():
                assert theirs.evaluated_value == number
    return len(nodes)


@pytest.mark.parametrize(
    "source",
    [
        "f(a, *b, k=c, **d)(e)",
        "f(k=g(), *h(), **i())",  # arguments out of kind's order
        "x = b() if a() else c()",
        "def f(a: A = b, /, c: C = d, *e: E, g: G = h, **i: I) -> J: k",
        "@a.b(c)\n@d\nclass E(F, metaclass=G): h = 1",
        "{a: b, **c, d: e}; {f: g for f in h if i}; [a for a in b for c in d if e]",
        "a and b and c or d and not e",
        "(a and b) and (c and (d or e or f))",
        "f'{a!r:>{b}} {c:%d} {{}}' 'x' f\"{d['e']}\"; 'g' 'h'",
        "a[b, c:d, ...]; e[f:g:h]; i[(j)]",
        "import os.path as p; from a.b import (c as d, e)",
        "try:\n    a\nexcept (B, C) as d:\n    e\nelse:\n    f\nfinally:\n    g",
        "with a as b, c as (d, e): pass",
        "for a, b in c: pass\nelse: d",
        "global a, b\ndel c, d\nassert e, f\nraise g from h",
        "lambda a, *b, c=d, **e: f",
        "x: Y = z; x += 1; x = y = z",
        "match a:\n    case B(c, d=e) | [f, *g]:\n        h\n    case {'i': j, **k} if l:\n        m\n    case None | True | 1:\n        n",
        "async def f():\n    async with a as b:\n        async for c in d:\n            await e",
        "print(None, True, ..., 1j, -1, b'x')",
        "(a := None); {True: [False for b in c]}; (None if d else True)",
        "if a: b\nelif c: d\nelse: e",
        "while a:\n    b; c\n",
    ],
)
def test_pairs(source: str) -> None:
    assert agree(source.encode()) > 0


FILES = [p for p in sorted(Path(ast.__file__).parent.glob("*.py")) if p.stat().st_size < 60_000][
    ::12
]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_pairs_in_real_code(path: Path) -> None:
    assert agree(path.read_bytes()) >= 0
