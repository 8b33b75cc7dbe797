"""Questions for a device: availability, count, index, name, properties, the choice of a device."""

from __future__ import annotations

import pytest

from xla_codemods.analysis.projects.project import Modules, Project
from xla_codemods.engine import Options, check, migrate

from ....each import each
from ...helpers import findings, migrated
from ..lines import codes, line


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("use_cuda = torch.cuda.is_available()", "use_cuda = xla.is_available()"),
        ("use_cuda = torch.cuda.is_available", "use_cuda = xla.is_available"),
        ("use = not args.no_cuda and torch.cuda.is_available()", "use = not args.no_cuda and xla.is_available()"),
        ("ask(torch.cuda.is_available)", "ask(xla.is_available)"),
        ("if torch.accelerator.is_available(): f()", "if xla.is_available(): f()"),
        ("a = torch.cuda.is_initialized()", "a = xla.is_initialized()"),
        ("a = torch.cuda._initialized", "a = xla.is_initialized()"),
        ("a = torch.backends.cuda.is_built()", "a = xla.is_available()"),
        ("if torch.cuda._initialized: f()", "if xla.is_initialized(): f()"),
        ("a = f and torch.cuda._initialized", "a = f and xla.is_initialized()"),
        ("n = torch.cuda.device_count()", "n = xla.device_count()"),
        ('a = hasattr(torch.cuda.device_count, "cache_clear")', 'a = hasattr(torch.cuda.device_count, "cache_clear")'),
        ("n = torch.accelerator.device_count()", "n = xla.device_count()"),
        ("a = torch.cuda.device_count() > 1", "a = xla.device_count() > 1"),
        ("a = torch.cuda.device_count() > 0", "a = xla.is_available()"),
        ("a = torch.cuda.device_count() == 0", "a = not xla.is_available()"),
        ("a = torch.cuda.device_count() >= 1 and f", "a = xla.is_available() and f"),
        ("if torch.cuda.device_count(): f()", "if xla.is_available(): f()"),
        ("if torch.cuda.is_available() and torch.cuda.device_count() > 0: f()", "if xla.is_available(): f()"),
        ("if f and torch.cuda.is_available() and torch.cuda.device_count(): f()", "if f and xla.is_available(): f()"),
        ("if (f or g) and torch.cuda.device_count() >= 1 and torch.cuda.is_available(): f()", "if (f or g) and xla.is_available(): f()"),
        ("if not torch.cuda.is_available() or torch.cuda.device_count() == 0: f()", "if not xla.is_available(): f()"),
        ("if torch.cuda.is_available() or torch.cuda.device_count() > 0: f()", "if xla.is_available() or xla.is_available(): f()"),
        ("if torch.cuda.is_available() and torch.cuda.device_count() > 1: f()", "if xla.is_available() and xla.device_count() > 1: f()"),
        ("a = not torch.cuda.device_count()", "a = not xla.is_available()"),
        ("d = torch.cuda.current_device()", "d = xla.xla_device()"),
        ("print(torch.cuda.current_device())", "print(xla.xla_device().index or 0)"),
        ("device_idx = torch.cuda.current_device()", "device_idx = xla.xla_device().index or 0"),
        ("a = rank == torch.cuda.current_device()", "a = rank == xla.local_rank()"),
        ("a = gpu == torch.cuda.current_device()", "a = gpu == (xla.xla_device().index or 0)"),
        ("if torch.cuda.current_device() == 0: f()", "if xla.local_rank() == 0: f()"),
        ("if not 0 != torch.cuda.current_device(): f()", "if not 0 != xla.local_rank(): f()"),
        ("a = torch.cuda.current_device() > 0", "a = xla.local_rank() > 0"),
        ("print(torch.cuda.get_device_name(0))", "print(xla.device_name())"),
        ("n = torch.cuda.get_device_name(device)", "n = xla.device_name(device)"),
        ('n = torch.cuda.get_device_name("cuda:1")', "n = xla.device_name(1)"),
        ("n = [torch.cuda.get_device_name(i) for i in r]", "n = [xla.device_name(i) for i in r]"),
        ("torch.cuda.init()\nf()", "f()"),
        ("d = torch.accelerator.current_accelerator()", "d = xla.xla_device()"),
        ("d = torch.accelerator.current_accelerator(check_available=True)", "d = xla.xla_device()"),
        ("d = torch.accelerator.current_accelerator().type", "d = xla.device_type()"),
        ("d = torch.accelerator.current_device_index()", "d = xla.xla_device()"),
        ('d = torch.device(f"{torch.accelerator.current_accelerator()}:{rank}")', "d = xla.xla_device(rank)"),
        ('acc = torch.accelerator.current_accelerator()\nd = torch.device(f"{acc}:1")', "acc = xla.xla_device()\nd = xla.xla_device(1)"),
        ('t = torch.accelerator.current_accelerator().type\ndevice = f"{t}:{rank}"',
         "t = xla.device_type()\ndevice = str(xla.xla_device(rank))"),
        ("torch.cuda.set_device(rank)", "xla.set_device(rank)"),
        ("torch.cuda.set_device(0)", "xla.set_device(0)"),
        ('torch.cuda.set_device(f"cuda:{rank}")', "xla.set_device(rank)"),
        ("torch.cuda.set_device(torch.device('cuda', 1))", "xla.set_device(xla.xla_device(1))"),
        ("torch.accelerator.set_device_index(rank)", "xla.set_device(rank)"),
        ("with torch.cuda.device(1):\n    f()", "with xla.device_index(1):\n    f()"),
        ("with torch.cuda.device_of(x):\n    f()", "with xla.device_index(x.device):\n    f()"),
        ("torch.cuda.set_device(torch.cuda.current_device())", "xla.set_device(xla.xla_device())"),
        ("with torch.accelerator.device_index(i):\n    f()", "with xla.device_index(i):\n    f()"),
    ],
)  # fmt: skip
def test_asks_the_runtime(before: str, after: str) -> None:
    assert line(before) == after


