"""The page of the rooms: every folder of the sources, and every module in it by the first sentence of its docstring."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCES = (ROOT / "codemods" / "xla_codemods", ROOT / "src" / "xla_migrate")
RULES = SOURCES[0] / "rules"

INTRODUCTION = """
# Where things are

Every folder of the sources and every module in it, with the first sentence of its docstring. How the parts work
together is explained in [Architecture](architecture.md). A rule is a file of `rules/<topic>/`; all of them are listed under
[Rules](rules/index.md).
"""


def page(mark: str) -> str:
    """The text of docs/rooms.md, below `mark`."""
    parts = [mark, INTRODUCTION.strip()]
    for source in SOURCES:
        for folder in sorted({path.parent for path in _modules(source)}):
            parts.append("\n".join(_room(folder)))
    return "\n\n".join(parts) + "\n"


def _modules(source: Path) -> Iterator[Path]:
    for path in source.rglob("*.py"):
        if RULES not in path.parents or path.name == "__init__.py":
            yield path


def _room(folder: Path) -> Iterator[str]:
    yield f"## `{folder.relative_to(ROOT).as_posix()}`\n"
    yield first_sentence(folder / "__init__.py") + "\n"
    modules = [m for m in sorted(folder.glob("*.py")) if m.name != "__init__.py"]
    if not modules or folder == RULES or RULES in folder.parents:
        return
    yield "| module | content |"
    yield "| --- | --- |"
    for path in modules:
        said = first_sentence(path).replace("|", "\\|")
        yield f"| `{path.stem}` | {said} |"


def first_sentence(path: Path) -> str:
    """Return the first sentence of the module's docstring; empty if it has none."""
    if not path.is_file():
        return ""
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    paragraph = " ".join(text.split("\n\n")[0].split())
    found = re.match(r".*?[.?!](?=\s+[A-Z`]|$)", paragraph)
    return found.group() if found else paragraph
