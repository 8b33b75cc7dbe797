"""Where values come from, through functions that pass parts of their arguments to each other."""

from __future__ import annotations

import ast

from xla_codemods.analysis.projects.passed_arguments import passed_arguments
from xla_codemods.analysis.projects.sources import Place, ValueSources
from xla_codemods.analysis.script import Script
from xla_codemods.flow.closure import reach
from xla_codemods.source import Source

PART = """
def part_{i}(points, size=None):
    first, second = points[0], points[1]
    if size is None:
        return part_{j}(points[0], second), part_{k}(second[0], first)
    return points, part_{j}((second, first, points[1]), size)
"""


def test_parts_of_parts_do_not_multiply() -> None:
    """Five functions have 656 places. Each index more in the longest path doubles them: ten make 94,636."""
    parts = (PART.format(i=i, j=(i + 1) % 5, k=(i + 3) % 5) for i in range(5))
    script = Script(Source("".join(parts).encode()))
    sources = ValueSources(passed_arguments(script))
    home = sources.callees.home
    read = next(n for n in ast.walk(script.tree) if isinstance(n, ast.Name) and n.id == "points")
    start = Place(read, home)
    assert 100 < len(reach([start], sources.of)) < 1_000
