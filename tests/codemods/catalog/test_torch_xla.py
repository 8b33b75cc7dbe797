"""The names that torch_xla 2.9 no longer has: the installed one is asked for each, and for what is to be used instead."""

from __future__ import annotations

import re

import pytest

from xla_codemods.catalog.torch_xla import REMOVED, removed
from xla_codemods.engine import check

from ...each import each
from .torch_xla_names import is_there


@pytest.fixture(autouse=True)
def _torch_xla(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PJRT_DEVICE", "CPU")
    torch_xla = pytest.importorskip("torch_xla")
    if not torch_xla.__version__.startswith("2.9"):
        pytest.skip("the table is of 2.9")


@each("name", REMOVED)
def test_it_is_gone(name: str) -> None:
    assert not is_there(name)
    assert is_there(name.rpartition(".")[0]) or removed(name.rpartition(".")[0]) is not None


@each("name", REMOVED)
def test_what_is_to_be_used_instead_is_there(name: str) -> None:
    for instead in re.findall(r"`(torch_xla[\w.]*)", REMOVED[name][1]):
        assert is_there(instead), instead


@each("name", REMOVED)
def test_each_is_found_however_it_is_imported(name: str) -> None:
    home, _, last = name.rpartition(".")
    for source in (
        f"from {home} import {last}\n",
        f"import {home} as h\n\nx = h.{last}\n",
        f"import {home}\n\ndef f():\n    return {name}(1)\n",
        f"from {home} import {last} as z\n\nz(2)\n",
    ):
        assert "XLA010" in {finding.code for finding in check(source.encode())}, source


def test_the_question_can_be_answered_either_way() -> None:
    assert is_there("torch_xla.core.xla_model.mark_step")
    assert not is_there("torch_xla.core.xla_model.no_such_name")
    assert removed("torch_xla.experimental.pjrt.world_size") is not None
    assert removed("torch_xla.core.xla_model.mark_step") is None
