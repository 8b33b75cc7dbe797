"""A row of the catalog, and functions that make rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

# What becomes of a name on XLA.
REWRITTEN = "rewritten"  # a rule puts `instead` in its place
REMOVED = "removed"  # a rule takes it away: there is nothing to do on XLA
RUNTIME = "by hand"  # `instead` replaces it; the user decides where to put it
STAYS = "stays"  # it works, or does no harm
ABSENT = "no equivalent"  # `note` says what to do

# The kind of difference between it and what stands instead.
SAME = "same"
RENAMED = "renamed"
ARGUMENTS = "arguments differ"
CONTEXT = "depends on context"
NONE = "absent"

OF_A_MODULE = "replace each of its names that the script uses"  # the note of a module

# What happens on XLA if it is left as it is.
RAISES = "raises"
SILENT = "silently wrong"
SLOW = "slow"
HARMLESS = "harmless"


class Row(NamedTuple):
    """One CUDA-only name.

    `torch`: the versions of torch (of a package: "any") that the row holds for, as "all", "2.6+" or "<2.2".
    `evidence`: "measured" by tests/codemods/catalog/test_outcomes.py, the number of a fact in docs/facts.md ("fact
    1.71"), or "docs" of the library concerned.
    """

    name: str
    fate: str
    instead: str
    note: str
    difference: str
    left: str
    rule: str
    torch: str
    evidence: str


Text = str | tuple[str, str]


def rows(
    prefix: str,
    fate: str,
    difference: str,
    left: str,
    names: Mapping[str, Text],
    *,
    rule: str = "",
    torch: str = "all",
    evidence: str = "measured",
) -> Iterator[Row]:
    """Rows that agree in all but name and text.

    A name's text is its replacement or, without one, the advice; a pair is both.
    """
    for name, text in names.items():
        if isinstance(text, tuple):
            instead, note = text
        elif fate in {REWRITTEN, RUNTIME}:
            instead, note = text, ""
        else:
            instead, note = "", text
        dotted = f"{prefix}.{name}" if prefix else name
        yield Row(dotted, fate, instead, note, difference, left, rule, torch, evidence)


def also(prefix: str, names: Iterable[str], known: Iterable[Row]) -> Iterator[Row]:
    """Rows of names that are other rows' under a second prefix: `torch.cuda.random.seed` is `torch.cuda.seed`."""
    by_end = {row.name.rpartition(".")[2]: row for row in known}
    for name in names:
        yield by_end[name]._replace(name=f"{prefix}.{name}")
