"""Code that a script itself keeps from XLA."""

from __future__ import annotations

import pytest

from ...helpers import findings

HEAD = "import torch\nfrom accelerate.utils import DistributedType, is_torch_xla_available\n"
EMPTY = "torch.cuda.empty_cache()"


@pytest.mark.parametrize(
    ("source", "kept"),
    [
        (f"if not is_torch_xla_available():\n    {EMPTY}\n", True),
        (f"if is_torch_xla_available():\n    pass\nelse:\n    {EMPTY}\n", True),
        (f"if is_torch_xla_available():\n    pass\nelif a:\n    {EMPTY}\n", True),
        (f"if is_torch_xla_available() or a:\n    pass\nelse:\n    {EMPTY}\n", True),
        (f"if is_torch_xla_available() and a:\n    pass\nelse:\n    {EMPTY}\n", False),
        (f"if not is_torch_xla_available() and a:\n    {EMPTY}\n", True),
        (f"if not is_torch_xla_available() or a:\n    {EMPTY}\n", False),
        (f"if state.kind != DistributedType.XLA:\n    {EMPTY}\n", True),
        (f"if state.kind == DistributedType.XLA:\n    {EMPTY}\n", False),
        (f"if state.kind in (DistributedType.XLA, 1):\n    pass\nelse:\n    {EMPTY}\n", True),
        (f"def f():\n    if is_torch_xla_available():\n        return\n    {EMPTY}\n", True),
        (f"def f():\n    if is_torch_xla_available():\n        pass\n    {EMPTY}\n", False),
        (f"def f():\n    if not is_torch_xla_available():\n        return\n    {EMPTY}\n", False),
        (f"if is_torch_xla_available():\n    {EMPTY}\n", False),
        # accelerate's kinds: another one is not XLA
        (f"if state.kind == DistributedType.MULTI_GPU:\n    {EMPTY}\n", True),
        (f"if state.kind in (DistributedType.FSDP, DistributedType.NO):\n    {EMPTY}\n", True),
        (f"if state.kind in (DistributedType.FSDP, DistributedType.XLA):\n    {EMPTY}\n", False),
        (f"if state.kind == DistributedType.NO:\n    pass\nelse:\n    {EMPTY}\n", False),
        # a branch that imports torch_xla is XLA's
        (f"if a:\n    import torch_xla\nelse:\n    {EMPTY}\n", True),
        (f"if a:\n    from torch_xla.core import xla_model\nelif b:\n    {EMPTY}\n", True),
        (f"if a:\n    import torch_xla\n    {EMPTY}\n", False),
        (f"if a:\n    import torch_xla\n{EMPTY}\n", False),
        # the runtime's own question is no such test
        (f"from xla_migrate import runtime as xla\nif not xla.is_available():\n    {EMPTY}\n", False),
    ],
)  # fmt: skip
def test_branches(source: str, kept: bool) -> None:
    assert bool(findings(HEAD + source)) is not kept


@pytest.mark.parametrize(
    ("name", "is_anothers"),
    [
        ("def _xpu_barrier(x):", True),
        ("def setup_npu(x):", True),
        ("def move_to_hpu_device(x):", True),
        ("async def mps(x):", True),
        ("class XPUStrategy:\n  def go(self, x):", True),
        ("def xpu_or_cuda(x):", False),
        ("def maps(x):", False),
        ("def simps_rule(x):", False),
        ("def input(x):", False),
    ],
)
def test_a_function_for_another_make_is_left_to_it(name: str, is_anothers: bool) -> None:
    source = f"import torch\nimport torch.distributed as dist\n{name}\n        dist.barrier()\n        return x.cuda()\n"
    assert (findings(source) == []) is is_anothers
