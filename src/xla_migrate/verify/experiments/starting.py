"""Does a script start its own processes, or is it to be started by torchrun?"""

from __future__ import annotations

import ast
from pathlib import Path

_STARTS = frozenset({"spawn", "start_processes"})
_MOST = 200  # modules that are looked at


def starts_processes(script: Path, root: Path) -> bool:
    """True if it calls `mp.spawn`, or a function of the project that does: `launch(main, args)` of its `engine.py`.

    So does one that starts a `Process` whose target joins a process group.

    Args:
        script: the script.
        root: the folder of its project.
    """
    source = script.read_text(encoding="utf-8", errors="replace")
    if ".spawn(" in source or "start_processes(" in source:
        return True
    tree = _parsed(source)
    if tree is None:
        return False
    own = {n.name for n in ast.walk(tree) if isinstance(n, (ast.FunctionDef, ast.ClassDef))}
    modules = _modules(script, tree, root)
    joining = _reaching([tree, *modules], frozenset({"init_process_group"}))
    if _targets(tree) & joining:
        return True
    joined = {n for m in modules for n in _functions(m) if _targets(n) & joining}
    starters = _reaching(modules, _STARTS | {n.name for n in joined}) | {n.name for n in joined}
    return bool((starters - own) & _called(tree))


def _parsed(source: str) -> ast.Module | None:
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError):  # a notebook's magics, another Python
        return None


def _modules(script: Path, tree: ast.Module, root: Path) -> list[ast.Module]:
    """The modules of the project that the script imports, and those that they do."""
    found, seen, waiting = list[ast.Module](), {script}, [(script, tree)]
    while waiting and len(seen) < _MOST:
        place, module = waiting.pop()
        for file in _imported(place, module, root):
            if file not in seen:
                seen.add(file)
                parsed = _parsed(file.read_text(encoding="utf-8", errors="replace"))
                if parsed is not None:
                    found.append(parsed)
                    waiting.append((file, parsed))
    return found


def _imported(place: Path, module: ast.Module, root: Path) -> list[Path]:
    names: list[tuple[Path, list[str]]] = []
    for node in ast.walk(module):
        if isinstance(node, ast.Import):
            names += (
                (base, a.name.split(".")) for a in node.names for base in (place.parent, root)
            )
        elif isinstance(node, ast.ImportFrom):
            home = node.module.split(".") if node.module else []
            above = (
                place.parents[min(node.level - 1, len(place.parents) - 1)] if node.level else None
            )
            for base in (above,) if above else (place.parent, root):
                names += ((base, [*home, a.name]) for a in node.names)
                names.append((base, home))
    files: list[Path] = []
    for base, parts in names:
        whole = base.joinpath(*parts)
        files += (whole.with_suffix(".py") if parts else whole, whole / "__init__.py")
    return [file for file in dict.fromkeys(files) if file.is_file() and root in file.parents]


def _functions(module: ast.AST) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    return [n for n in ast.walk(module) if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef))]


def _reaching(modules: list[ast.Module], names: frozenset[str]) -> set[str]:
    """The names of functions that call one of `names`, or another of them."""
    calls = {node.name: _called(node) for module in modules for node in _functions(module)}
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


def _called(around: ast.AST) -> set[str]:
    found = set()
    for node in ast.walk(around):
        if isinstance(node, ast.Call):
            func = node.func
            found.add(func.attr if isinstance(func, ast.Attribute) else getattr(func, "id", ""))
    return found