@pytest.mark.parametrize(
    "source",
    [
        "if torch.cuda.is_available():\n    from flash_attn import flash_attn_func",
        "has_triton = torch.cuda.is_available()",
        "attend = flash_attn_func if torch.cuda.is_available() else plain",
        "if torch.cuda.is_available():\n    print(torch.cuda.get_device_capability())",
        "if torch.cuda.is_available() and torch.cuda.is_current_stream_capturing():\n    f()",
        "if torch.cuda.is_available() and torch.version.hip:\n    f()",
        "def requires_cuda(test):\n    return skip_if(not torch.cuda.is_available())(test)",
        "if torch.cuda.is_available():\n    restore('CUDA', torch.cuda, states)",
        "if not torch.cuda.is_available():\n    raise RuntimeError('int4 quantization needs a GPU')",
        "def f():\n    if not torch.cuda.is_available():\n        return False\n"
        "    properties = torch.cuda.get_device_properties(0)\n    return properties.major > 8",
        "def f():\n    if not torch.cuda.is_available():\n        return False\n"
        "    from torch.backends.cuda import SDPAParams as P\n    return g(P)",
    ],
)
def test_a_question_that_chooses_cuda_code_stays(source: str) -> None:
    assert line(source) == source
    assert "XLA102" not in codes(source)


HELPERS = """
import gc
def clear_cuda_memory():
    gc.collect()
    torch.cuda.empty_cache()
def all_cuda(batch):
    return [x.cuda() for x in batch]
def free_cuda():
    return total_cuda_memory() - torch.cuda.memory_reserved()
def total_cuda_memory():
    return torch.cuda.get_device_properties(0).total_memory
def swish_cuda(x):
    return swish_ext.forward(x)
def norm_cuda(x):
    return Norm.apply(x)
class Batches:
    def next_cuda(self):
        return next(self.batches).cuda()
"""


@pytest.mark.parametrize(
    ("call", "stays"),
    [
        ("clear_cuda_memory()", False),
        ("batch = all_cuda(batch)", False),
        ("print(free_cuda())", False),
        ("return total_cuda_memory()", False),
        ("return Batches().next_cuda()", False),
        ("return swish_cuda(batch)", True),
        ("return norm_cuda(batch)", True),
        ("return unknown_cuda(batch)", True),
    ],
)
def test_a_function_whose_name_says_cuda_is_no_kernel_where_it_has_none(
    call: str, stays: bool
) -> None:
    source = f"import swish_ext\n{HELPERS}\ndef main(batch):\n    if torch.cuda.is_available():\n        {call}\n"
    assert ("    if torch.cuda.is_available():" in line(source)) is stays


