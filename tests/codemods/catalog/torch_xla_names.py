"""Print the public names of older releases of torch_xla that the installed one lacks: what catalog/torch_xla.py is made of.

    python tests/codemods/catalog/torch_xla_names.py FOLDER...

Each folder holds the sources of one release, oldest first: an unpacked wheel, or a checkout of a tag. A name is printed with
the first and the last of the folders that have it; a module that is gone stands for all in it.
"""

from __future__ import annotations

import ast
import importlib
import logging
import os
import sys
from collections.abc import Iterator
from pathlib import Path


def public_names(release: Path) -> Iterator[str]:
    """The modules of one release, and what they define or hand on from other parts of torch_xla."""
    for file in sorted((release / "torch_xla").rglob("*.py")):
        parts = file.relative_to(release).with_suffix("").parts
        module = ".".join(part for part in parts if part != "__init__")
        if any(part.startswith("_") for part in module.split(".")):
            continue
        yield module
        for name in _defined(ast.parse(file.read_text()), file.name == "__init__.py"):
            if not name.startswith("_"):
                yield f"{module}.{name}"


def _defined(tree: ast.Module, hands_on: bool) -> Iterator[str]:
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            yield node.name
        elif isinstance(node, ast.Assign):
            yield from (target.id for target in node.targets if isinstance(target, ast.Name))
        elif isinstance(node, ast.ImportFrom):
            if hands_on or node.level or (node.module or "").startswith("torch_xla"):
                yield from (alias.asname or alias.name for alias in node.names)


def is_there(dotted: str) -> bool:
    """Whether the installed torch_xla has it, as an attribute or a module that can be imported."""
    found, path = importlib.import_module("torch_xla"), "torch_xla"
    for part in dotted.split(".")[1:]:
        path = f"{path}.{part}"
        if hasattr(found, part):
            found = getattr(found, part)
            continue
        try:
            found = importlib.import_module(path)
        except ImportError:
            return False
    return True


def main(releases: list[str]) -> None:
    os.environ.setdefault("PJRT_DEVICE", "CPU")
    logging.disable(logging.WARNING)
    had: dict[str, list[str]] = {}
    for release in releases:
        for dotted in public_names(Path(release)):
            had.setdefault(dotted, []).append(release)
    gone = {dotted for dotted in had if not is_there(dotted)}
    for dotted in sorted(gone):
        if dotted.rpartition(".")[0] not in gone:
            print(dotted, had[dotted][0], had[dotted][-1])


if __name__ == "__main__":
    main(sys.argv[1:])
