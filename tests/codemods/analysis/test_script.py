"""Questions about a script as a whole."""

from __future__ import annotations

import ast
import gc
from collections.abc import Callable
from pathlib import Path

import pytest

from xla_codemods.analysis.scopes import Scope
from xla_codemods.analysis.syntax import is_pure
from xla_codemods.engine import check, migrate

from ..helpers import migrated, script

FIXTURES = Path(__file__).parents[3] / "fixtures" / "train"


@pytest.mark.parametrize(
    ("imports", "spelled"),
    [
        ("import torch", "torch.optim.AdamW"),
        ("import torch\nimport torch.optim as optim", "optim.AdamW"),
        ("import torch\nfrom torch.optim import AdamW", "AdamW"),
        ("import torch as t", "t.optim.AdamW"),
        ("import torch\nfrom torch import optim\noptim = 1", "torch.optim.AdamW"),
        ("import os", "torch.optim.AdamW"),
    ],
)
def test_spell(imports: str, spelled: str) -> None:
    model = script(imports)
    assert model.spell("torch.optim.AdamW", model.module) == spelled
    assert model.needed == ({"torch"} if "torch" not in imports else set())


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("import torch\nx = torch.rand(2).cuda()", True),
        ("import torch\nmodel.to(device)", True),
        ("import torch\nx = torch.zeros(2, device=d)", True),
        ("import torch\nimport torch.distributed as dist\ndist.broadcast(x, 0)", True),
        ("import torch\nfrom torch import nn, distributed\ndistributed.broadcast(x, 0)", True),
        ("import torch\nx = torch.rand(2)", False),
        ("import torch\nx = torch.distributions.Normal(0, 1)", False),
        ("import torch\nmodel.to(torch.float64)", False),
    ],
)
def test_accelerated(source: str, expected: bool) -> None:
    assert script(source).accelerated is expected


def test_is_pure() -> None:
    import ast

    def of(text: str) -> bool:
        return is_pure(ast.parse(text, mode="eval").body)

    assert of("args.amp and 'scaler' in state and state.get('scaler') is not None")
    assert not of("load(path)")
    assert not of("(n := 1) > 0")


def test_modules_that_new_text_needs_are_imported() -> None:
    after = migrated("from apex.optimizers import FusedAdam\noptimizer = FusedAdam(params)\n")
    assert after.startswith("import torch\n")


def test_what_the_runtime_is_used_for_does_not_make_a_second_run_find_more() -> None:
    before = (
        "import torch\nimport torch.distributed as dist\n\ndef gather(state, path):\n"
        "    dist.broadcast(state, src=0)\n    torch.save(state, path)\n"
    )
    once = migrated(before)
    assert "xla.broadcast(" in once
    assert "xla.save(" in once
    assert migrated(once) == once


@pytest.mark.parametrize("judge", [check, migrate])
def test_a_judged_file_leaves_no_tree_to_the_garbage_collector(
    judge: Callable[[bytes], object],
) -> None:
    source = (FIXTURES / "gpt" / "train.py").read_bytes()
    judge(source)  # what is loaded and remembered once
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        judge(source)
        gc.collect()
        assert not [found for found in gc.garbage if isinstance(found, (ast.AST, Scope))]
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
