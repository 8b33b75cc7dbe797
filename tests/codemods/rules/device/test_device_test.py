"""Tests for CUDA: of devices, of their names, of tensors."""

from __future__ import annotations

import pytest

from ....each import each
from ...helpers import findings, migrated
from ..lines import codes, line


@pytest.mark.parametrize(
    "test",
    [
        'device.type == "cuda"',
        'device == "cuda"',
        '"cuda" == device',
        'device == "cuda:0"',
        'device == torch.device("cuda")',
        '"cuda" in device',
        '"cuda" in str(device)',
        'str(device) == "cuda"',
        'device.startswith("cuda")',
        'device.startswith("cuda:")',
        'str(device).startswith("cuda")',
        'device.type.startswith("cuda")',
        'device[:4] == "cuda"',
        'device.split(":")[0] == "cuda"',
        'device.type in ("cuda", "xpu")',
        'device.type in ["cuda"]',
        'device in {"cuda", "mps"}',
        'device in ("cuda", torch.device("cuda:0"))',
    ],
)
def test_of_devices(test: str) -> None:
    assert line(f"if {test}: pass") == "if xla.is_accelerator(device): pass"


_BARE = 'xla.is_accelerator(device) and ":" not in device'
_NUMBERED = 'xla.is_accelerator(device) and ":" in device'


@pytest.mark.parametrize(
    ("bare", "numbered", "after"),
    [
        ('device == "cuda"', 'device.startswith("cuda:")', (_BARE, _NUMBERED)),
        ('"cuda" == device', '"cuda:" in device', (_BARE, _NUMBERED)),
        ('device != "cuda"', 'not device.startswith("cuda:")', (f"not ({_BARE})", f"not ({_NUMBERED})")),
        ('flag or device == "cuda"', 'device.startswith("cuda:")', (f"flag or ({_BARE})", _NUMBERED)),
    ],
)  # fmt: skip
def test_names_with_and_without_an_index(bare: str, numbered: str, after: tuple[str, str]) -> None:
    source = "import torch\ndef f(x, device: str, flag):\n    if {}:\n        a()\n    if {}:\n        b()\n    return x.to(device)\n"
    expected = source.format(*after)
    found = migrated(source.format(bare, numbered))
    assert found.replace("from xla_migrate import runtime as xla\n", "") == expected


def test_one_kind_of_names_in_each_function() -> None:
    source = "import torch\ndef f(x, device: str):\n    a = TEST\n    return x.to(device)\n"
    both = source.replace("TEST", 'device == "cuda"') + source.replace(
        "TEST", 'device.startswith("cuda:")'
    )
    assert '":"' not in migrated(both)


@pytest.mark.parametrize(
    "test", ['device.type != "cuda"', 'device != "cuda"', '"cuda" not in device', 'device not in ["cuda"]']
)  # fmt: skip
def test_negated(test: str) -> None:
    assert line(f"if {test}: pass") == "if not xla.is_accelerator(device): pass"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("x.is_cuda", "xla.is_accelerator(x)"),
        ("not x.data.is_cuda", "not xla.is_accelerator(x.data)"),
        ("next(model.parameters()).is_cuda", "xla.is_accelerator(next(model.parameters()))"),
        ("x.is_cuda or x.is_xpu", "xla.is_accelerator(x) or x.is_xpu"),
        ('x.device.type == "cuda"', "xla.is_accelerator(x.device)"),
        ('model.device.type == "cuda" and flag', "xla.is_accelerator(model.device) and flag"),
        ('args.device.lower() == "cuda"', "xla.is_accelerator(args.device.lower())"),
        ('torch.device(d).type == "cuda"', "xla.is_accelerator(xla.xla_device(d))"),
        ('device in ("cuda", "cpu")', '(xla.is_accelerator(device) or device == "cpu")'),
        ('"cuda" in (x.device.type, device)', "(xla.is_accelerator(x.device) or xla.is_accelerator(device))"),
        ('"cuda" not in {x.device.type}', "not xla.is_accelerator(x.device)"),
        ('"cuda" in [str(device), device]', "(xla.is_accelerator(device) or xla.is_accelerator(device))"),
        ('device.type not in ["cuda", "cpu"]', 'not (xla.is_accelerator(device) or device.type == "cpu")'),
    ],
)  # fmt: skip
def test_of_tensors_and_others(before: str, after: str) -> None:
    assert line(f"y = {before}") == f"y = {after}"


