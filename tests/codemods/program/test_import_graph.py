"""What modules load, compared with a walk from each module, on random graphs with cycles."""

from __future__ import annotations

import random

import pytest

from xla_codemods.patterns import Pattern
from xla_codemods.program.import_graph import ImportGraph
from xla_codemods.program.texts import Texts


def _walk(start: str, edges: dict[str, set[str]]) -> set[str]:
    seen, work = {start}, [start]
    while work:
        for other in edges[work.pop()] - seen:
            seen.add(other)
            work.append(other)
    return seen


@pytest.mark.parametrize("seed", range(60))
def test_closures_are_those_of_a_walk_from_each_module(seed: int) -> None:
    draw = random.Random(seed)
    paths = [f"{i}.py" for i in range(draw.randint(1, 12))]
    density = draw.choice((0.05, 0.15, 0.3))
    edges = {p: {q for q in paths if q != p and draw.random() < density} for p in paths}
    graph = ImportGraph(edges)
    reached = {path: _walk(path, edges) for path in paths}
    for path in paths:
        loading = {p for p in paths if path in reached[p]}
        assert graph.loaded_by(path) == reached[path]
        assert graph.loading(path) == loading
        assert graph.programs(path) == set().union(*(reached[p] for p in loading))


def test_modules_are_connected_by_imports_in_any_direction() -> None:
    graph = ImportGraph({"a.py": {"b.py"}, "b.py": set(), "c.py": {"b.py"}, "d.py": set()})
    assert graph.connected("a.py") == {"a.py", "b.py", "c.py"}
    assert graph.connected("d.py") == {"d.py"}


def test_a_word_is_found_as_a_whole_identifier_only() -> None:
    texts = Texts({"a.py": b"train_step(x)", "b.py": b"def train(): ...", "c.py": b"\xff.train"})
    assert texts.with_word("train") == {"b.py", "c.py"}
    assert texts.with_word_like(Pattern(r"^train")) == {"a.py", "b.py", "c.py"}
    assert not texts.with_word_like(Pattern(r"train test"))
    assert texts.having(("train_", "absent")) == {"a.py"}


def test_a_file_that_is_analysed_alone_has_no_text_among_the_programs() -> None:
    assert Texts({}).text("train.py") == ""


def test_users_import_a_module_through_its_package() -> None:
    imported = {
        "train.py": {"utils/__init__.py"},
        "other.py": {"train.py"},
        "utils/__init__.py": {"utils/meters.py"},
        "utils/meters.py": {"utils/__init__.py"},
    }
    users = ImportGraph(imported).users("utils/meters.py")
    assert users == {"utils/__init__.py", "train.py"}