def test_nor_one_of_another_module_of_the_project() -> None:
    main = "import torch\nfrom lib import all_cuda\nif torch.cuda.is_available():\n    batch = all_cuda(batch)\n"
    files = {"main.py": main.encode(), "lib.py": f"import torch\n{HELPERS}".encode()}
    done = migrate(files["main.py"], Options(), "main.py", Project(Modules(files), "main.py"))
    assert "if xla.is_available():" in done.data.decode()


KERNELS = "import torch\nfrom torch.utils.cpp_extension import load\ntry:\n    spmm = load('spmm', ['spmm.cu'])\nexcept Exception:\n    spmm = None\n"
PLAIN = "import torch\ndef spmm(a, b):\n    return a @ b\n"


@pytest.mark.parametrize("imported", ["from ops.spmm import spmm", "from .ops.spmm import spmm as f",
                                      "import ops.spmm as s", "from ops import spmm", "from .ops import spmm as s"])  # fmt: skip
@pytest.mark.parametrize(("module", "stays"), [(KERNELS, True), (PLAIN, False)])
def test_a_question_before_an_import_of_the_projects_kernels_is_cudas(
    imported: str, module: str, stays: bool
) -> None:
    main = f"import torch\nFAST = None\ndef prepare():\n    if torch.cuda.is_available():\n        {imported}\n        CONFIG['spmm'] = 1\n"
    files = {"main.py": main.encode(), "ops/__init__.py": b"", "ops/spmm.py": module.encode()}
    done = migrate(files["main.py"], Options(), "main.py", Project(Modules(files), "main.py"))
    assert ("if torch.cuda.is_available():" in done.data.decode()) is stays


def test_what_is_moved_beside_a_kernel_is_moved_to_xla() -> None:
    before = "if torch.cuda.is_available():\n    model.cuda()\n    use_triton = True"
    after = "if xla.is_available():\n    model.to(xla.xla_device())\n    use_triton = True"
    assert line(before) == after


def test_misspelt_names_are_reported() -> None:
    assert codes("a = torch.cuda.is_availble()") == ["XLA102"]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "t = torch.cuda.get_device_properties(0).total_memory",
            "t = xla.device_properties().total_memory",
        ),
        (
            "n = torch.cuda.get_device_properties(device).name",
            "n = xla.device_properties(device).name",
        ),
        ("print(torch.cuda.get_device_properties(device))", "print(xla.device_properties(device))"),
        (
            "bf16 = torch.cuda.get_device_properties(0).major >= 8",
            "bf16 = xla.is_bf16_supported()",
        ),
        (
            "bf16 = torch.cuda.get_device_capability()[0] >= 8",
            "bf16 = xla.is_bf16_supported()",
        ),
        (
            "d = torch.bfloat16 if torch.cuda.get_device_capability() >= (8, 0) else torch.float32",
            "d = torch.bfloat16 if xla.is_bf16_supported() else torch.float32",
        ),
    ],
)
def test_properties_that_have_a_counterpart(before: str, after: str) -> None:
    assert line(before) == after


@pytest.mark.parametrize(
    "source",
    [
        "n = torch.cuda.get_device_properties(0).multi_processor_count",
        "flash = torch.cuda.get_device_capability()[0] >= 8",
        "major, minor = torch.cuda.get_device_capability()",
        "bf16 = torch.cuda.get_device_capability()[1] >= 8",
    ],
)
def test_properties_that_have_none(source: str) -> None:
    assert line(source) == source
    assert "XLA113" in codes(source)


@pytest.mark.parametrize(
    ("source", "after"),
    [
        ("m = torch.get_device_module(device)", "m = xla.device_module(device)"),
        ("m = torch.get_device_module(device=device)", "m = xla.device_module(device)"),
        ("m = torch.get_device_module()", "m = xla.device_module()"),
        ("m = getattr(torch, device.type)", "m = xla.device_module(device.type)"),
        ("m = getattr(torch, device_type)", "m = xla.device_module(device_type)"),
        (
            "def module():\n    return getattr(torch, device_type, torch.cuda)",
            "def module():\n    return xla.device_module(device_type)",
        ),
        (
            "backend = torch.cuda if gpu else torch.cpu",
            "backend = torch.cuda if gpu else torch.cpu",
        ),
        ("def module():\n    return torch.cuda", "def module():\n    return torch.cuda"),
    ],
)
def test_fact_1_3_modules_chosen_at_run_time(source: str, after: str) -> None:
    assert line(source) == after
    assert "XLA115" in codes(source)