def test_a_variable_and_its_tests_change_together() -> None:
    before = 'where = "cuda"\nif where == "cuda": x.to(where)'
    assert line(before) == "where = xla.device_type()\nif xla.is_accelerator(where): x.to(where)"
    own = 'kind = "cuda"\nif kind == "cuda": print(kind)'
    assert line(own) == own


@pytest.mark.parametrize(
    "source",
    [
        'y = device.type == "cpu"',
        'y = device.type != "cpu"',
        'y = device == torch.device("cpu")',
        'y = device.type == "mps"',
        'y = args.device == "gpu"',
        'y = backend == "cuda"',
        "y = args.is_cuda",
        "y = x.is_cuda()",
        "x.is_cuda = True",
        "class A:\n    def __init__(self):\n        self.is_cuda = 1\n    def f(self):\n        return self.is_cuda",
        'y = xla.device_type() == "cuda"',
        'y = device.type in ("cuda", "xla")',
        'y = "cuda" in ["cuda", "cpu"]',
        'y = self.type == "cuda"',
        'y = "cuda" in (backend, "rocm")',
        'y = backend == kind == "cuda"',
        'y = 1 < n < "cuda"',
    ],
)
def test_other_tests_stay(source: str) -> None:
    head = "from xla_migrate import runtime as xla\n" if "xla." in source else ""
    assert line(head + source) == source


@pytest.mark.parametrize(
    "source",
    [
        'y = device == "cuda:1"',
        'y = device == x.device.type == "cuda"',
        'y = "cuda" == device == kind',
        'y = thing.type == other.type == "cuda"',
        'y = "cuda" in (device, thing.type)',
        'y = thing.type == "cuda"',
        'y = device in ("cuda", "cpu", "tpu")',
        "def attend(q):\n    if q.is_cuda:\n        q = q + 1\n    return flash_attn_func(q)",
    ],
)
def test_what_a_person_decides(source: str) -> None:
    assert line(source) == source
    assert "XLA107" in codes(source)


@pytest.mark.parametrize(
    "source",
    [
        "y = flash_attn_func(x) if x.is_cuda else attend(x)",
        "if x.is_cuda:\n    y = my_cuda_kernel(x)",
        'use_triton = x.device.type == "cuda"',
        "if has_ext and x.is_cuda:\n    y = torch.ops.mine.op(x)",
    ],
)
def test_where_cuda_code_is_chosen_no_is_right(source: str) -> None:
    assert line(source) == source
    assert "XLA107" not in codes(source)


def test_autograd_functions_of_a_file_that_loads_kernels() -> None:
    """The answer goes to a kernel, which only CUDA has."""
    source = (
        "import torch\n"
        "from kernels import load_cuda_kernels\n"
        "class Sampled(torch.autograd.Function):\n"
        "    @staticmethod\n"
        "    def forward(ctx, x):\n"
        "        use_cuda = x.is_cuda\n"
        "        return lib.hash(x, use_cuda)\n"
    )
    assert "x.is_cuda" in migrated(source)
    assert "x.is_cuda" not in migrated(source.replace("load_cuda_kernels", "other"))


def test_a_test_beside_kernels_is_left_to_a_person() -> None:
    launcher = (
        "def launch(meta, device):\n"
        "    if device.type != 'cuda':\n"
        "        raise ValueError\n"
        "    return StaticCudaKernel(meta)"
    )
    assert codes(launcher) == ["XLA107"]
    assert line(launcher) == launcher
    assert "xla.is_accelerator(device)" in line(launcher.replace("CudaKernel", "Loader"))


@pytest.mark.parametrize(
    ("test", "times"),
    [
        ('x.device.type == "cuda" and torch.version.hip is not None', 0),
        ("x.is_cuda and torch.version.hip", 0),
        ("x.is_cuda and torch.version.hip is None", 1),
        ("x.is_cuda and ready", 1),
    ],
)
def test_a_test_for_rocm_is_none_for_an_accelerator(test: str, times: int) -> None:
    source = f"import torch\ndef f(x: torch.Tensor, ready):\n    if {test}:\n        return 1\n"
    assert list(codes(source)).count("XLA107") == times


def test_a_class_that_inherits_from_elsewhere_may_have_torchs() -> None:
    head = "import torch\nfrom elsewhere import Base\nclass Data(Base): ...\n"
    assert "y = xla.is_accelerator(Data())\n" in migrated(head + "y = Data().is_cuda\n")
    own = head.replace("...", "is_cuda = True") + "y = Data().is_cuda\n"
    assert migrated(own) == own
    assert "y = xla.is_accelerator(opt)" in migrated(
        head + "opt = torch.ones(2)\ny = opt.is_cuda\n"
    )


