"""Does a script start its own processes, or is it to be started by torchrun?"""

from __future__ import annotations

import ast
from pathlib import Path

from .imported import modules

_STARTS = frozenset({"spawn", "start_processes", "xla_migrate.runtime.launch"})


def starts_processes(script: Path, root: Path) -> bool:
    """True if it calls `mp.spawn` or `xla.launch`, or a function of the project that does: `launch(main, args)` of its `engine.py`.

    So does one that starts a `Process` whose target joins a process group.

    Args:
        script: the script.
        root: the folder of its project.
    """
    source = script.read_text(encoding="utf-8", errors="replace")
    if ".spawn(" in source or "start_processes(" in source:
        return True
    trees = modules(script, root)
    tree = trees.pop(script.resolve(), None)
    if tree is None:
        return False
    if _STARTS & _called(tree, _runtime(tree)):
        return True
    others = list(trees.values())
    own = {n.name for n in ast.walk(tree) if isinstance(n, (ast.FunctionDef, ast.ClassDef))}
    joining = _reaching([tree, *others], frozenset({"init_process_group"}))
    if _targets(tree) & joining:
        return True
    joined = {n for m in others for n in _functions(m) if _targets(n) & joining}
    starters = _reaching(others, _STARTS | {n.name for n in joined}) | {n.name for n in joined}
    return bool((starters - own) & _called(tree))


def _functions(module: ast.AST) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    return [n for n in ast.walk(module) if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef))]


def _reaching(modules: list[ast.Module], names: frozenset[str]) -> set[str]:
    """The names of functions that call one of `names`, or another of them."""
    calls = {
        node.name: _called(node, _runtime(module))
        for module in modules
        for node in _functions(module)
    }
    found: set[str] = set()
    while more := {n for n, called in calls.items() if called & (names | found)} - found:
        found |= more
    return found


def _targets(around: ast.AST) -> set[str]:
    """The functions that run as a `Process(target=worker)`."""
    return {
        getattr(keyword.value, "attr", getattr(keyword.value, "id", ""))
        for node in ast.walk(around)
        if isinstance(node, ast.Call)
        and getattr(node.func, "attr", getattr(node.func, "id", "")) == "Process"
        for keyword in node.keywords
        if keyword.arg == "target"
    }


def _runtime(module: ast.Module) -> str | None:
    """The name by which a migrated module calls the runtime."""
    for node in ast.walk(module):
        if isinstance(node, ast.ImportFrom) and node.module == "xla_migrate":
            for alias in node.names:
                if alias.name == "runtime":
                    return alias.asname or alias.name
    return None


def _called(around: ast.AST, runtime: str | None = None) -> set[str]:
    found = set()
    for node in ast.walk(around):
        if isinstance(node, ast.Call):
            match node.func:
                case ast.Attribute(value=ast.Name(id=owner), attr=name) if owner == runtime:
                    found.add(f"xla_migrate.runtime.{name}")
                case ast.Attribute(attr=name) | ast.Name(id=name):
                    found.add(name)
    return found