@pytest.mark.parametrize(
    "source",
    [
        "dtype = getattr(torch, args.dtype)",
        "f = getattr(torch, name)",
        "print(torch.version.cuda)",
        "n = len(devices)",
    ],
)
def test_other_questions_stay(source: str) -> None:
    assert line(source) == source
    assert codes(source) == []


@pytest.mark.parametrize(
    ("source", "several"),
    [
        ('a.to("cuda:0"); b.to("cuda:1")', True),
        ("a.cuda(0); b.cuda(1)", True),
        ('a = torch.device("cuda:0"); b = torch.device("cuda", 1)', True),
        ('a.to("cuda"); b.to("cuda:1")', True),
        ('d = [torch.device(f"cuda:{i}") for i in range(torch.cuda.device_count())]', True),
        ('d = torch.device("cuda:1")\nx.to(d)', False),
        ('a.to("cuda:0"); b.to("cuda")', False),
        ('torch.cuda.set_device(1); a.to("cuda"); b.to("cuda:1")', False),
        ("a.cuda(rank); b.cuda()", False),
    ],
)
def test_several_devices_in_one_process(source: str, several: bool) -> None:
    assert ("XLA114" in codes(source)) is several
    head = "from xla_migrate import runtime as xla\n"
    assert ("XLA114" in codes(head + line(source))) is several, "as long as it is so"


@pytest.mark.parametrize(
    ("before", "left"),
    [
        ("if pin_memory and not torch.cuda.is_available(): f()", True),
        ("if args.pin_mem and torch.cuda.is_available(): f()", True),
        ("if shuffle and not torch.cuda.is_available(): f()", False),
    ],
)
def test_whether_memory_can_be_pinned_is_cudas_question(before: str, left: bool) -> None:
    assert ("XLA102" not in codes(before)) is left


def test_the_number_of_the_current_device_is_a_device_again_where_one_is_made_of_it() -> None:
    before = (
        "import torch\n"
        "def here(other):\n"
        "    current_idx = torch.cuda.current_device()\n"
        "    print(other.index != current_idx)\n"
        "    return torch.device(current_idx)\n"
    )
    once = migrated(before)
    assert "return xla.xla_device(current_idx)" in once
    assert migrated(once) == once


def test_what_stands_behind_a_test_that_stays_is_not_reached() -> None:
    source = "if torch.cuda.is_available():\n    for d in range(torch.cuda.device_count()):\n        a = torch.cuda.get_device_capability(d)"
    assert [code for code in codes(source) if code == "XLA102"] == []


@each(
    "refusal, severity",
    [
        ("assert x.device.type == 'cuda', 'flash attention only'", "info"),
        ("assert torch.cuda.is_available(), 'xformers needs CUDA'", "info"),
        ("if not x.is_cuda:\n            raise ValueError('flash_attn is for CUDA')", "info"),
        (
            "if x.device.type != 'cuda':\n            raise ValueError('flash_attn needs it')",
            "info",
        ),
        ("assert x.device.type == 'cuda', 'CUDA only'", "info"),
        ("assert x.device.type != 'cuda', 'no flash attention'", "error"),
        ("assert x.dim() == 2", "error"),
        ("if x.is_cuda:\n            raise ValueError('flash_attn is for the CPU')", "error"),
    ],
)
def test_what_stands_behind_a_refusal_that_stays_is_not_reached(
    refusal: str, severity: str
) -> None:
    source = f"""
import torch
def attend(x, packed):
    if packed:
        {refusal}
        major, minor = torch.cuda.get_device_capability(x.device)
        assert major >= 8, minor
    return x
"""
    found = [f.severity for f in check(source.encode()) if f.code == "XLA113"]
    assert found == [severity]


def test_a_question_for_an_attribute_of_torch_cuda_is_asked_of_the_runtime() -> None:
    assert "XLA102" in codes("amp = torch.cuda.is_available() and hasattr(torch.cuda, 'amp')")


