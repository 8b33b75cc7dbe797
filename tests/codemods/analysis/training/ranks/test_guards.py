"""Tests of the rank, by their names."""

from __future__ import annotations

import ast

import pytest

from xla_codemods.analysis.training.ranks.guards import guard, is_of_host


@pytest.mark.parametrize(
    "test",
    [
        "rank == 0",
        "is_main_process()",
        "accelerator.is_local_main_process",
        "state.is_world_process_zero",
        "trainer.is_local_process_zero()",
        "self.is_local_master",
        "trainer.is_global_zero",
        "MAIN",
        "is_root_process",
        "local_process_index == 0",
    ],
)
def test_the_first_passes(test: str) -> None:
    node = ast.parse(test, mode="eval").body
    found = guard(node)
    assert found is not None
    assert found.first
    assert is_of_host(node) is ("local" in test)


@pytest.mark.parametrize(
    "test", ["root", "head", "remaining", "domain", "zero", "is_mainline", "primary", "local"]
)
def test_other_names_say_nothing_of_ranks(test: str) -> None:
    assert guard(ast.parse(test, mode="eval").body) is None
