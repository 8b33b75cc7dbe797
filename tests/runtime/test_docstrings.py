"""The docstrings of what migrated scripts import: they have the sections that apply, and their examples run."""

from __future__ import annotations

import doctest
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn

from xla_migrate import runtime as xla
from xla_migrate.runtime.compat.by_hand import NAMESPACES

from ..each import each

# Not the namespaces, whose names are torch_xla's own.
NAMES = [name for name in xla.__all__ if name not in NAMESPACES]
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


@pytest.fixture
def around(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """What examples find there, as a script has it."""
    monkeypatch.setattr(torch, "einsum", torch.einsum)  # an example replaces it
    device = xla.xla_device()
    model = nn.Linear(4, 2).to(device)
    yield {
        "__name__": "example",
        "torch": torch,
        "xla": xla,
        "device": device,
        "model": model,
        "optimizer": torch.optim.SGD(model.parameters(), lr=0.1),
        "x": torch.ones(3, 4, device=device),
        "loader": torch.utils.data.DataLoader(torch.ones(6, 4), batch_size=3),
        "folder": tmp_path,
        "path": _no_checkpoint(tmp_path),
    }
    if dist.is_initialized():
        dist.destroy_process_group()


def _no_checkpoint(folder: Path) -> Path:
    (folder / "broken").mkdir()
    path = folder / "broken" / "model.pt"
    path.write_bytes(b"PK\x03\x04 half a file")
    return path


def documented(name: str) -> tuple[str, Any]:
    found = inspect.unwrap(getattr(xla, name))
    return inspect.getdoc(found) or "", found


def section(text: str, title: str) -> str:
    found = re.search(rf"^{title}:\n((?:    .*\n?|\n)+)", text, re.MULTILINE)
    return found[1] if found else ""


@pytest.mark.parametrize("name", NAMES)
def test_the_example_runs(name: str, around: dict[str, Any]) -> None:
    text, _ = documented(name)
    example = doctest.DocTestParser().get_doctest(
        section(text, "Example"), around, name, __file__, 0
    )
    assert example.examples, f"{name} has no example"
    said: list[str] = []
    result = doctest.DocTestRunner(optionflags=OPTIONS).run(example, out=said.append)
    assert result.failed == 0, "".join(said)


@each("name", NAMES)
def test_every_argument_is_explained(name: str) -> None:
    text, found = documented(name)
    if isinstance(found, type) and issubclass(found, Exception):
        return
    told = section(text, "Args")
    for argument in inspect.signature(found).parameters:
        assert re.search(rf"^    {argument}: \S", told, re.MULTILINE), f"{name} lacks {argument}"


@each("name", NAMES)
def test_what_comes_back_is_explained(name: str) -> None:
    text, found = documented(name)
    gives = str(inspect.signature(found).return_annotation) if inspect.isfunction(found) else "None"
    assert (gives in {"None", "NoReturn"}) == (section(text, "Returns") == ""), (
        f"{name} gives {gives}"
    )


@each("name", NAMES)
def test_what_it_raises_itself_is_explained(name: str) -> None:
    """Errors that stand in its own body: those of what it calls are told where they matter."""
    text, found = documented(name)
    source = inspect.getsource(found)
    if isinstance(found, type):
        source = inspect.getsource(found.__init__) if "__init__" in vars(found) else ""
    raised = set(re.findall(r"^\s+raise (\w+Error)\(", source, re.MULTILINE))
    told = section(text, "Raises")
    assert {error for error in raised if f"{error}:" not in told} == set(), name


def test_examples_that_are_not_run_need_what_is_not_here() -> None:
    """SPMD and accelerate take the process for themselves, timm and transformers are no part of the tests."""
    left = {name for name in NAMES if "+SKIP" in documented(name)[0]}
    assert left == {
        "FullyShardedDataParallel",
        "ModelEmaV3",
        "compiler_options",
        "fully_shard",
        "init_distributed_device",
        "load_state",
        "prepare_pippy",
        "save_lora",
        "save_model",
        "save_state",
        "save_pretrained",
        "use_spmd",
    }


@each("name", NAMES)
def test_it_says_what_is_so(name: str) -> None:
    assert not documented(name)[0].startswith("Whether"), name