def test_a_list_of_questions_for_many_makes_is_for_a_person() -> None:
    source = (
        "many = torch.xpu.device_count() > 1 or torch.npu.device_count() > 1"
        " or torch.hpu.device_count() > 1 or torch.cuda.device_count() > 1"
    )
    assert line(source) == source
    assert codes(source).count("XLA102") == 1
    two = "many = torch.xpu.device_count() > 1 or torch.cuda.device_count() > 1"
    assert line(two) == two.replace("torch.cuda", "xla")


def test_a_script_that_refuses_to_run_without_cuda_is_told_so() -> None:
    source = "def require_cuda():\n    if not torch.cuda.is_available():\n        raise SystemExit('no GPU')"
    assert "not xla.is_available()" in line(source)


@pytest.mark.parametrize(
    "before",
    [
        "print('cc', torch.cuda.get_device_capability())",
        "print(f'cc {torch.cuda.get_device_capability(0)}')",
        "logger.info('cc %s', torch.cuda.get_device_capability())",
        "print('cc', str(torch.cuda.get_device_capability()))",
        "cc = torch.cuda.get_device_capability()\nprint(cc)\nlogger.debug('%s', cc)",
    ],
)
def test_a_capability_that_is_only_shown(before: str) -> None:
    """A log line is no reason to stop: it says which device it is."""
    result = migrated(f"import torch\n{before}\n")
    assert "get_device_capability" not in result
    assert "xla.device_name(" in result


@pytest.mark.parametrize(
    "source",
    [
        "major, minor = torch.cuda.get_device_capability()",
        "print(f'{torch.cuda.get_device_capability()[0]}.x')",
        "cc = torch.cuda.get_device_capability()\nprint(cc)\nold = cc < (8, 0)",
        "print('%d.%d' % torch.cuda.get_device_capability())",
        "print('{}.{}'.format(*torch.cuda.get_device_capability()))",
    ],
)
def test_a_capability_that_is_computed_with(source: str) -> None:
    assert codes(source) == ["XLA113"]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "major, _ = torch.cuda.get_device_capability()\nd = torch.bfloat16 if major >= 8 else torch.float16",
            "d = torch.bfloat16 if xla.is_bf16_supported() else torch.float16",
        ),
        (
            "cc = torch.cuda.get_device_capability(0)\nd = torch.bfloat16 if cc[0] > 7 else torch.float16",
            "d = torch.bfloat16 if xla.is_bf16_supported() else torch.float16",
        ),
        (
            "d = torch.float16 if torch.cuda.get_device_capability() < (8, 0) else torch.bfloat16",
            "d = torch.float16 if not xla.is_bf16_supported() else torch.bfloat16",
        ),
        (
            "bf16 = torch.cuda.is_available() and torch.cuda.get_device_capability()[0] >= 8",
            "bf16 = xla.is_available() and xla.is_bf16_supported()",
        ),
        (
            "if args.bf16 and torch.cuda.get_device_capability()[0] < 8:\n    raise ValueError",
            "if args.bf16 and not xla.is_bf16_supported():\n    raise ValueError",
        ),
        (
            "def supports_bf16():\n    return torch.cuda.get_device_capability()[0] >= 8",
            "def supports_bf16():\n    return xla.is_bf16_supported()",
        ),
    ],
)
def test_a_capability_that_chooses_bfloat16(before: str, after: str) -> None:
    assert line(before) == after


@pytest.mark.parametrize(
    "source",
    [
        "major, minor = torch.cuda.get_device_capability()\nbf16 = major >= 8\nprint(minor)",
        "major, _ = torch.cuda.get_device_capability()\nbf16 = major >= 9",
        "major, _ = torch.cuda.get_device_capability()\nmajor = 7\nbf16 = major >= 8",
        "major, _ = torch.cuda.get_device_capability()\nfast = major >= 8",
        "def f():\n    return torch.cuda.get_device_capability()[0] >= 8",
        "a = 'flash_bf16' if torch.cuda.get_device_capability()[0] >= 8 else 'sdpa'",
    ],
)
def test_a_capability_that_chooses_something_else(source: str) -> None:
    assert line(source) == source
    assert "XLA113" in codes(source)


def test_a_choice_of_float16_behind_a_question_for_cuda_is_no_mere_note() -> None:
    source = 'import torch\nif torch.cuda.is_available() and torch.cuda.get_device_capability()[0] >= 8:\n    dtype, attention = torch.bfloat16, "flash_attention_2"\nelse:\n    dtype, attention = torch.float16, "sdpa"\n'
    assert [(f.code, f.severity) for f in check(source.encode()) if f.code == "XLA113"] == [
        ("XLA113", "warning")
    ]


