"""Walking is what the standard library does, without contexts and operators."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from xla_codemods.analysis.nodes import children, walk

from ...each import each

LEFT_OUT = (ast.expr_context, ast.operator, ast.cmpop, ast.boolop, ast.unaryop)
DEPRECATED = "Bytes Ellipsis ExtSlice Index NameConstant Num Str".split()
AFTER_PYTHON_3_10 = (
    "TryStar TypeAlias TypeVar ParamSpec TypeVarTuple TemplateStr Interpolation".split()
)
ROOT = Path(__file__).parents[3]
EVERYTHING = """
@d
async def f(a: int, /, b=1, *c: str, k, m=2, **n) -> None:
    async with x as y, z: await w
    async for i in j: continue
    else: pass
    return
class C(B, m=1):
    a: int = 1
    b: str
try: raise E from e
except (A, B) as g: ...
except C: raise
else: assert a, b
finally: del p[0], q.r
while not a and b or c: break
global v
x = y = [*a, {1: 2, **s}, {1, 2}, (i for i in j if k), [i async for i in j], {i: j for i in k}, {i for i in j}]
x += -a ** b if c else lambda *a, b=1: (yield)
(n := f"{a!r:>{w}} {b=}") < 1 <= x[1:2, ::3] is not None
f(*a, b, k=1, **c)
match a:
    case [1, x, *_] | {"k": v, **r} if g: yield from h
    case P(1, y=2) as z: pass
    case None | a.b: pass
import a.b as c, d
from . import *
for i in j:
    if b"": pass
    with a: pass
def h():
    m = 1
    def k(): nonlocal m
"""


def plain(node: ast.AST) -> list[ast.AST]:
    return [child for child in ast.iter_child_nodes(node) if not isinstance(child, LEFT_OUT)]


SOURCES = {"everything": EVERYTHING} | {
    str(path.relative_to(ROOT)): path.read_text()
    for path in sorted((ROOT / "codemods").rglob("*.py"))[::5]
}


def test_everything_has_every_kind_of_node() -> None:
    """Except those that no parsed module has, and those of newer Pythons than the oldest supported."""
    found = {type(node) for node in ast.walk(ast.parse(EVERYTHING))}
    kinds = {kind for kind in _kinds(ast.AST) if not kind.__subclasses__()}
    never = (*LEFT_OUT, ast.mod, ast.type_ignore)
    missing = {kind.__name__ for kind in kinds - found if not issubclass(kind, never)}
    assert missing <= {*DEPRECATED, *AFTER_PYTHON_3_10}


def _kinds(base: type[ast.AST]) -> Iterator[type[ast.AST]]:
    for kind in base.__subclasses__():
        yield kind
        yield from _kinds(kind)


@each("name", sorted(SOURCES))
def test_children_are_those_of_ast(name: str) -> None:
    tree = ast.parse(SOURCES[name])
    for node in ast.walk(tree):
        assert children(node) == plain(node), ast.dump(node)
    assert set(walk(tree)) == {n for n in ast.walk(tree) if not isinstance(n, LEFT_OUT)}
