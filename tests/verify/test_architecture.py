"""The rooms of `verify`: arrows go one way, no import cycles, no crowded folder."""

from __future__ import annotations

import ast
from pathlib import Path

import xla_migrate.verify

ROOT = Path(xla_migrate.verify.__file__).parent
PACKAGE = "xla_migrate.verify"
# Who may import whom, of the rooms; `observe.boot` is a script, and puts observe and redirect together.
MAY = {
    "experiments": {"judge", "observe", "recordings"},
    "recordings": {"judge", "observe"},
    "observe": set(),
    "redirect": {"observe"},
    "stubs": set(),
    "judge": {"observe"},  # the words of its plan
    "report": {"judge"},
}
MOST_MODULES = 20


def name_of(path: Path) -> str:
    parts = [PACKAGE, *path.relative_to(ROOT).with_suffix("").parts]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {name_of(path): path for path in ROOT.rglob("*.py")}


def imports(name: str) -> set[str]:
    """Full names of all that a module imports, wherever it does and under TYPE_CHECKING too."""
    path, found = MODULES[name], set()
    package = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            start = ".".join([*base, *([node.module] if node.module else [])])
            for alias in node.names:
                full = f"{start}.{alias.name}"
                found.add(full if full in MODULES else start)
    return found


def room(name: str) -> str:
    parts = name.removeprefix(PACKAGE).split(".")
    return parts[1] if len(parts) > 1 else ""


def test_arrows_between_the_rooms_go_one_way() -> None:
    wrong = [
        (name, other)
        for name in MODULES
        for other in imports(name) & set(MODULES)
        if room(name) in MAY and not name.endswith("sitecustomize")
        if room(other) != room(name) and room(other) not in MAY[room(name)]
    ]
    assert wrong == []


WIDTH = "xla_migrate.reports.width"  # of the terminal
ERRORS = "xla_migrate.known_errors.explain"


def test_no_room_asks_the_command_and_only_experiments_ask_the_rest_of_the_package() -> None:
    allowed = ("xla_migrate.files", "xla_migrate.script_environment", "xla_migrate.results")
    for name in MODULES:
        for other in imports(name):
            if not other.startswith(("xla_migrate", "xla_codemods")) or other.startswith(PACKAGE):
                continue
            known = room(name) == "experiments" and other.startswith(allowed)
            # `probe` is what `doctor` runs in a process of its own, on the runtime.
            version = room(name) == "report" and other in ("xla_migrate", ERRORS, WIDTH)
            probes = name.endswith(".probe") and (
                other == "xla_migrate" or other.startswith("xla_migrate.runtime")
            )
            assert known or version or probes, (name, other)


def test_there_is_no_import_cycle() -> None:
    graph = {name: imports(name) & set(MODULES) for name in MODULES}
    done: set[str] = set()

    def visit(name: str, path: tuple[str, ...]) -> None:
        assert name not in path, " -> ".join([*path[path.index(name) :], name])
        if name in done:
            return
        for other in graph[name]:
            visit(other, (*path, name))
        done.add(name)

    for name in graph:
        visit(name, ())


def test_no_folder_is_crowded() -> None:
    for folder in {path.parent for path in MODULES.values()}:
        assert len(list(folder.glob("*.py"))) <= MOST_MODULES, folder


def test_what_runs_in_the_scripts_process_does_not_load_the_judges() -> None:
    """They would cost each of its processes their imports."""
    for name in MODULES:
        if room(name) in ("observe", "redirect", "stubs"):
            assert not any(room(o) in ("judge", "report", "experiments") for o in imports(name))