@pytest.mark.parametrize(
    "chosen",
    ['getattr(torch, "cuda")', '__import__("torch").cuda', 'importlib.import_module("torch.cuda")'],
)
def test_the_module_by_its_name(chosen: str) -> None:
    assert "xla.synchronize()" in line(f"import importlib\n{chosen}.synchronize()")


def test_import_of_a_module_by_its_package() -> None:
    assert 'c = __import__("torch.cuda")' in line('c = __import__("torch.cuda")\nc.manual_seed(0)')
    source = 'm = __import__("torch.cuda", fromlist=["amp"])\nm.synchronize()'
    assert line(source).endswith("xla.synchronize()")


@pytest.mark.parametrize(
    "source",
    [
        'name = "cuda"\ngetattr(torch, name).synchronize()',
        'def f(kind="cuda"):\n    return getattr(torch, kind).synchronize()',
    ],
)
def test_a_module_by_a_name_that_says_cuda(source: str) -> None:
    assert "XLA115" in codes(source)


@pytest.mark.parametrize(
    ("test", "severity"),
    [
        ("x.device.type == 'cuda'", "info"),
        ("'cuda' == x.device.type", "info"),
        ("x.is_cuda", "info"),
        ("torch.cuda.is_available()", "info"),
        ("fast and x.is_cuda", "info"),
        ("fast", "error"),
    ],
)
def test_a_capability_behind_a_test_that_stays_is_a_note(test: str, severity: str) -> None:
    source = f"import torch\ndef f(x, fast):\n    if {test}:\n        return torch.cuda.get_device_capability(x.device) >= (8, 9)\n    return False\n"
    (found,) = [f for f in check(source.encode()) if f.code == "XLA113"]
    assert found.severity == severity
    assert "XLA107" not in codes(source)


HARDWARE = """import torch
def chunk(device, fast):
    {}
    return torch.cuda.get_device_properties(device).L2_cache_size // 4
"""


@pytest.mark.parametrize(
    ("guard", "stays"),
    [
        ("if device.type != 'cuda' or not fast:\n        return None", True),
        ("if device.type != 'cuda':\n        return False", True),
        ("if not torch.cuda.is_available():\n        return None", True),
        ("if not fast or not torch.cuda.is_available():\n        return None", True),
        ("if device.type != 'cuda':\n        return 1", True),
        ("if device.type != 'cuda':\n        return", True),
        ("if device.type != 'cuda' and fast:\n        return None", False),
    ],
)
def test_who_goes_on_to_ask_cudas_hardware_asks_for_cuda(guard: str, stays: bool) -> None:
    found = set(codes(HARDWARE.format(guard)))
    assert found & {"XLA102", "XLA107"} == (set() if stays else {"XLA107"})


def test_a_platform_that_is_returned_with_its_capability_is_cudas() -> None:
    source = "import torch\ndef f():\n    if torch.cuda.is_available():\n        major, minor = torch.cuda.get_device_capability()\n        return ('cuda', major, minor)\n"
    assert "XLA102" not in codes(source)


@pytest.mark.parametrize(
    "body",
    [
        "if (not ON) or (not torch.backends.cudnn.enabled):\n        return False\n    if x.device.type != 'cuda':\n        return False\n    return True",
        "if x.device.type != 'cuda' or not torch.backends.cudnn.enabled:\n        return False\n    return True",
        "return torch.backends.cudnn.enabled and x.device.type == 'cuda'",
        "return x.is_cuda and ON and torch.backends.cudnn.enabled",
        "if x.is_cuda and torch.backends.cudnn.is_acceptable(x):\n        return True\n    return False",
    ],
)
def test_who_asks_for_cudnn_too_asks_for_an_operation_of_its_own(body: str) -> None:
    source = f"import torch\n\nON = True\n\ndef could_use_op(x):\n    {body}\n"
    assert migrated(source) == source


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("devices = [torch.cuda.current_device()]\nfor d in devices: sizes[d] = 0",
         "devices = [xla.xla_device().index or 0]\nfor d in devices: sizes[d] = 0"),
        ("a = {torch.cuda.current_device()}", "a = {xla.xla_device().index or 0}"),
        ("a = {torch.cuda.current_device(): x}", "a = {xla.xla_device().index or 0: x}"),
        ("places = [torch.cuda.current_device()]\nfor d in places: x.to(d)",
         "places = [xla.xla_device()]\nfor d in places: x.to(d)"),
        ("places = [torch.cuda.current_device()]\nx.to(places[0])", "places = [xla.xla_device()]\nx.to(places[0])"),
        ("places = [torch.cuda.current_device()]\ny = [x.to(d) for d in places]",
         "places = [xla.xla_device()]\ny = [x.to(d) for d in places]"),
    ],
)  # fmt: skip
def test_the_index_in_a_list_is_a_number(before: str, after: str) -> None:
    """It may be compared with `p.device.index`: a device in its place would never be found."""
    assert line(before) == after


