"""Loaders of graphs: their batches have another number of nodes and edges each time."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ...parsed_file import ParsedFile

_HOMES = ("torch_geometric.loader", "torch_geometric.data", "dgl.dataloading")
_MADE = ("Loader", "Sampler")


def graph_loaders(script: ParsedFile) -> Iterator[ast.Call]:
    """Calls that make loaders of PyTorch Geometric and DGL, which join, or sample, graphs."""
    if not script.source.mentions("torch_geometric", "dgl"):
        return
    for call, scope in script.index.of(ast.Call):
        home, _, name = (script.dotted(call.func, scope) or "").rpartition(".")
        if not home.startswith(_HOMES) or not name.endswith(_MADE):
            continue
        if home.startswith("dgl") and name.endswith("Sampler"):
            continue  # which a loader is given
        yield call