_EXTENSION = """
import torch
try:
    import swish_ext as _ext
    from fast_ops import swish_forward
    {imported}
except ImportError:
    _ext = None

def swish(x, other):
    {test}
        return {call}
    return x * torch.sigmoid(x)
"""


@pytest.mark.parametrize(
    ("test", "call"),
    [
        ("if x.is_cuda and _ext is not None:", "_ext.forward(x.contiguous())"),
        ("if x.is_cuda:", "_ext.ops.forward(x)"),
        ('if x.device.type == "cuda" and _ext:', "swish_forward(input=x)"),
        ("if _ext is not None and x.is_cuda:", "swish_forward(x.float())"),
    ],
)
def test_what_an_optional_extension_computes_stays_for_cuda(test: str, call: str) -> None:
    """On XLA the other branch is right."""
    source = _EXTENSION.format(imported="", test=test, call=call)
    assert test in migrated(source)


@pytest.mark.parametrize(
    ("imported", "call"),
    [
        ("", "torch.nn.functional.silu(x)"),
        ("", "x.to(other)"),
        ("", "_ext.log(other) or x"),  # the tensor is not handed to it
        ("from torchvision.ops import swish_op", "swish_op(x)"),
    ],
)
def test_other_branches_for_cuda(imported: str, call: str) -> None:
    source = _EXTENSION.format(imported=imported, test="if x.is_cuda:", call=call)
    assert "if xla.is_accelerator(x):" in migrated(source)


@each(
    "call",
    [
        "_ext.build(other, torch.rand(2).cuda())",
        "_ext.forward(torch.zeros_like(x).cuda())",
        "swish_forward(x.cuda(), kind=torch.float32)",
    ],
)
def test_torch_itself_is_handed_to_nobody(call: str) -> None:
    test = "if torch.cuda.is_available():"
    source = _EXTENSION.format(imported="", test=test, call=call)
    assert "if xla.is_available():" in migrated(source)


@pytest.mark.parametrize(
    "kernel", ["@triton.jit", "@helion.kernel(static_shapes=True)", "@cuda.jit(device=True)"]
)
def test_what_decides_on_kernels_of_the_file_is_left_to_a_person(kernel: str) -> None:
    source = f"""import torch, triton, helion
from numba import cuda

{kernel}
def rotate_kernel(x):
    return x

def eligible(x, cache):
    return x.is_cuda and cache.is_cuda and x.ndim == 4

def move(x, device):
    if device.type == "cuda":
        x = x.to(device)
    return x
"""
    after = migrated(source)
    assert "return x.is_cuda and cache.is_cuda" in after
    assert "if xla.is_accelerator(device):" in after
    assert [line for line, code in findings(source) if code == "XLA107"] == [9, 9, 12]


def test_what_only_waits_is_no_kernel() -> None:
    source = """import torch

def measure(module, x, device, backend):
    kwargs = {"backend": backend if backend != "triton" else None}
    y = module(x, **kwargs)
    if x.is_cuda:
        torch.cuda.synchronize(device)
    if y.is_cuda:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    if y.is_cuda:
        y = module.fast(y)
    return y
"""
    after = migrated(source)
    assert "if xla.is_accelerator(x):\n        xla.synchronize(device)" in after
    assert after.count(".is_cuda") == 1


def test_a_product_in_another_type_is_cudas() -> None:
    """`out_dtype` raises on XLA: where the test fails, the right code is chosen."""
    own = """if x.device.type == "cuda" and x.dtype == torch.bfloat16:
    torch.addmm(total, x, y, out_dtype=torch.float32, out=total)
else:
    total.addmm_(x.float(), y.float())
"""
    assert line(own) == own


