"""What is said of CUDA-only names that no other rule deals with."""

from __future__ import annotations

import pytest

from xla_codemods.engine import check, migrate

from ...helpers import migrated
from ..lines import codes


def test_asking_for_a_class_is_worth_knowing_only() -> None:
    source = b"import bitsandbytes as bnb\ndef f(m):\n    return isinstance(m, (int, bnb.nn.Linear4bit))\n"
    assert [(f.line, f.severity) for f in check(source)] == [(3, "info")]
    source = b"import bitsandbytes as bnb\nlayer = bnb.nn.Linear4bit(2, 2)\n"
    assert [(f.line, f.severity) for f in check(source)] == [(2, "error")]


def test_private_names_are_called_so() -> None:
    (finding,) = check(b"import torch\nx = torch.cuda._maybe_exchange_device(1)\n")
    assert finding.message == (
        "`torch.cuda._maybe_exchange_device` is internal to torch's CUDA support: "
        "remove it, because XLA has no equivalent"
    )


def test_imports_that_others_may_need_stay() -> None:
    source = b"""import unsloth
from apex.parallel import DistributedDataParallel as DDP
try:
    import flash_attn
except ImportError:
    flash_attn = None
if FAST:
    import triton
model: "DDP | None" = None
"""
    assert migrate(source).data == source


def test_of_an_import_only_what_is_missing_goes() -> None:
    source = b"import cupy as cp, numpy as np\nfrom apex import amp, optimizers\nx = np.ones(2)\n"
    assert migrate(source).data == b"import numpy as np\nx = np.ones(2)\n"


def test_tensor_parallelism_of_torch_is_found_whatever_names_the_devices() -> None:
    source = b"from torch.distributed.tensor.parallel import parallelize_module as p\nm = p(m, mesh, plan)\n"
    (finding,) = check(source)
    assert (finding.code, finding.line, finding.severity) == ("XLA906", 2, "error")


def test_one_of_many_names_that_are_listed_is_worth_knowing_only() -> None:
    names = ", ".join(f"torch.f{k}" for k in range(9))
    source = f"import torch\nx = [{names}, torch.get_autocast_gpu_dtype]\n".encode()
    assert [f.severity for f in check(source)] == ["info"]
    (finding,) = check(b"import torch\nx = [torch.get_autocast_gpu_dtype]\n")
    assert finding.severity == "error"


@pytest.mark.parametrize(
    "source",
    [
        'old = not hasattr(torch.cuda.amp, "autocast")',
        'new = getattr(torch.cuda.amp, "autocast", None) is not None',
        'if getattr(torch.cuda.amp, "autocast", None): pass',
        'if getattr(torch.cuda.amp, "autocast", None) and ok: pass',
    ],
)
def test_asking_whether_there_is_such_a_name_is_no_fault(source: str) -> None:
    assert codes(source) == []


@pytest.mark.parametrize(
    "source",
    [
        'autocast = getattr(torch.cuda.amp, "autocast")',
        'run(getattr(torch.cuda.amp, "autocast", None))',
    ],
)
def test_fetching_a_name_from_its_module_is(source: str) -> None:
    assert codes(source) == ["XLA906"]


def test_the_version_of_a_package_is_no_private_name() -> None:
    (finding,) = check(b"import triton\nx = triton.__version__.split('.')\n")
    assert finding.message.startswith("`triton.__version__.split` fails without CUDA")


@pytest.mark.parametrize("source", ["from torch.cuda import Stream", "import torch.cuda.nccl"])
def test_importing_what_torch_has_anyway_is_worth_knowing_only(source: str) -> None:
    assert [f.severity for f in check(f"import torch\n{source}\n".encode())] == ["info"]


def test_what_leaves_where_a_package_is_missing_needs_none() -> None:
    source = b"""def usage():
    try:
        import pynvml
    except ModuleNotFoundError:
        return "not installed"
    pynvml.nvmlInit()
"""
    assert [f.severity for f in check(source)] == ["info"]


def test_paths_of_tools_below_triton_are_no_kernels() -> None:
    assert not check(b"from triton.fb.build import build_paths\nx = build_paths.cc_include\n")


def test_whether_something_is_a_name_of_torch_cuda_is_worth_knowing_only() -> None:
    (finding,) = check(b"import torch\ndef f(x):\n    return x is torch.cuda.device\n")
    assert finding.severity == "info"


@pytest.mark.parametrize(
    ("handler", "severity"),
    [("OSError", "info"), ("Exception", "info"), ("KeyError", "error"), ("OSError as e", "info")],
)
def test_a_library_that_may_be_missing_is_told(handler: str, severity: str) -> None:
    source = f"""
import ctypes
import torch

try:
    cudart = ctypes.CDLL("libcudart.so")
except {handler}:
    cudart = None
"""
    assert [(f.code, f.severity) for f in check(source.encode())] == [("XLA902", severity)]


KERNELS = """
import torch
{imports}

{decorator}
def double(x, y, n):
    i = tl.program_id(0)
    tl.store(y + i, 2 * tl.load(x + i))

def dtype_of(x):
    return tl.float32
"""


@pytest.mark.parametrize("decorator", ["@_jit", "@maybe.jit(cache=True)", "@jit\n@logged", ""])
def test_a_kernel_is_known_by_what_it_calls(decorator: str) -> None:
    source = KERNELS.format(imports="import triton.language as tl", decorator=decorator)
    named = [f.message for f in check(source.encode()) if f.code == "XLA903"]
    assert ["`double`" in message for message in named] == [True, False]


