"""Batches of other sizes: the last one of an epoch, and those of loaders of graphs."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...flow.closure import reach
from ...flow.edges import sources
from ..syntax import keyword
from .training import STEP, Loop

if TYPE_CHECKING:
    from ..parsed_file import ParsedFile
    from ..script import Script

_LOADERS = frozenset({"torch.utils.data.DataLoader", "torch.utils.data.dataloader.DataLoader"})


def uneven_loaders(script: Script) -> Iterator[ast.Call]:
    """`DataLoader(...)` calls that feed a loop that trains, and nothing else, and keep a smaller last batch."""
    if not script.source.mentions("dataloader"):
        return
    training = [loop for loop in script.training.loops if STEP in loop.effects]
    others = [loop for loop in script.training.loops if STEP not in loop.effects]
    kept = {call for loop in others for call in _calls(script, loop)}
    seen: set[ast.Call] = set()
    for loop in training:
        for call in _calls(script, loop):
            if call not in kept and call not in seen and _keeps_last(call):
                seen.add(call)
                yield call


def _calls(script: Script, loop: Loop) -> Iterator[ast.Call]:
    """Yield the loader calls that `loop` may iterate over."""

    def step(node: ast.expr) -> list[ast.expr]:
        if not isinstance(node, ast.Call):  # `loader = accelerator.prepare(loader)` hides it
            plain = [b.value for b in script.bindings(node) if b.how == "assign" and not b.path]
            return [*sources(script, node), *(value for value in plain if value is not None)]
        dotted = script.dotted(node.func) or ""
        return node.args[:1] if dotted.endswith("MpDeviceLoader") else []

    for node in reach((driver.node for driver in loop.drivers), step):
        if isinstance(node, ast.Call) and script.dotted(node.func) in _LOADERS:
            yield node


def _keeps_last(call: ast.Call) -> bool:
    given = {k.arg for k in call.keywords}
    if (
        None in given
        or given & {"drop_last", "batch_sampler"}
        or any(isinstance(a, ast.Starred) for a in call.args)
    ):
        return False
    size = keyword(call, "batch_size") or (call.args[1] if len(call.args) > 1 else None)
    return size is not None and not (isinstance(size, ast.Constant) and size.value in {1, None})


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
