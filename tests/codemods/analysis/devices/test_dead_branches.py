"""Code that a script itself keeps from XLA."""

from __future__ import annotations

import pytest

from xla_codemods.engine import check

from ....each import each
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
        (f"if not (a or is_torch_xla_available()):\n    {EMPTY}\n", True),
        (f"if (not is_torch_xla_available()) is True:\n    {EMPTY}\n", True),
        (f"def f():\n    assert not is_torch_xla_available()\n    {EMPTY}\n", True),
        (f"x = is_torch_xla_available() or {EMPTY}\n", True),
        (f"if state.kind != DistributedType.DEEPSPEED:\n    pass\nelse:\n    {EMPTY}\n", True),
        # an empty tuple or list names no make of accelerators
        (f"if x.shape == ():\n    {EMPTY}\n", False),
        (f"if kinds != []:\n    pass\nelse:\n    {EMPTY}\n", False),
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


@each(
    "test, is_anothers",
    [
        ("x.device.type in ['mps', 'xpu']", True),
        ("x.device.type == 'mps'", True),
        ("str(x.device).startswith('npu')", True),
        ("torch.backends.mps.is_available()", True),
        ("torch.xpu.is_available() and late", True),
        ("is_torch_npu_available()", True),
        ("elsewhere", True),
        ("x.device.type in ('mps', 'cuda')", False),
        ("x.device.type != 'mps'", False),
        ("not torch.backends.mps.is_available()", False),
        ("torch.xpu.is_available() or late", False),
        ("x.mps", False),
    ],
)
def test_a_branch_for_another_make_is_left_to_it(test: str, is_anothers: bool) -> None:
    source = (
        "import torch\nimport torch.distributed as dist\ndef go(x, late):\n    elsewhere = x.device.type in {'hpu'}\n"
        f"    if {test}:\n        dist.barrier()\n        x = x.cuda()\n    return x\n"
    )
    assert (findings(source) == []) is is_anothers
    assert findings(source.replace("    return x", "    else:\n        x = x.cuda()\n    return x"))


PROBED = """import torch
def is_fast(x):
    {test}
    device = torch.device("cuda", 0)
    return torch.ones(2, device=device).sum().item() > 0
def fast(x):
    if not x.is_cuda:
        return False
    return {asked}
"""


@each(
    "test, is_cudas",
    [
        ("if torch.cuda.get_device_capability(0)[0] < 8: return False", True),
        (
            "if x.dtype != torch.float16 or torch.cuda.get_device_capability() not in GOOD: return False",
            True,
        ),
        ("if torch.cuda.get_device_capability()[0] != 9: return None", True),
        ("if x.dtype != torch.float16: return False", False),
        ("capability = torch.cuda.get_device_capability()", False),
    ],
)
def test_what_cudas_hardware_has_answered_is_cudas(test: str, is_cudas: bool) -> None:
    """Behind it, and where it is asked."""
    found = findings(PROBED.format(test=test, asked="is_fast(x)"))
    assert ((4, "XLA104") not in found) is is_cudas
    assert ((7, "XLA107") not in found) is is_cudas
    assert (7, "XLA107") in findings(PROBED.format(test=test, asked="bool(x.sum() > 0)"))


@each(
    "test, is_cudas",
    [
        ("x.is_cuda and use_fp8", True),
        ("use_fp8 and x.device.type == 'cuda'", True),
        ("not x.is_cuda and use_fp8", False),
        ("use_fp8 and x.device.type != 'cuda'", False),
        ("late or x.is_cuda and use_fp8", False),
    ],
)
def test_where_a_question_for_cuda_stays_only_its_yes_is_cudas(test: str, is_cudas: bool) -> None:
    source = f"import torch\ndef go(x, late, use_fp8):\n    if {test}:\n        x = low(x, torch.device('cuda'))\n    return x\n"
    assert ((4, "XLA104") not in findings(source)) is is_cudas


@each(
    "head, path, is_its",
    [
        ("class TRTModel:", "a.py", True),
        ("class Backbone_TensorRT(Model):", "a.py", True),
        ("class Model:", "export/_tensorrt/run.py", True),
        ("class Model:", "infer_trt.py", True),
        ("class Model:", "a.py", False),
        ("class Contract:", "a.py", False),
        ("class Portrait:", "trtools/a.py", False),
    ],
)
def test_what_runs_by_tensorrt_is_cudas(head: str, path: str, is_its: bool) -> None:
    source = f"import torch\nTRT = 1\n{head}\n    def run(self, x):\n        x = x.cuda()\n        torch.cuda.synchronize()\n        return x\n"
    assert (check(source.encode(), path=path) == []) is is_its
    trains = source.replace("return x", "self.loss.backward()")
    assert check(trains.encode(), path=path)


@each(
    "test, is_cudas",
    [
        ("len(torch.cuda.default_generators) > 0", True),
        ("hasattr(torch.cuda, 'default_generators') and torch.cuda.default_generators", True),
        ("len(torch.cuda.default_generators) > index", True),
        ("not torch.cuda.default_generators", False),
        ("index > 0", False),
    ],
)
def test_what_there_is_a_generator_of_cudas_for_is_cudas(test: str, is_cudas: bool) -> None:
    source = f"import torch\ndef go(index):\n    if {test}:\n        index = torch.cuda.current_device()\n        torch.cuda.default_generators[index].seed()\n    return index\n"
    assert ({4, 5}.isdisjoint(line for line, _ in findings(source))) is is_cudas