@pytest.mark.parametrize("bases", ["(str, Enum)", "(enum.StrEnum)", ""])
@pytest.mark.parametrize(
    ("test", "after"),
    [
        ("x.device.type == Device.CUDA", "xla.is_accelerator(x.device)"),
        ("Device.CUDA == x.device.type", "xla.is_accelerator(x.device)"),
        ("x.device.type != Device.CUDA", "not xla.is_accelerator(x.device)"),
        ("str(device) == Device.CUDA", "xla.is_accelerator(device)"),
        ("device.type == torch.device(Device.CUDA).type", "device.type == xla.xla_device(Device.CUDA).type"),
        ("x.device.type == Device.CPU", "x.device.type == Device.CPU"),
        ("x.device.type == Device.MIXED", "x.device.type == Device.MIXED"),
        ("name == Device.CUDA", "name == Device.CUDA"),
    ],
)  # fmt: skip
def test_members_of_classes_that_say_cuda(bases: str, test: str, after: str) -> None:
    assert f"    if {after}:" in migrated(MEMBERS.format(bases=bases, test=test))


def test_a_member_of_an_enum_is_its_value_alone() -> None:
    same, value = "x.device.type == Device.CUDA", "x.device.type == Device.CUDA.value"
    assert f"    if {same}:" in migrated(MEMBERS.format(bases="(Enum)", test=same))
    changed = migrated(MEMBERS.format(bases="(Enum)", test=value))
    assert "    if xla.is_accelerator(x.device):" in changed


MEMBERS = """
import enum, torch
from enum import Enum

class Device{bases}:
    CPU = "cpu"
    CUDA = "cuda"
    MIXED = "cuda"
    MIXED = "auto"

def main(name, wanted):
    device = torch.device(wanted)
    x = torch.rand(3, 3).cuda()
    if {test}:
        print("gpu")
"""


@pytest.mark.parametrize(
    ("test", "after"),
    [
        ('x.device.type.lower() == "cuda"', "xla.is_accelerator(x.device)"),
        ('str(x.device.type) == "cuda"', "xla.is_accelerator(x.device)"),
        ('x.type().startswith("torch.cuda")', "xla.is_accelerator(x)"),
        ('"cuda" in x.type()', "xla.is_accelerator(x)"),
        ('"cuda" not in str(x.type())', "not xla.is_accelerator(x)"),
        ('name.lower() == "cuda"', 'name.lower() == "cuda"'),
        ('"cuda" in name.lower()', '"cuda" in name.lower()'),
    ],
)
def test_texts_of_devices_and_types(test: str, after: str) -> None:
    source = f"import torch\n\ndef f(x, name):\n    x = x.cuda()\n    return {test}\n"
    assert f"    return {after}\n" in migrated(source)


@pytest.mark.parametrize(
    ("table", "found"),
    [
        ('{"cuda": fast, "cpu": slow}[x.device.type]', True),
        ('{"cuda": fast, "cpu": slow}.get(x.device.type, slow)', True),
        ("KERNELS[x.device.type]", True),
        ('{"cuda": fast, "xla": fast, "cpu": slow}[x.device.type]', False),
        ('{"cpu": slow}.get(x.device.type, fast)', False),
        ("{'cuda': fast}[args.type]", False),
    ],
)
def test_tables_by_the_type_of_a_device(table: str, found: bool) -> None:
    source = f"""
import torch
KERNELS = {{"cuda": 1, "cpu": 2}}
def f(x, fast, slow, args):
    x = x.cuda()
    return {table}
"""
    assert ((6, "XLA118") in findings(source)) is found


@each(
    "test, stays",
    [
        ('x.to(y.device, non_blocking=y.device.type == "cuda")', True),
        ("x.to(y.device, non_blocking=not late and y.is_cuda)", True),
        ('make(pin_memory=y.device.type == "cuda")', True),
        ('make(**{"pin_memory": y.device.type == "cuda"})', True),
        ("again(x, pinned=y.is_cuda)", True),
        ("again(x, later=y.is_cuda)", False),
        ('make(**{"move": y.device.type == "cuda"})', False),
    ],
)
def test_how_copies_are_made_is_cudas_question(test: str, stays: bool) -> None:
    source = f"import torch\n\ndef f(x, y, late):\n    x = x.cuda()\n    return {test}\n"
    assert ((5, "XLA107") not in findings(source)) is stays


@each(
    "use, stays",
    [
        ("x.to(y.device, non_blocking=non_blocking)", True),
        ("x.to(y.device, non_blocking=non_blocking), make(pin_memory=non_blocking)", True),
        ("x.cuda() if non_blocking else x", False),
    ],
)
def test_how_copies_are_made_by_a_name(use: str, stays: bool) -> None:
    source = (
        f"import torch\n\ndef f(x, y):\n    non_blocking = y.is_cuda\n    return x.cuda(), {use}\n"
    )
    assert ((4, "XLA107") not in findings(source)) is stays
