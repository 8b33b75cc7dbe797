"""What is to be said of a rule stands on the rule: no module keeps a list of rules' codes."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from xla_codemods import catalog, suppress
from xla_codemods import rules as rules_package
from xla_codemods.rules import RULES, every_rule
from xla_migrate import results
from xla_migrate.manuals import OURS

ROOT = Path(__file__).parents[2]
RULES_FOLDER = Path(rules_package.__file__).parent

# Modules that may hold a code, or a beginning of codes, as a value, and why.
MAY = {
    "codemods/xla_codemods/suppress.py": "its own finding: an unused suppression",
    "codemods/xla_codemods/wrappers.py": "its own rule, of the user's settings",
    "codemods/xla_codemods/analysis/by_hand/written.py": "the note on what is left there, itself",
    "src/xla_migrate/results.py": "the command's own findings",
    "src/xla_migrate/target/launch_files/codes.py": "the findings in files that are no Python",
    **{
        f"src/xla_migrate/known_errors/{topic}.py": "the rules that an error refers to"
        for topic in ("compilation", "environment", "processes", "tensors")
    },
}
# Rows of the catalog name the rule that deals with them; tests/codemods/catalog holds every one to it.
CATALOG = "codemods/xla_codemods/catalog/"


@cache
def strings(file: Path) -> tuple[str, ...]:
    """The strings with a code in a module, but for those that stand as statements (docstrings)."""
    text = file.read_bytes()
    if not re.search(rb"XLA\d", text):
        return ()
    nodes = list(ast.walk(ast.parse(text)))
    alone = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    found = (n.value for n in nodes if isinstance(n, ast.Constant) and id(n) not in alone)
    return tuple(value for value in found if isinstance(value, str) and "XLA" in value)


def modules() -> Iterator[tuple[str, Path]]:
    for base in ("codemods", "src"):
        for file in sorted((ROOT / base).rglob("*.py")):
            yield file.relative_to(ROOT).as_posix(), file


def test_codes_are_listed_nowhere() -> None:
    codes = {
        name: sorted({text for text in strings(file) if re.fullmatch(r"XLA\d{1,3}", text)})
        for name, file in modules()
        if RULES_FOLDER not in file.parents and not name.startswith(CATALOG)
    }
    assert {name for name, found in codes.items() if found} == set(MAY)


def test_a_rule_names_no_code_but_its_own() -> None:
    for file in RULES_FOLDER.rglob("[!_]*.py"):
        found = [text for text in strings(file) if re.fullmatch(r"XLA\d{1,3}", text)]
        assert len(found) <= 1, f"{file.name}: {found}"


def test_a_code_in_a_message_is_one_that_there_is() -> None:
    known = {rule.code for rule in every_rule()} | set(OURS) | {"XLA003"}
    said = {
        (name, code)
        for name, file in modules()
        for text in strings(file)
        for code in re.findall(r"XLA\d{3}", text)
    }
    assert {(name, code) for name, code in said if code not in known} == set()


def test_codes_that_are_said_in_two_rooms_are_the_same() -> None:
    """The catalog is below the rules, and the command's results import no codemods."""
    assert catalog.CATCH_ALL in {rule.code for rule in RULES if rule.name == "cuda-only"}
    assert results.UNUSED_SUPPRESSION in set(strings(Path(suppress.__file__)))
