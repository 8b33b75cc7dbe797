"""Local names to dotted names, alone and against libcst's QualifiedNameProvider."""

from __future__ import annotations

import ast
import textwrap
from pathlib import Path

import libcst as cst
import libcst.metadata
import pytest

from xla_codemods.analysis.index import build
from xla_codemods.analysis.scopes import Scope, resolve
from xla_codemods.rewriting.pairing import pair


def named(source: str) -> list[str | None]:
    """What the attribute chains and names that are called in `source` stand for, in order."""
    return [resolve(call.func, scope) for call, scope in calls(source)]


def calls(source: str) -> list[tuple[ast.Call, Scope]]:
    """Every call with its scope, by line."""
    index = build(ast.parse(source), source)
    return sorted(index.of(ast.Call), key=lambda item: (item[0].end_lineno, item[0].end_col_offset))


@pytest.mark.parametrize(
    ("source", "dotted"),
    [
        ("import torch\ntorch.cuda.f()", "torch.cuda.f"),
        ("import torch as t\nt.cuda.f()", "torch.cuda.f"),
        ("import torch.cuda\ntorch.cuda.f()", "torch.cuda.f"),
        ("import torch.cuda as c\nc.f()", "torch.cuda.f"),
        ("from torch import cuda as tc\ntc.f()", "torch.cuda.f"),
        ("from torch.cuda import f as g\ng()", "torch.cuda.f"),
        ("from torch.cuda.amp import *\nautocast()", "torch.cuda.amp.autocast"),
        (
            "from mine import *\ntorch.cuda.f()",
            "torch.cuda.f",
        ),  # whatever `mine` is, `torch` is PyTorch
        ("import torch\ncuda = torch.cuda\ncuda.f()", "torch.cuda.f"),
        ("import torch\ngetattr(torch, 'cuda').f()", "torch.cuda.f"),
        ("def g():\n    import torch\n    torch.cuda.f()", "torch.cuda.f"),
        (
            "try:\n    from torch.cuda.amp import autocast\nexcept ImportError:\n    autocast = None\nautocast()",
            "torch.cuda.amp.autocast",
        ),
        ("if x:\n    import torch\nelse:\n    torch = None\ntorch.f()", "torch.f"),
        ("import torch\nclass A:\n    torch = 1\n    def m(self):\n        torch.f()", "torch.f"),
        # relative imports keep their dots
        ("from .cuda import f\nf()", ".cuda.f"),
        ("from . import f\nf()", ".f"),
    ],
)
def test_resolved(source: str, dotted: str) -> None:
    assert named(source)[-1] == dotted


@pytest.mark.parametrize(
    "source",
    [
        "import torch\ntorch = Fake()\ntorch.cuda.f()",  # rebound
        "import torch\ndef g(torch):\n    torch.cuda.f()",  # a parameter
        "import torch\n[torch.f() for torch in x]",  # a comprehension's
        "import torch\ng = lambda torch: torch.f()",
        "import torch\nfor torch in x:\n    torch.f()",
        "import torch\nwith x as torch:\n    torch.f()",
        "import torch\ntry:\n    pass\nexcept E as torch:\n    torch.f()",
        "import torch\ndef torch():\n    pass\ntorch.f()",
        "import torch\ndef g():\n    global torch\n    torch = 1\ntorch.f()",
        "import torch\nif (torch := 1):\n    torch.f()",
        "import torch\nmatch x:\n    case torch:\n        torch.f()",
        "try:\n    from apex import amp\nexcept ImportError:\n    from torch.cuda import amp\namp.f()",  # two meanings
        "try:\n    from a import f\nexcept ImportError:\n    def f(): ...\nf()",
        "from mine import *\nfrom torch.cuda.amp import *\nautocast()",  # may be `mine`'s
        "f()",
        "x[0].f()",
        "import torch\ntorch.rand(2).cuda()",  # no dotted name: a method of a result
        "import torch\ndef getattr(a, b): ...\ngetattr(torch, 'cuda').f()",
        "class A:\n    import torch\n    def m(self):\n        torch.f()",  # a class's names are not its methods'
    ],
)
def test_unresolved(source: str) -> None:
    assert named(source)[-1] is None


