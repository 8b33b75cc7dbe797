"""Sources and uses are inverse to each other, and each flow that happens in a program is among the edges."""

from __future__ import annotations

import ast
import textwrap
from pathlib import Path

import pytest

from xla_codemods.analysis.script import Script
from xla_codemods.flow.closure import reach, trace
from xla_codemods.flow.edges import sources, uses
from xla_codemods.source import Source

from ..helpers import script

FIXTURES = Path(__file__).parents[3] / "fixtures"


def expressions(file: Script) -> list[ast.expr]:
    return [node for node in file.parents if isinstance(node, ast.expr)]


@pytest.mark.parametrize(
    "path", sorted(FIXTURES.rglob("train.py"))[::2], ids=lambda p: p.parent.name
)
def test_sources_and_uses_are_inverse(path: Path) -> None:
    file = Script(Source(path.read_bytes()))
    nodes = expressions(file)
    back = {(source, node) for node in nodes for source in sources(file, node)}
    forth = {(node, use) for node in nodes for use in uses(file, node)}
    assert back == forth
    assert back


PROGRAMS = {
    "a parameter of a lambda": "f = lambda x, y: used(y)\nf(1, made())",
    "a keyword of a lambda": "f = lambda x, y: used(y)\nf(1, y=made())",
    "elements of a part of a generator": """
        import itertools
        def f():
            yield made()
        for i, x in enumerate(itertools.islice(f(), 1)):
            used(x)""",
    "elements that are zipped": "for i, x in zip([1], [made()]):\n    used(x)",
    "elements that are sorted": "for x in sorted([made()]):\n    used(x)",
    "names": "a = made()\nb = a\nused(b)",
    "unpacking": "a, (b, c) = 1, (made(), 2)\nused(b)",
    "choice": "a = made() if True else 2\nused(a or 3)",
    "a name in an expression": "if a := made():\n    pass\nused(a)",
    "a parameter": "def f(x, y):\n    used(y)\nf(1, made())",
    "a keyword": "def f(x, *, y):\n    used(y)\nf(1, y=made())",
    "a default": "def f(x=made()):\n    used(x)\nf()",
    "a result": "def f():\n    return made()\nused(f())",
    "a closure": "a = made()\ndef f():\n    used(a)\nf()",
    "an attribute": """
        class C:
            def __init__(self, x):
                self.x = x
            def show(self):
                used(self.x)
        C(made()).show()""",
    "attributes that are assigned together": """
        class C:
            def __init__(self, x):
                self.y, self.x = 1, x
            def show(self):
                used(self.x)
        C(made()).show()""",
    "entries that are assigned together": "d = {}\nd['x'], d['y'] = 1, made()\nused(d['y'])",
    "a lambda that is mapped": "list(map(lambda v: used(v), [1, made()]))",
    "a key that is compared": "max([made()], key=lambda v: used(v) or 1)",
    "a key that sorts": "[made()].sort(key=lambda v: used(v) or 1)",
    "a method": """
        class C:
            def run(self):
                return self.same(made())
            def same(self, x):
                used(x)
        C().run()""",
    "a dictionary": "a = {'x': made()}\nused(a['x'])",
    "a dictionary of keywords": "a = dict(x=made())\nused(a['x'])",
    "an entry": "a = {}\na['x'] = made()\nused(a['x'])",
    "an attribute of another object": "class C: pass\nc = C()\nc.x = made()\nused(c.x)",
    "elements": "for x, (y, z) in [(1, (made(), 2))]:\n    used(y)",
    "elements of a comprehension": "[used(x) for x in (made(),)]",
    "a loop": "a = None\nfor i in range(2):\n    if a:\n        used(a)\n    a = made()",
    "__call__": "class C:\n    def __call__(self, x):\n        used(x)\nC()(made())",
    "__call__ of an attribute": """
        class C:
            def __call__(self, x):
                used(x)
        class D:
            def __init__(self):
                self.c = C()
            def run(self):
                self.c(made())
        D().run()""",
    "a global": "a = 1\ndef f():\n    global a\n    a = made()\nf()\nused(a)",
    "star arguments": "def f(*args):\n    used(args[0])\nf(made())",
    "the body of a class": "class C:\n    x = made()\n    def f(self):\n        used(self.x)\nC().f()",
    "the body of a class, by its name": "class C:\n    y = x = made()\nused(C.x)",
    "the body of a base": "class B:\n    x = made()\nclass C(B): pass\nc = C()\nused(c.x)",
    "setattr": "class C: pass\nc = C()\nsetattr(c, 'x', made())\nused(c.x)",
    "a comprehension": "for x in [y for y in [made()]]:\n    used(x)",
    "partial": "import functools\ndef f(x):\n    used(x)\nfunctools.partial(f, made())()",
    "a generator": "def f():\n    yield made()\nfor x in f():\n    used(x)",
    "a context manager": """
        import contextlib
        @contextlib.contextmanager
        def f():
            yield made()
        with f() as x:
            used(x)""",
    "a decorator of torch": """
        def no_grad():
            return lambda function: function
        @no_grad()
        def make():
            return made()
        used(make())""",
    "a property": """
        class C:
            @property
            def x(self):
                return made()
        used(C().x)""",
    "inheritance": """
        class B:
            def __init__(self, x):
                self.x = x
        class C(B):
            def show(self):
                used(self.x)
        C(made()).show()""",
    "a nonlocal": """
        def f():
            a = 1
            def g():
                nonlocal a
                a = made()
            g()
            used(a)
        f()""",
    "keywords of **": "def f(**options):\n    used(options['x'])\nf(x=made())",
    "a loop over star arguments": "def f(*args):\n    for x in args:\n        used(x)\nf(made())",
    "super().__init__": """
        class B:
            def __init__(self, x):
                used(x)
        class C(B):
            def __init__(self, y):
                super().__init__(y)
        C(made())""",
    "setattr of self": """
        class C:
            def __init__(self):
                setattr(self, 'x', made())
            def show(self):
                used(self.x)
        C().show()""",
    "a dataclass": """
        import dataclasses
        @dataclasses.dataclass
        class C:
            x: object
        used(C(made()).x)""",
    "a dataclass that a function makes": """
        import dataclasses
        @dataclasses.dataclass
        class C:
            x: object
        def f():
            return C(made())
        c = f()
        used(c.x)""",
    "an entry of a result": "def f():\n    return {'x': made()}\nd = f()\nused(d['x'])",
    "an entry of a parameter": "def f(d):\n    used(d['x'])\nf({'x': made()})",
    "a part of a result": "def f():\n    return 1, (made(), 2)\na, (b, c) = f()\nused(b)",
    "a part of a result that a function passes on": """
        def f():
            return 1, made()
        def g():
            return f(), 2
        def h():
            return g()
        (a, b), c = h()
        used(b)""",
    "a part of the result of a function that calls itself": """
        def f(n):
            if n:
                return f(n - 1)
            return 1, made()
        a, b = f(2)
        used(b)""",
    "a part of the result of a method": """
        class C:
            def f(self):
                return 1, made()
            def run(self):
                a, b = self.f()
                used(b)
        C().run()""",
    "__enter__": """
        class C:
            def __enter__(self):
                return made()
            def __exit__(self, *error):
                pass
        with C() as x:
            used(x)""",
    "a decorated function": """
        import functools
        @functools.cache
        def f():
            return made()
        used(f())""",
    "a lambda": "f = lambda: made()\nused(f())",
    "an attribute of an instance": """
        class C:
            def __init__(self):
                self.x = made()
        c = C()
        used(c.x)""",
    "an attribute that other code sets": """
        class C:
            def show(self):
                used(self.x)
        c = C()
        c.x = made()
        c.show()""",
    "a registered implementation": """
        import functools
        @functools.singledispatch
        def f(key, x):
            pass
        @f.register
        def _(key: int, y):
            used(y)
        f(1, made())""",
    "the result of a registered implementation": """
        import functools
        @functools.singledispatch
        def f(key):
            pass
        @f.register(int)
        def _(key):
            return made()
        used(f(1))""",
    "the result of a generic function": """
        from functools import singledispatch
        @singledispatch
        def f(key):
            return made()
        used(f(1))""",
    "the result of a registered implementation, called by name": """
        import functools
        @functools.singledispatch
        def f(key):
            pass
        @f.register(int)
        def g(key):
            return made()
        used(g(1))""",
    "an implementation registered by a call": """
        import functools
        @functools.singledispatch
        def f(key, x):
            pass
        def g(key, y):
            used(y)
        f.register(int, g)
        f(1, made())""",
    "star arguments of a registered implementation": """
        import functools
        @functools.singledispatch
        def f(key, *args):
            pass
        @f.register
        def _(key: int, *args, **options):
            used(args[0])
        f(1, made())""",
    "elements of the result of a registered implementation": """
        import functools
        @functools.singledispatch
        def f(key):
            pass
        @f.register
        def _(key: int):
            yield made()
        for x in f(1):
            used(x)""",
    "partial of a generic function": """
        import functools
        @functools.singledispatch
        def f(key, x):
            pass
        @f.register
        def _(key: int, y):
            used(y)
        functools.partial(f, 1, made())()""",
    "a method with registered implementations": """
        import functools
        class C:
            @functools.singledispatchmethod
            def f(self, key, x):
                pass
            @f.register
            def _(self, key: int, y):
                used(y)
            def run(self):
                self.f(1, made())
        C().run()""",
}
# Flows that happen and have no edge yet.
MISSING = {
    "elements of a variable": "a = [made()]\nfor x in a:\n    used(x)",
    "an appended element": "a = []\na.append(made())\nfor x in a:\n    used(x)",
}


def flows(program: str) -> tuple[bool, bool]:
    """Return whether the value of `made()` arrives at `used(...)` in a run, and by the edges."""
    source = textwrap.dedent(program)
    tag, seen = object(), []
    exec(source, {"made": lambda: tag, "used": seen.append})
    file = script(source)
    (start,) = [call for call, _ in file.index.calls_of("made")]
    (end,) = [call.args[0] for call, _ in file.index.calls_of("used")]
    forth = reach([start], lambda node: uses(file, node))
    back = reach([end], lambda node: sources(file, node))
    assert (end in forth) == (start in back)
    assert end not in forth or list(trace(forth, end))[-1] is start
    return tag in seen, end in forth


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_a_flow_that_happens_is_among_the_edges(program: str) -> None:
    assert flows(program) == (True, True)


@pytest.mark.parametrize("program", MISSING.values(), ids=MISSING)
def test_a_flow_without_an_edge(program: str) -> None:
    """Move a program to `PROGRAMS` when its edge is added."""
    assert flows(program) == (True, False)
