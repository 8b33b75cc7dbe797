"""The catalog is whole: every public name has a row, and every row says what is true."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
import types
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from xla_codemods import catalog
from xla_codemods.catalog import row as kinds
from xla_codemods.catalog.families import PACKAGES, PARTS, is_cuda_only
from xla_codemods.rules import RULES
from xla_migrate import runtime

from ...each import each

ROWS = list(catalog.table().values())
CODES = {rule.code for rule in RULES}
WALKED = (
    "torch.cuda",
    "torch.backends.cuda",
    "torch.backends.cudnn",
    "torch.backends.cusparselt",
    "torch.amp",
    "torch.accelerator",
    "torch.utils.cpp_extension",
)
# Settings are attributes of objects and have no place in `dir`.
SETTINGS = {
    "torch.backends.cudnn": type(torch.backends.cudnn),
}


def modules(root: str) -> Iterator[types.ModuleType]:
    module = importlib.import_module(root)
    yield module
    for found in pkgutil.walk_packages(getattr(module, "__path__", ()), f"{root}."):
        if not any(part.startswith("_") for part in found.name.split(".")):
            yield importlib.import_module(found.name)


def public(module: types.ModuleType) -> Iterator[str]:
    """What `module` offers: its `__all__`, or what is defined in it and below it."""
    offered = getattr(module, "__all__", None)
    for name in offered if offered is not None else vars(module):
        value = getattr(module, name, None)
        if name.startswith("_") or isinstance(value, types.ModuleType):
            continue
        home = str(getattr(value, "__module__", module.__name__))
        if offered is not None or home.startswith(module.__name__) or _is_shared(value, home):
            yield f"{module.__name__}.{name}"


def _is_shared(value: object, home: str) -> bool:
    """Classes of torch's own that a module without `__all__` passes on: `torch.cuda.streams.Stream`."""
    return isinstance(value, type) and home.startswith(("torch.cuda", "torch.amp"))


def names() -> list[str]:
    found = [name for root in WALKED for module in modules(root) for name in public(module)]
    for prefix, settings in SETTINGS.items():
        found += [f"{prefix}.{n}" for n in vars(settings) if not n.startswith("_")]
    real = vars(torch.backends.cudnn)["m"]  # the module behind its settings
    found += [
        f"torch.backends.cudnn.{n}"
        for n, value in vars(real).items()
        if isinstance(value, types.FunctionType)
        and value.__module__ == real.__name__
        and not n.startswith("_")
    ]
    return sorted(set(found))


def test_every_public_name_has_a_row() -> None:
    walked = names()
    assert len(walked) > 300
    missing = [name for name in walked if catalog.lookup(name) is None]
    assert not missing, f"no row for {missing}"


def test_rows_of_torch_name_what_torch_has() -> None:
    for row in ROWS:
        if not row.name.startswith("torch.") or "(" in row.name or not holds_here(row.torch):
            continue
        assert exists(row.name), (
            f"torch has no {row.name}, which the catalog says it has in {row.torch}"
        )


def test_rows_of_other_versions_name_what_this_torch_has_not() -> None:
    for row in ROWS:
        if row.name.startswith("torch.") and not holds_here(row.torch):
            assert not exists(row.name), row.name


def holds_here(versions: str) -> bool:
    ours = tuple(int(part) for part in torch.__version__.split(".")[:2])
    if versions.endswith("+"):
        return ours >= tuple(int(part) for part in versions[:-1].split("."))
    if versions.startswith("<"):
        return ours < tuple(int(part) for part in versions[1:].split("."))
    return True


def exists(dotted: str) -> bool:
    parts = dotted.split(".")
    for at in range(len(parts), 0, -1):
        try:
            value: object = importlib.import_module(".".join(parts[:at]))
        except ImportError:
            continue
        for part in parts[at:]:
            if part not in dir(value) and not _gives(value, part):
                return False
            try:
                value = getattr(value, part)
            except Exception:
                return True  # it is there, and fails without CUDA
        return True
    return False


def _gives(value: object, name: str) -> bool:
    try:
        getattr(value, name)
    except AttributeError:
        return False
    except Exception:
        return True
    return True


@each("row", ROWS, ids=lambda row: row.name)
def test_row_is_well_formed(row: catalog.Row) -> None:
    assert row.fate in {
        kinds.REWRITTEN,
        kinds.REMOVED,
        kinds.RUNTIME,
        kinds.STAYS,
        kinds.ABSENT,
    }
    assert row.left in {kinds.RAISES, kinds.SILENT, kinds.SLOW, kinds.HARMLESS}
    assert row.instead or row.note
    assert not row.note.endswith(".")
    assert row.evidence in {"measured", "docs"} or re.fullmatch(r"fact \d+(\.\d+)?", row.evidence)
    assert re.fullmatch(r"all|any|\d+\.\d+\+|<\d+\.\d+", row.torch)