@pytest.mark.parametrize(
    ("source", "advice"),
    [
        ("if torch.cuda.get_device_capability(q.device) < (major, minor): raise ValueError('too old')", "skip the code that depends on it on XLA"),
        ("fused = torch.cuda.get_device_capability()[0] >= 9", "skip the code that depends on it on XLA"),
        ("bf16 = torch.cuda.get_device_capability()[1] >= 8", "to test for bfloat16"),
    ],
)  # fmt: skip
def test_a_capability_is_not_always_bfloat16s(source: str, advice: str) -> None:
    found = check(f"import torch\n\ndef f(q, major, minor):\n    {source}\n".encode())
    assert [f.message.endswith(advice) for f in found if f.code == "XLA113"] == [True]


@pytest.mark.parametrize(
    ("call", "stays"),
    [
        ("check_requirements(f\"tensorflow{'' if torch.cuda.is_available() else '-cpu'}\")", True),
        ("check_requirements('faiss-gpu' if torch.cuda.is_available() else 'faiss-cpu')", True),
        ("pip_install('x' + ('-gpu' if torch.cuda.is_available() else ''))", True),
        ("install_package(['jax[cuda]'] if torch.cuda.is_available() else ['jax'])", True),
        ("pip.main(['install', 'x' if torch.cuda.is_available() else 'y'])", False),
        ("log(f\"runs on {'gpu' if torch.cuda.is_available() else 'cpu'}\")", False),
    ],
)
def test_the_package_of_another_library_is_chosen_by_cuda(call: str, stays: bool) -> None:
    assert ("torch.cuda.is_available()" in line(call)) is stays


@pytest.mark.parametrize(
    "call",
    [
        "make(pin_memory=gpu and torch.cuda.device_count() > 1)",
        "make(pin_memory=torch.cuda.is_available())",
        "dataset.iterator(pin_memory=not args.cpu and torch.cuda.is_available())",
        "make(pin=torch.cuda.is_available())",
        "Loader(data, pin_memory=torch.cuda.device_count() >= 1 or force)",
        "copied(x, non_blocking=torch.cuda.is_available())",
        "y = torch.cuda.is_available() and x.is_pinned()",
    ],
)
def test_whether_others_pin_memory_is_cudas_question(call: str) -> None:
    assert line(call) == call
    assert "XLA102" not in codes(call)


@pytest.mark.parametrize(
    "alias",
    [
        "Union[torch.cuda.Stream, None]",
        "Optional[torch.cuda.Event]",
        "List[torch.cuda.Stream]",
        "typing.Dict[str, torch.cuda.Stream]",
        "Callable[[torch.cuda.Stream], None]",
    ],
)
def test_an_alias_of_types_is_no_use(alias: str) -> None:
    source = f"import typing\nfrom typing import Callable, List, Optional, Union\nKind = {alias}"
    assert codes(source) == []


