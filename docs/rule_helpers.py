"""Generate the page about rule helpers: `Script`, and every public name of the modules that rules import.

The text is read from the sources: the first sentence of a docstring, the comment next to or above a constant,
the `Attributes:` of a class. A name without text is an error: `missing()` returns it, and tests/test_docs.py fails.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, Union

CODEMODS = Path(__file__).parents[1] / "codemods" / "xla_codemods"
FACADE = ("analysis/script.py", "analysis/parsed_file.py", "analysis/index.py")

# Headings, by the beginning of the modules' paths; the first that fits.
SECTIONS = {
    "rule.py": "A rule",
    "finding.py": "A finding",
    "symptoms.py": "A finding",
    "edits.py": "Fixes",
    "fallback.py": "Fallbacks: names that no other rule deals with",
    "catalog": "Fallbacks: names that no other rule deals with",
    "patterns.py": "Source text and syntax",
    "analysis/syntax.py": "Source text and syntax",
    "analysis/nodes.py": "Source text and syntax",
    "analysis/scopes.py": "Names and values",
    "analysis/inference": "Names and values",
    "analysis/cuda_names.py": "Names and values",
    "analysis/type_tests.py": "Names and values",
    "analysis/devices": "Devices",
    "analysis/training": "Training",
    "analysis/loops.py": "Training",
    "": "Libraries and services",
}

INTRODUCTION = """
# What rules can ask

Every name that rules lean on, by the module that it is imported from (`...` is `xla_codemods`, as a rule in
`rules/<topic>/` writes it). How a rule is written, see [Writing a rule](writing-rules.md).

Where to look first:

