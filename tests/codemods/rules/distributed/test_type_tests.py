"""What asks about types keeps torch's classes: the runtime's derive from them."""

from __future__ import annotations

import pytest

from ...helpers import findings, migrated

HEAD = (
    "import torch\nfrom typing import Optional, Union, cast\nfrom torch import nn\n"
    "from torch.nn.parallel import DataParallel, DistributedDataParallel as DDP\n\n"
)


@pytest.mark.parametrize(
    "line",
    [
        "x = m.module if isinstance(m, DDP) else m",
        "x = isinstance(m, (nn.DataParallel, nn.parallel.DistributedDataParallel))",
        "x = isinstance(m, DDP | nn.DataParallel)",
        "x = issubclass(type(m), DDP)",
        "def f(m: Optional[DDP]) -> 'Union[DDP, nn.Module]': pass",
        "def f(m: DDP) -> DDP: pass",
        "m = cast(DDP, m)",
        "class A(B):\n    def __init__(self):\n        super(DDP, self).__init__()",
        "class A(B):\n    def __init__(self):\n        super(nn.DataParallel, self).__init__()",
        "WRAPPERS = (DataParallel, DDP)\nx = isinstance(m, WRAPPERS)",
        "Either = Union[nn.Module, DDP]",
        "x = isinstance(m, nn.SyncBatchNorm)",
        "x = isinstance(m, (nn.BatchNorm2d, torch.nn.modules.batchnorm.SyncBatchNorm))",
    ],
)
def test_torchs_class_stays(line: str) -> None:
    assert migrated(HEAD + line) == HEAD + line


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("type(m) is DDP", "isinstance(m, DDP)"),
        ("type(m) == DDP", "isinstance(m, DDP)"),
        ("m.__class__ is not DDP", "not isinstance(m, DDP)"),
        ("type(a.m) in (DDP, nn.DataParallel)", "isinstance(a.m, (DDP, nn.DataParallel))"),
        ("type(m) not in (DataParallel, DDP)", "not isinstance(m, (DataParallel, DDP))"),
        ("type(m) is nn.DataParallel", "isinstance(m, nn.DataParallel)"),
        ("y and type(m) != DDP", "y and not isinstance(m, DDP)"),
    ],
)
def test_exact_types_are_asked_for_with_isinstance(before: str, after: str) -> None:
    assert migrated(f"{HEAD}x = {before}") == f"{HEAD}x = {after}"


def test_apexs_class_becomes_torchs() -> None:
    source = "from apex.parallel import DistributedDataParallel as DDP\n\nx = isinstance(m, DDP)\n"
    result = migrated(source)
    assert "isinstance(m, torch.nn.parallel.DistributedDataParallel)" in result
    assert "apex" not in result


@pytest.mark.parametrize(
    "line",
    [
        "class Mine(DDP): pass",
        "wrap = DDP",
        "WRAPPERS = (DataParallel, DDP)\nmodel = WRAPPERS[1](model)",
        "model = DDP(model)",
        "wrap = functools.partial(DDP, broadcast_buffers=False)",
    ],
)
def test_what_makes_objects_is_the_runtimes(line: str) -> None:
    assert "xla.DistributedDataParallel" in migrated(HEAD + line)


def test_the_runtimes_classes_derive_from_torchs() -> None:
    torch = pytest.importorskip("torch")
    from xla_migrate import runtime as xla

    assert issubclass(xla.DistributedDataParallel, torch.nn.parallel.DistributedDataParallel)
    assert issubclass(xla.DataParallel, torch.nn.DataParallel)
    assert issubclass(xla.SyncBatchNorm, torch.nn.SyncBatchNorm)


def test_a_tuple_of_classes_to_which_others_are_added_asks_for_torchs() -> None:
    """As accelerate's `extract_model_from_parallel` has it."""
    source = """
        import torch

        def unwrap(model):
            kinds = (torch.nn.parallel.DistributedDataParallel, torch.nn.DataParallel)
            if has_deepspeed():
                kinds += (Engine,)
            while isinstance(model, kinds):
                model = model.module
            return model
        """
    assert findings(source) == []
