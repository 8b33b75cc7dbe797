"""The house: no import goes in a circle or backwards, no folder is too wide, no rule asks its neighbour."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from xla_codemods.rule import Rule
from xla_codemods.rules import ORIGINS, RULES, every_rule

ROOT = Path(__file__).parents[1]
MODULES_IN_A_FOLDER = 20
LINES_OF_THE_RUNTIMES_CORE = 2_500
# Who may not import whom: the big rooms, from low to high. A room imports those before it, and itself.
ARROWS = {
    "xla_codemods": ("xla_migrate", "torch", "torch_xla"),
    "xla_codemods.catalog": ("xla_codemods.analysis", "xla_codemods.rules", "xla_codemods.engine"),
    "xla_codemods.analysis": (
        "xla_codemods.rules",
        "xla_codemods.engine",
        "xla_codemods.rewriting",
    ),
    "xla_codemods.rules": ("xla_codemods.engine", "xla_codemods.rewriting", "libcst"),
    "xla_codemods.rewriting": ("xla_codemods.rules", "xla_codemods.engine"),
    "xla_migrate.compiler": (
        "xla_migrate.cli",
        "xla_migrate.verify",
        "xla_migrate.runtime",
        "torch",
    ),
    "xla_migrate.runtime": (
        "libcst",
        "xla_codemods",
        "xla_migrate.cli",
        "xla_migrate.verify",
        "xla_migrate.target",
        "xla_migrate.files",
    ),
    "xla_migrate.verify": ("xla_migrate.cli", "xla_migrate.target", "xla_codemods"),
    "xla_migrate.target": ("xla_migrate.cli",),
    "xla_migrate.files": ("xla_migrate.cli", "xla_migrate.verify", "xla_migrate.target"),
    "xla_migrate.reports": ("xla_migrate.cli", "xla_migrate.verify", "xla_migrate.target"),
}
# Public classes of one name, and why there are several.
SHARED_NAMES = {
    # The name is torch's or a package's: what stands for it, on each backend or as a stub.
    "DistributedDataParallel",
    "FullyShardedDataParallel",
    "FusedAdam",
    "Trace",
    "XlaFullyShardedDataParallel",
    # One interface, on each backend.
    "Recorder",
}


@cache
def modules() -> dict[str, Path]:
    """The dotted name of every module of ours, with its file."""
    found = {}
    for base in ("codemods", "src"):
        for file in (ROOT / base).rglob("*.py"):
            parts = file.relative_to(ROOT / base).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = file
    return found


@cache
def tree(file: Path) -> ast.Module:
    """The syntax tree of a module, which several tests read."""
    return ast.parse(file.read_bytes())


def statements(file: Path) -> Iterator[ast.stmt]:
    """Every statement of a module; a walk over the expressions, too, would take ten times as long."""
    waiting: list[ast.stmt] = list(tree(file).body)
    while waiting:
        node = waiting.pop()
        yield node
        for name in ("body", "orelse", "finalbody"):
            waiting += getattr(node, name, ())
        for part in (*getattr(node, "handlers", ()), *getattr(node, "cases", ())):
            waiting += part.body


@cache
def imports(name: str) -> tuple[str, ...]:
    """What the module imports, anywhere in it and for its types alone, too; modules of ours by their whole name."""
    return tuple(_imports(name))


def _imports(name: str) -> Iterator[str]:
    file = modules()[name]
    package = name if file.name == "__init__.py" else name.rpartition(".")[0]
    for node in statements(file):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1]
            base = ".".join(above) if node.level else ""
            home = ".".join(part for part in (base, node.module or "") if part)
            for alias in node.names:
                inner = f"{home}.{alias.name}"
                yield inner if inner in modules() else home


@cache
def graph() -> dict[str, frozenset[str]]:
    """Module -> the modules of ours that it imports, its own package left out."""
    return {
        name: frozenset(
            other
            for other in imports(name)
            if other in modules() and other != name and not name.startswith(f"{other}.")
        )
        for name in modules()
    }


def circle(wanted: dict[str, frozenset[str]]) -> list[str]:
    """Modules that import each other in a circle; empty where there is none."""
    done: set[str] = set()
    for start in wanted:
        path: list[str] = []
        stack = [(start, iter(wanted[start]))] if start not in done else []
        path += [start] if stack else []
        while stack:
            node, rest = stack[-1]
            other = next(rest, None)
            if other is None:
                done.add(node)
                stack.pop()
                path.pop()
            elif other in path:
                return [*path[path.index(other) :], other]
            elif other not in done:
                stack.append((other, iter(wanted[other])))
                path.append(other)
    return []


def test_no_import_goes_in_a_circle() -> None:
    assert circle(graph()) == []


def test_a_circle_is_seen() -> None:
    wanted = {"a": frozenset("b"), "b": frozenset("c"), "c": frozenset("b")}
    assert circle(wanted) == ["b", "c", "b"]


def test_arrows_between_the_rooms_go_one_way() -> None:
    wrong = [
        f"{name} imports {other}"
        for room, refused in ARROWS.items()
        for name in modules()
        if name == room or name.startswith(f"{room}.")
        for other in imports(name)
        if any(other == r or other.startswith(f"{r}.") for r in refused)
    ]
    assert wrong == []


def test_no_rule_imports_a_rule() -> None:
    rules = {name for name in modules() if name.startswith("xla_codemods.rules.")}
    wrong = [(name, other) for name in rules for other in graph()[name] if other in rules]
    assert wrong == []


def test_no_folder_is_too_wide() -> None:
    widths: dict[Path, int] = {}
    for file in modules().values():
        widths[file.parent] = widths.get(file.parent, 0) + (file.name != "__init__.py")
    wide = {str(folder): width for folder, width in widths.items() if width > MODULES_IN_A_FOLDER}
    assert wide == {}


def test_a_name_is_that_of_one_class() -> None:
    homes: dict[str, list[str]] = {}
    for name, file in modules().items():
        for node in statements(file):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes.setdefault(node.name, []).append(name)
    assert {name for name, where in homes.items() if len(where) > 1} == SHARED_NAMES


def test_the_runtimes_core_is_small() -> None:
    """Lines without docstrings: what public names do is told at length, with an example each."""
    files = (ROOT / "src/xla_migrate/runtime").glob("*.py")
    assert sum(map(lines_of_code, files)) <= LINES_OF_THE_RUNTIMES_CORE


def lines_of_code(file: Path) -> int:
    text = file.read_text()
    told = 0
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(
            node
        ):
            told += (node.body[0].end_lineno or 0) - node.body[0].lineno + 1
    return len(text.splitlines()) - told


def described(rule: Rule) -> dict[str, object]:
    """Return what the index of rules says of one: all but the symptoms that `verify` may find."""
    return {
        name: set(value) if isinstance(value, dict) else value
        for name, value in vars(rule).items()
        if name not in {"behind", "changes_nothing"}
    }


def test_the_index_says_what_the_rules_say() -> None:
    imported = [r for r in every_rule() if r.module.split(".")[-2] not in ORIGINS]
    stale = [rule.code for rule in imported if described(rule) not in map(described, RULES)]
    assert not stale, "run `python docs/generate.py`"
    assert len(RULES) == len(imported), "run `python docs/generate.py`"