| question | answer |
| --- | --- |
| which dotted name is this, whatever it is called here? | `script.dotted(node)` |
| what is it, and where does it live? | `script.value(node)`, with the kinds of `...analysis.inference.values` |
| how do I write a dotted name in this file? | `script.spell(dotted, scope)`; the runtime is `script.xla` |
| does the file train, on an accelerator? | `script.trains`, `script.is_trained`; `script.accelerated`, `script.runs_accelerated` |
| where are its loops and steps? | `script.training` (`...analysis.training.training`) |
| which devices does it name, and where? | `script.devices` (`...analysis.devices.specs`), `script.device_literals` |
| how is an answer computed once a file? | `script.cached(find)` |
| what of CUDA has no other rule dealt with? | a check with `@RULE.fallback`, and `...fallback.leftovers` |
"""


class Name(NamedTuple):
    """A public name: how it is written, and what it is."""

    written: str
    meaning: str


Definition = Union[ast.FunctionDef, ast.ClassDef]


def page(mark: str) -> str:
    """The page, below `mark`."""
    text = f"{mark}{INTRODUCTION}"
    text += "\n## The script\n\n`script`, the first argument of each check: `...analysis.script.Script`.\n\n"
    text += _table(script())
    for title, modules in _sections():
        text += f"\n## {title}\n"
        for module in modules:
            text += f"\n### `{dotted(module)}`\n\n{_summary(module)}\n\n{_table(public(module))}"
    return text


def missing() -> list[str]:
    """Return the public names that have no description."""
    found = [f"Script: {name.written}" for name in script() if not name.meaning]
    for _, modules in _sections():
        for module in modules:
            found += [f"{module}: {n.written}" for n in public(module) if not n.meaning]
    return found


def script() -> list[Name]:
    """The public attributes and methods of `Script`."""
    found: list[Name] = []
    for path in reversed(FACADE):
        tree = ast.parse((CODEMODS / path).read_bytes())
        facade = next(node for node in tree.body if isinstance(node, ast.ClassDef))
        found += _attributes(facade)
        found += [
            Name(_written(node), _first_sentence(node))
            for node in facade.body
            if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")
        ]
    return found


def public(module: str) -> list[Name]:
    """The public names that a module defines, in its order; of a class, its methods too. Of a protocol, only the name."""
    text = (CODEMODS / module).read_text(encoding="utf-8")
    lines = text.splitlines()
    found: list[Name] = []
    for node in ast.parse(text).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            if not node.name.startswith("_"):
                found += _defined(node)
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            names = [name for name in _assigned(node) if not name.startswith("_")]
            if names and not ast.unparse(node).partition(" = ")[2].startswith("TypeVar("):
                found.append(Name(", ".join(names), _comment(lines, node)))
    return found


def _is_protocol(node: Definition) -> bool:
    return isinstance(node, ast.ClassDef) and "Protocol" in map(ast.unparse, node.bases)


def imported() -> set[str]:
    """The modules that rules import names from, as paths below xla_codemods."""
    found = set()
    for rule in (CODEMODS / "rules").glob("*/*.py"):
        folder = rule.parent
        for node in ast.walk(ast.parse(rule.read_bytes())):
            if isinstance(node, ast.ImportFrom) and node.level > 1:
                base = folder.parents[node.level - 2].joinpath(*(node.module or "").split("."))
                for alias in node.names:
                    found.add(_file(base / alias.name) or _file(base))
    return {file.relative_to(CODEMODS).as_posix() for file in found if file is not None}


def _file(path: Path) -> Path | None:
    for file in (path.with_suffix(".py"), path / "__init__.py"):
        if file.is_file():
            return file
    return None


def _sections() -> Iterator[tuple[str, list[str]]]:
    sections: dict[str, list[str]] = {title: [] for title in SECTIONS.values()}
    for module in sorted(imported() - set(FACADE)):
        start = next(start for start in SECTIONS if module.startswith(start))
        sections[SECTIONS[start]].append(module)
    yield from sections.items()


def dotted(module: str) -> str:
    """A module as a rule imports it."""
    return "..." + module.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _summary(module: str) -> str:
    doc = ast.get_docstring(ast.parse((CODEMODS / module).read_bytes())) or ""
    return " ".join(doc.partition("\n\n")[0].split())


def _table(names: list[Name]) -> str:
    rows = "".join(f"| `{name.written}` | {_cell(name.meaning)} |\n" for name in names)
    return f"| | |\n| --- | --- |\n{rows}"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _defined(node: Definition) -> Iterator[Name]:
    yield Name(_written(node), _first_sentence(node))
    if isinstance(node, ast.ClassDef) and not _is_protocol(node):
        yield from _attributes(node, f"{node.name}.")
        for method in node.body:
            if isinstance(method, ast.FunctionDef) and not method.name.startswith("_"):
                yield Name(f"{node.name}.{_written(method)}", _first_sentence(method))


def _attributes(node: ast.ClassDef, prefix: str = "") -> Iterator[Name]:
    """What its docstring lists under "Attributes:"."""
    doc = inspect.cleandoc(ast.get_docstring(node) or "")
    listed = doc.partition("Attributes:\n")[2]
    for names, meaning in re.findall(r"^ {4}([\w, ]+): (.*(?:\n {5,}.*)*)", listed, re.MULTILINE):
        yield Name(f"{prefix}{names}", " ".join(meaning.split()))


def _written(node: Definition) -> str:
    if isinstance(node, ast.ClassDef) or _is_property(node):
        return node.name
    arguments = ast.unparse(_plain(node.args))
    return f"{node.name}({arguments.removeprefix('self, ').removeprefix('self')})"


def _is_property(node: ast.FunctionDef) -> bool:
    return any("property" in ast.unparse(decorator) for decorator in node.decorator_list)


def _plain(arguments: ast.arguments) -> ast.arguments:
    """The arguments without their types."""
    for argument in ast.walk(arguments):
        if isinstance(argument, ast.arg):
            argument.annotation = None
    return arguments


def _first_sentence(node: Definition) -> str:
    paragraph = " ".join((ast.get_docstring(node) or "").partition("\n\n")[0].split())
    sentence = re.match(r".*?\.(?= [A-Z`]|$)", paragraph)
    return sentence[0] if sentence else paragraph


def _assigned(node: ast.Assign | ast.AnnAssign) -> list[str]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return [n.id for target in targets for n in ast.walk(target) if isinstance(n, ast.Name)]


def _comment(lines: list[str], node: ast.stmt) -> str:
    """The comment at the end of its first line, or the last one above it in its block."""
    beside = re.search(r"  # (.*)$", lines[node.lineno - 1])
    if beside:
        return beside[1]
    found: list[str] = []
    for line in reversed(lines[: node.lineno - 1]):
        if line.startswith("# "):
            found.insert(0, line[2:])
        elif found or not line:
            break
    return " ".join(found)
