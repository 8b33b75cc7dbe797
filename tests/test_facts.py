"""docs/facts.md has every fact that is cited, and each has a test that does the experiment."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
LISTED = re.findall(
    r"^\| <a id=\"fact-\d-\d+\"></a>(\d\.\d+) \|", (ROOT / "docs" / "facts.md").read_text(), re.M
)


def readable() -> Iterator[tuple[Path, str]]:
    """What users read: the rules and their pages, the command, the runtime and the manual."""
    yield ROOT / "README.md", (ROOT / "README.md").read_text()
    for folder in ("codemods", "src", "docs"):
        for path in (ROOT / folder).rglob("*"):
            if path.suffix in {".py", ".md", ".toml"}:
                yield path, path.read_text()


def test_every_cited_fact_is_listed() -> None:
    for path, text in readable():
        assert "xla-facts" not in text, f"{path}: no document that users have"
        cited = {
            number
            for numbers in re.findall(r"\bfacts?\s+(\d\.\d+(?:,\s+\d\.\d+)*)", text)
            for number in re.findall(r"\d\.\d+", numbers)
        }
        assert cited <= set(LISTED), path


def test_the_runtime_cites_by_number_alone() -> None:
    for path in (ROOT / "src" / "xla_migrate" / "runtime").rglob("*.py"):
        cited = set(re.findall(r"\(([1-9]\.\d+)\)", path.read_text()))
        assert cited - {"1.0"} <= set(LISTED), path


def test_every_listed_fact_has_a_test() -> None:
    tests = "".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    names = re.findall(r"def (test_fact_\w+)", tests)
    for fact in LISTED:
        number = fact.replace(".", "_")
        assert any(re.search(rf"_{number}(?!\d)", name) for name in names), fact