def test_rules_that_rows_name_exist() -> None:
    unknown = {(row.name, row.rule) for row in ROWS if row.rule and row.rule not in CODES}
    assert not unknown
    for row in ROWS:
        assert row.rule or row.fate in {kinds.ABSENT, kinds.STAYS, kinds.RUNTIME, kinds.REMOVED}, (
            row
        )


def test_rows_name_the_rules_that_listen() -> None:
    """The rule of a row listens to the name, unless another rule only rewrites where it is displayed."""
    for row in ROWS:
        if row.fate == kinds.ABSENT:
            continue
        listening = {r.code for r in RULES if row.name in r.calls or row.name in r.references}
        if listening:
            assert row.rule in listening, f"{row.name}: {row.rule} is not among {sorted(listening)}"


def test_runtime_names_that_rows_give_exist() -> None:
    for row in ROWS:
        for name in re.findall(r"\bxla\.(\w+)", f"{row.instead} {row.note}"):
            assert hasattr(runtime, name), f"{row.name} names xla.{name}"


def test_names_of_torch_and_torch_xla_that_rows_give_exist() -> None:
    for row in ROWS:
        for name in re.findall(r"\b(?:torch|torch_xla)(?:\.\w+)+", f"{row.instead} {row.note}"):
            if holds_here(row.torch) and not is_cuda_only(name):
                assert exists(name), f"{row.name} names {name}"


def test_families_know_every_row_that_is_cuda_only() -> None:
    for row in ROWS:
        package = row.name.partition(".")[0]
        judged_as_a_whole = row.name.endswith("GradScaler")
        if (package in PACKAGES or row.name.startswith(PARTS)) and not judged_as_a_whole:
            assert is_cuda_only(row.name.partition("(")[0])
    for package in PACKAGES:
        assert catalog.covering(package) is not None, f"{package} has no row"
    for part in PARTS:
        assert catalog.covering(part) is not None, f"{part} has no row"


@pytest.mark.parametrize(
    ("asked", "name"),
    [
        ("torch.cuda.Stream", "torch.cuda.Stream"),
        ("torch.cuda.Stream()", "torch.cuda.Stream"),
        ("bnb.optim.Adam8bit", "bitsandbytes.optim.Adam8bit"),
        ("CUDA_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"),
    ],
)
def test_lookup(asked: str, name: str) -> None:
    row = catalog.lookup(asked)
    assert row is not None
    assert row.name == name


def test_lookup_of_the_unknown() -> None:
    assert catalog.lookup("torch.nn.Linear") is None
    assert catalog.lookup("") is None


def test_covering_finds_what_a_name_is_a_part_of() -> None:
    row = catalog.covering("torch.cuda.Stream.wait_stream")
    assert row is not None
    assert row.name == "torch.cuda.Stream"
    assert catalog.covering("torch.nn.Linear") is None


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("torch.cuda.syncronize", "torch.cuda.synchronize"),
        ("stream", "torch.cuda.Stream"),
        ("FusedAdam", "apex.optimizers.FusedAdam"),
        ("pin_memory", "torch.utils.data.DataLoader(pin_memory)"),
        ("nccl", 'torch.distributed.init_process_group("nccl")'),
    ],
)
def test_nearest(typed: str, meant: str) -> None:
    assert meant in catalog.nearest(typed)


def test_nearest_of_nonsense_is_nothing() -> None:
    assert catalog.nearest("qqqqzzzz") == []


def test_every_room_is_read() -> None:
    for found in pkgutil.iter_modules(catalog.__path__):
        rooms = importlib.import_module(f"{catalog.__name__}.{found.name}")
        for row in getattr(rooms, "ROWS", ()):
            assert catalog.lookup(row.name) is not None, f"{found.name} is not read"


@pytest.mark.parametrize("room", [*catalog._OF_TORCH, *catalog._OF_OTHERS])
def test_rooms_hold_data_alone(room: str) -> None:
    """No functions, and nothing of ours but rows: they could be a file of any other form."""
    tree = ast.parse((Path(catalog.__file__).parent / f"{room}.py").read_bytes())
    code = (ast.FunctionDef, ast.ClassDef, ast.Lambda, ast.If, ast.For, ast.While)
    assert not [node for node in ast.walk(tree) if isinstance(node, code)]
    imported = {
        node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.level
    }
    assert imported <= {"row", *catalog._OF_TORCH, *catalog._OF_OTHERS}