@pytest.mark.parametrize(
    "decorator", ["@triton.jit", "@triton.jit(debug=True)", "@triton.autotune([], [])\n@triton.jit"]
)
@pytest.mark.parametrize(
    ("imports", "severity"),
    [
        ("import triton, triton.language as tl", "error"),
        (
            "try:\n    import triton\n    import triton.language as tl\nexcept ImportError:\n    triton = None",
            "info",
        ),
    ],
)
def test_the_decorator_of_a_kernel_is_no_guard(decorator: str, imports: str, severity: str) -> None:
    source = KERNELS.format(imports=imports, decorator=decorator)
    found = [f for f in check(source.encode()) if "`double`" in f.message]
    assert [(f.code, f.severity) for f in found] == [("XLA903", severity)]


@pytest.mark.parametrize(
    ("use", "severity"),
    [
        ("def scale(x):\n    return doubled(x) if x.is_cuda else 2 * x", "info"),
        (
            "def scale(x):\n    if not x.is_cuda:\n        return 2 * x\n    return doubled(x)",
            "info",
        ),
        (
            "class Scale:\n    def forward(self, x):\n        return Double.apply(x) if x.is_cuda else x",
            "info",
        ),
        ("def scale(x):\n    return doubled(x)", "error"),
        ("def scale(x):\n    return doubled(x) if x.is_cuda else x\n\ndoubled(y)", "error"),
        ("", "error"),
    ],
)
def test_a_kernel_that_tests_for_cuda_decide_about_is_a_note(use: str, severity: str) -> None:
    holder = "def doubled(x):"
    if "Double" in use:
        holder = (
            "class Double(torch.autograd.Function):\n    @staticmethod\n    def forward(ctx, x):"
        )
    kernel = KERNELS.format(imports="import triton, triton.language as tl", decorator="@triton.jit")
    source = f"{kernel}\n{holder}\n        double[(1,)](x, x, 1)\n        return x\n\n{use}\n"
    assert [f.severity for f in check(source.encode()) if "`double`" in f.message] == [severity]


def test_a_version_that_is_asked_for_behind_a_guard_is_no_finding() -> None:
    guarded = "try:\n    import deepspeed\nexcept ImportError:\n    deepspeed = None\n"
    source = f"import torch\n{guarded}print(deepspeed.__version__)\n"
    assert check(source.encode()) == []
    plain = "import torch\nimport deepspeed\nprint(deepspeed.__version__)\n"
    assert [f.code for f in check(plain.encode())] == ["XLA804"]


@pytest.mark.parametrize(
    ("named", "is_left"),
    [
        ('cuda = importlib.import_module("torch.cuda")', False),
        ('cuda = other = importlib.import_module("torch.cuda")', False),
        ('use(importlib.import_module("torch.cuda"))', True),
        ('cuda = importlib.import_module("torch.cuda"); cuda = use(cuda)', True),
        ('apex = importlib.import_module("apex")', True),
    ],
)
def test_a_module_by_another_name_is_judged_by_its_uses(named: str, is_left: bool) -> None:
    source = f"import importlib\nimport torch\n{named}\n"
    assert ("XLA906" in codes(source)) == is_left


@pytest.mark.parametrize(
    "source",
    [
        "import horovod.torch as hvd\nop = hvd.Adasum",
        "from warprnnt_pytorch import RNNTLoss\nloss = RNNTLoss(blank=0)",
        "import torch.distributed.rpc as rpc\nrpc.init_rpc('a')",
    ],
)
def test_what_computes_on_the_cpu_too_does_not_fail_without_cuda(source: str) -> None:
    messages = [f.message for f in check(f"import torch\n{source}\n".encode())]
    assert any("fails on XLA tensors" in m for m in messages)
    assert not any("without CUDA" in m for m in messages)


@pytest.mark.parametrize(
    ("test", "severity"),
    [
        ("any(isinstance(m, k) for k in [bnb.nn.Linear4bit, int])", "info"),
        ("[issubclass(m, k) for k in (bnb.nn.Linear4bit,)]", "info"),
        ("any(isinstance(k, m) for k in [bnb.nn.Linear4bit])", "error"),
        ("any(k(m) for k in [bnb.nn.Linear4bit, int])", "error"),
        ("[k for k in (bnb.nn.Linear4bit,)]", "error"),
    ],
)
def test_classes_that_are_asked_for_one_by_one_are_worth_knowing_only(
    test: str, severity: str
) -> None:
    source = f"import bitsandbytes as bnb\ndef f(m):\n    return {test}\n"
    assert [f.severity for f in check(source.encode())] == [severity]


@pytest.mark.parametrize(
    ("handler", "severity"),
    [
        ("except Exception:\n        return False", "info"),
        ("except:\n        graph = None", "info"),
        ("except (RuntimeError, AssertionError):\n        return None", "info"),
        ("except ValueError:\n        return False", "error"),
        ("except Exception:\n        raise", "error"),
        ("except Exception as e:\n        print(e)", "error"),
        ("finally:\n        graph = None", "error"),
    ],
)
def test_what_is_caught_and_answered_is_worth_knowing_only(handler: str, severity: str) -> None:
    source = f"def f():\n    try:\n        import torch\n        return torch.cuda.is_current_stream_capturing()\n    {handler}\n"
    assert [f.severity for f in check(source.encode())] == [severity]


def test_an_import_that_checks_for_a_package_is_kept() -> None:
    source = """\
import torch

def check():
    try:
        from fla.ops.gated_delta_rule import chunk_gated_delta_rule  # noqa: F401
    except ImportError as error:
        raise ImportError("install fla") from error
"""
    assert migrated(source) == source


def test_settings_that_are_imported_and_not_used_have_no_effect() -> None:
    source = "import torch\nimport torch.backends.cudnn as cudnn\nx = torch.ones(2).cuda()\n"
    assert [f.code for f in check(source.encode())] == ["XLA101"]