def _files() -> list[Path]:
    """Real code at hand: libcst's own and the standard library's, small enough for libcst's scopes."""
    roots = [Path(cst.__file__).parent, Path(ast.__file__).parent]
    found = [p for root in roots for p in sorted(root.glob("*.py"))]
    return [p for p in found if 2_000 < p.stat().st_size < 16_000][::5]


def test_real_code_agrees_with_libcst() -> None:
    """Where both resolve a call's callee to an imported name, they agree; libcst knows every name that we do."""
    assert sum(map(_compared, _files())) > 100


def _compared(path: Path) -> int:
    """Return how many callees both resolve; they agree in each."""
    data = path.read_bytes()
    tree = ast.parse(data)
    module = cst.parse_module(data)
    wrapper = libcst.metadata.MetadataWrapper(module, unsafe_skip_copy=True)
    theirs = wrapper.resolve(libcst.metadata.QualifiedNameProvider)
    index = build(tree, data.decode())
    nodes = pair([tree], module, [call for call, _ in index.of(ast.Call)])
    compared = 0
    for call, scope in index.of(ast.Call):
        ours = resolve(call.func, scope)
        if ours is None or ours.startswith("."):
            continue
        found = theirs[nodes[call].func]  # type: ignore[attr-defined]
        names = {q.name for q in (found() if callable(found) else found)}
        assert ours in names, (path, call.lineno)
        compared += 1
    return compared


def test_scopes_are_read_once() -> None:
    tree = ast.parse(
        textwrap.dedent("""
        import torch
        def f():
            torch = 1
    """)
    )
    scope = Scope(tree, None)
    assert scope.bindings is scope.bindings
    assert set(scope.bindings) == {"torch", "f"}


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        # a stand-in for an old torch: the torch at hand has the name
        (
            "try:\n from torch.cuda.amp import GradScaler\nexcept ImportError:\n class GradScaler: pass\n",
            "torch.cuda.amp.GradScaler",
        ),
        (
            "try:\n from torch.amp import GradScaler\nexcept ImportError:\n from torch.cuda.amp import GradScaler\n",
            "torch.amp.GradScaler",
        ),
        # other libraries may really be missing
        (
            "try:\n from apex import GradScaler\nexcept ImportError:\n class GradScaler: pass\n",
            None,
        ),
        # and this is a choice
        (
            "if 1:\n from torch.cuda.amp import GradScaler\nelse:\n class GradScaler: pass\n",
            None,
        ),
    ],
)
def test_fallbacks_for_an_old_torch(source: str, expected: str | None) -> None:
    tree = ast.parse(source)
    assert Scope(tree, None).dotted("GradScaler") == expected


@pytest.mark.parametrize(
    ("assignment", "bound"),
    [
        ("b, n, device = *x.shape, x.device", "x.device"),
        ("device, b, n = x.device, *x.shape", "x.device"),
        ("[b, n, device] = [*x.shape, x.device]", "x.device"),
        ("*_, device = x.shape, x.dtype, x.device", "x.device"),
        ("b, *rest, device = 1, 2, 3, x.device", "x.device"),
        ("a, (b, n, device), c = 0, (*x.shape, x.device), 2", "x.device"),
        ("b, device, n = *x.shape, x.device", None),  # a part of the shape
        ("b, *device = *x.shape, x.device", None),
        ("*_, device = f(x)", None),
    ],
)
def test_what_is_unpacked_behind_a_star_is_counted_from_the_end(
    assignment: str, bound: str | None
) -> None:
    source = f"x = device = 0\ndef f(x):\n    {assignment}\n    g(device)\n"
    ((_, scope),) = [(c, s) for c, s in calls(source) if ast.unparse(c.func) == "g"]
    (binding,) = scope.bindings["device"]
    value = binding.part
    assert (ast.unparse(value) if value is not None else None) == bound
