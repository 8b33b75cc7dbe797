"""The index of a file: where names stand."""

from __future__ import annotations

import ast

from xla_codemods.analysis.index import build
from xla_codemods.analysis.projects.project import Modules, Project

_NESTED = """
def outer(device, size=device):
    @decorated(device)
    def inner(x, other=device):
        return x.to(device)
    return [lambda: device], inner
"""


def test_names_below_a_function_are_those_of_its_body() -> None:
    index = build(ast.parse(_NESTED), _NESTED)
    outer, inner = (node for node, _ in index.of(ast.FunctionDef))
    lines = [node.lineno for node in index.names_below(outer, "device")]
    assert sorted(lines) == [3, 4, 5, 6]  # not the default of `outer` in line 2
    assert [node.lineno for node in index.names_below(inner, "device")] == [5]


def test_modules_that_others_import_are_indexed_once() -> None:
    files = {"lib.py": b"def f(x):\n    return x\n", "main.py": b"from lib import f\nf(1)\n"}
    modules = Modules(files)
    tree = modules.source("lib.py", files["lib.py"]).tree
    project = Project(modules, "lib.py")
    index, is_shared = project.index(tree, files["lib.py"].decode())
    whole = modules.whole("lib.py")
    assert is_shared
    assert project.depends_on_modules
    assert whole is not None
    assert index.nodes is whole.nodes
    assert index.inference is not whole.inference


def test_a_changed_module_has_an_index_of_its_own() -> None:
    files = {"lib.py": b"def f(x):\n    return x\n", "main.py": b"from lib import f\nf(1)\n"}
    changed = "def f(x):\n    return x.to(0)\n"
    index, is_shared = Project(Modules(files), "lib.py").index(ast.parse(changed), changed)
    assert not is_shared
    assert index.calls_of("to")
