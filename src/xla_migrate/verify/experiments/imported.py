"""The modules of its project that a script imports, read off the sources."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from .notebook import NotebookScriptError, as_script

_MOST = 500  # modules that are read
_BY_NAME = {"import_module", "__import__"}
_RUNTIME = {"xla_migrate", "xla_runtime"}


def modules(script: Path, root: Path) -> dict[Path, ast.Module]:
    """Return the script and the modules of the project that it imports, directly or not, parsed.

    An absolute name is looked for next to the importing file and the script, in the folders above them, and in
    `src`. A name that is computed (`import_module(f"models.{name}")`) may be any module of its folder.

    Args:
        script: the script.
        root: the folder of its project.
    """
    script, root = script.resolve(), root.resolve()
    found = dict[Path, ast.Module]()
    seen, waiting = {script}, [script]
    while waiting and len(seen) <= _MOST:
        place = waiting.pop()
        tree = _parsed(place)
        if tree is None:
            continue
        found[place] = tree
        bases = [*_up(place.parent, root), *_up(script.parent, root), root / "src"]
        for file in _imported(place, tree, list(dict.fromkeys(bases))):
            if file not in seen and root in file.parents and file.is_file():
                seen.add(file)
                waiting.append(file)
    return found


def _parsed(file: Path) -> ast.Module | None:
    """Return None for a file that is not Python, or of another version."""
    try:
        data = file.read_bytes()
        return ast.parse(as_script(data, file.name).text if file.suffix == ".ipynb" else data)
    except (OSError, SyntaxError, ValueError, NotebookScriptError):
        return None


def _up(folder: Path, root: Path) -> list[Path]:
    """Return the folder and those above it, up to the project's."""
    return [each for each in (folder, *folder.parents) if each == root or root in each.parents]


def _imported(place: Path, tree: ast.Module, bases: list[Path]) -> Iterator[Path]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from _files(bases, alias.name)
        elif isinstance(node, ast.ImportFrom):
            beside = place.parents[min(node.level, len(place.parents)) - 1]
            for alias in node.names:
                dotted = f"{node.module or ''}.{alias.name}".strip(".")
                yield from _files([beside] if node.level else bases, dotted)
        elif isinstance(node, ast.Call) and node.args:
            if getattr(node.func, "attr", getattr(node.func, "id", "")) in _BY_NAME:
                yield from _by_name(node.args[0], bases)


def _files(bases: list[Path], dotted: str) -> Iterator[Path]:
    """Yield the files that the import of a name may load: the packages in it, and the module."""
    parts = dotted.split(".")
    for base in bases if parts[0] not in _RUNTIME else ():
        yield base / "__init__.py"
        for count in range(1, len(parts) + 1):
            name = base.joinpath(*parts[:count])
            yield from (name / "__init__.py", name.with_name(f"{name.name}.py"))


def _by_name(name: ast.expr, bases: list[Path]) -> Iterator[Path]:
    if isinstance(name, ast.Constant):
        yield from _files(bases, str(name.value).lstrip("."))
        return
    first = next((n for n in ast.walk(name) if isinstance(n, ast.Constant)), None)
    known = str(first.value).lstrip(".") if first is not None else ""
    package = known.rpartition(".")[0].split(".") if "." in known else []
    for base in bases if package else bases[:1]:
        yield from sorted(base.joinpath(*package).rglob("*.py"))
