"""Which arguments of one graph are which of another that computes the same, and more.

torch_xla says which tensor each argument of a graph is, but only for the results that Python knows. Autograd and views
hold more. So the graph of the known results is laid over the graph of all: results that are computed alike are the
same, and from there down to the arguments.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass

from .mlir import Graph, body

_USED = re.compile(r"%[\w$.-]+(?:#\d+)?")
_DEFINED = re.compile(r"^    (%[%\w$.:, -]+?) = ", re.MULTILINE)


@dataclass
class _Program:
    """`statements[value]`: (what is done, the values that it is done to)."""

    statements: dict[str, tuple[str, list[str]]]
    arguments: dict[str, str]
    hashes: dict[str, int]


def arguments(part: Graph, whole: Graph) -> dict[int, int]:
    """Map positions of arguments of `part` to positions in `whole`; ambiguous arguments are omitted."""
    a, b = _program(part), _program(whole)
    out: dict[int, int] = {}
    given = [
        {name: graph.kept[i] for i, (name, _, _) in enumerate(graph.arguments)}
        for graph in (part, whole)
    ]
    seen: set[tuple[str, str]] = set()
    waiting = _same_results(a, b, part, whole)
    while waiting:
        pair = waiting.pop()
        if pair in seen:
            continue
        seen.add(pair)
        mine, theirs = pair
        if mine in a.arguments and theirs in b.arguments:
            out[given[0][mine]] = given[1][theirs]
        elif mine in a.statements and theirs in b.statements:
            waiting += zip(a.statements[mine][1], b.statements[theirs][1])
    return out


def _same_results(a: _Program, b: _Program, part: Graph, whole: Graph) -> list[tuple[str, str]]:
    groups: dict[int, tuple[list[str], list[str]]] = defaultdict(lambda: ([], []))
    for side, (program, graph) in enumerate(((a, part), (b, whole))):
        for value, _, _ in graph.results:
            groups[_hash(program, value)][side].append(value)
    # Results are in the same order in both. If one has more results that look alike, the match is ambiguous.
    return [
        pair
        for mine, theirs in groups.values()
        if len(mine) == len(theirs)
        for pair in zip(mine, theirs)
    ]


def _program(graph: Graph) -> _Program:
    kinds = {name: kind for name, kind, _ in graph.arguments}
    program = _Program({}, kinds, {})
    text = body(graph.text)
    starts = [*_DEFINED.finditer(text)]
    ends = [found.start() for found in starts[1:]] + [len(text)]
    for found, end in zip(starts, ends):
        done = text[found.end() : end]
        used = _USED.findall(done)
        what = _USED.sub("%", done)
        for name, place in _names(found.group(1)):
            program.statements[name] = (f"{place} {what}", used)
    for name in program.statements:  # in order: what a statement uses comes before it
        _hash(program, name)
    return program


def _names(defined: str) -> list[tuple[str, int]]:
    """The values of `%a, %b` or `%5:2`, as they are used, with their places."""
    name, colon, count = defined.partition(":")
    if colon:
        return [(f"{name}#{i}", i) for i in range(int(count))]
    return [(one.strip(), i) for i, one in enumerate(defined.split(","))]


def _hash(program: _Program, value: str) -> int:
    known = program.hashes.get(value)
    if known is None:
        if value in program.arguments:
            known = hash(("argument", program.arguments[value]))
        elif value in program.statements:
            what, used = program.statements[value]
            known = hash(
                (what, *(program.hashes.get(one, _hash_leaf(program, one)) for one in used))
            )
        else:
            known = hash("local")
        program.hashes[value] = known
    return known


def _hash_leaf(program: _Program, value: str) -> int:
    return (
        hash(("argument", program.arguments[value]))
        if value in program.arguments
        else hash("local")
    )