@pytest.mark.parametrize(
    ("choice", "after"),
    [
        ('d = "cuda" if torch.version.cuda else "cpu"', 'd = xla.device_type() if xla.is_available() else "cpu"'),
        ('d = "cuda" if torch.version.cuda is not None else "cpu"', 'd = xla.device_type() if xla.is_available() else "cpu"'),
        ('d = torch.device("cuda" if torch.version.cuda else "cpu")', 'd = xla.xla_device() if xla.is_available() else torch.device("cpu")'),
        ('d = "cpu" if torch.version.cuda is None else "cuda:0"', 'd = "cpu" if not xla.is_available() else xla.device_type()'),
        ('if use and torch.version.cuda:\n    x = x.to("cuda")\n    d = torch.device("cuda")', "if use and xla.is_available():"),
        ("if torch.version.cuda:\n    print(1)", "if torch.version.cuda:\n    print(1)"),
        ("v = torch.version.cuda or 'none'", "v = torch.version.cuda or 'none'"),
    ],
)  # fmt: skip
def test_what_torch_was_built_for(choice: str, after: str) -> None:
    changed = migrated(f"import torch\n{choice}\nx = torch.ones(2).cuda()\n")
    assert changed.split("runtime as xla\n")[1].startswith(after + "\n")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("torch.cuda.current_device()", "xla.device_type()"),
        ('torch.cuda.current_device() if use_cuda else "cpu"', 'xla.device_type() if use_cuda else "cpu"'),
        ("torch.cuda.current_device(), type=str", "xla.device_type(), type=str"),
        ("torch.cuda.current_device(), type=int", "xla.xla_device().index or 0, type=int"),
    ],
)  # fmt: skip
def test_the_default_of_an_option_is_a_text(before: str, after: str) -> None:
    """What reads it may call `int(args.device)`, which a device does not take."""
    source = 'import torch\nparser.add_argument("--device", default={})\n'
    assert migrated(source.format(before)).endswith(source.format(after).partition("\n")[2])


@pytest.mark.parametrize(
    "index", ["index=torch.cuda.current_device()", "torch.cuda.current_device()"]
)
def test_an_index_is_a_number(index: str) -> None:
    source = f"import torch\ndef f(x):\n    return torch.device(x.device.type, {index})\n"
    assert "xla.xla_device().index or 0" in migrated(source)


@pytest.mark.parametrize(
    "line",
    [
        "use_fp16 = torch.cuda.is_available()",
        "self.half = torch.cuda.is_available()",
        "has_fp16 = others() or torch.cuda.is_available()",
        "def is_fp16_available():\n    return torch.cuda.is_available()",
        "use_fp16 = device.type == 'cuda'",
    ],
)
def test_a_flag_for_float16_stays_false_on_xla(line: str) -> None:
    source = f"import torch\n{line}\nx = torch.ones(2).to(device)\nrun(use_fp16)\n"
    assert "xla." not in migrated(source)
    assert [code for _, code in findings(source)] in (["XLA102"], ["XLA107"])


def test_a_flag_for_autocast_is_true_on_xla() -> None:
    source = """\
import torch
use_fp16 = torch.cuda.is_available()
with torch.autocast("cuda", enabled=use_fp16):
    pass
"""
    assert "use_fp16 = xla.is_available()" in migrated(source)


@pytest.mark.parametrize("home", ["", ".utils", ".utils.import_utils"])
def test_bfloat16_of_transformers(home: str) -> None:
    source = f"from transformers{home} import is_torch_bf16_gpu_available as ready\nx = ready()\n"
    assert "x = xla.is_bf16_supported()" in migrated(source)


@pytest.mark.parametrize(
    "choice",
    [
        'config._attn_implementation = args.attn if {} else "sdpa"',
        'attn = args.attn if {} else "eager"',
        'attn = "sdpa" if not {} else args.attn',
        "model = M.from_pretrained(n, attn_implementation=args.attn if {} else None)",
        'options = {{"attn_implementation": args.attn if {} else args.other}}',
        'if {}:\n    attn = args.attn\nelse:\n    attn = "sdpa"',
        'if not {}:\n    attn = "sdpa"\nelse:\n    attn = args.attn',
        'attn = "sdpa"\nif {}:\n    attn = args.attn',
        'if not {}:\n    args.attn = "sdpa"',
    ],
)
def test_an_attention_that_falls_back_without_cuda_is_kept_from_xla(choice: str) -> None:
    source = choice.format("torch.cuda.is_available()")
    assert line(source) == source


@pytest.mark.parametrize(
    "choice",
    [
        'attn = "sdpa" if {} else "eager"',
        'mode = args.mode if {} else "cpu"',
        'if {}:\n    attn, device = args.attn, dev\nelse:\n    attn, device = "sdpa", "cpu"',
        'attn = "sdpa"\nif {}:\n    workers = args.workers',
    ],
)
def test_other_choices_are_for_every_accelerator(choice: str) -> None:
    assert line(choice.format("torch.cuda.is_available()")) == choice.format("xla.is_available()")
