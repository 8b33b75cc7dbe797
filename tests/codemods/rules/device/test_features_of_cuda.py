"""A question for CUDA does not become true on XLA where all that it guards is a feature that only CUDA has."""

from __future__ import annotations

import textwrap

import pytest

from xla_codemods.analysis.projects.project import Modules, Project
from xla_codemods.engine import migrate

from ....each import each
from ...helpers import migrated

HEAD = """
import torch
import transformer_engine.pytorch as te
from torch import nn

use_fp8 = True
model = nn.Linear(2, 2).cuda()

def run(x, graphs=False):
"""
ASKED = "torch.cuda.is_available()"
STAYS = {
    "asserted_for_graphs": "assert torch.cuda.is_available(), 'CUDA Graphs need a GPU'\nreturn x",
    "a_switch_of_kernels": "return attend(x, use_triton=torch.cuda.is_available())",
    "a_switch_by_device": "return attend(x, flash_attention=(torch.cuda.is_available()))",
    "a_switch_in_a_dictionary": "return attend(x, **{'use_kernels': torch.cuda.is_available()})",
    "a_switch_of_fusion": "return Config(conv_fusion=torch.cuda.is_available())",
    "a_switch_of_float8": "return Config(use_fp8=torch.cuda.is_available())",
    "joined_with_an_option": "if torch.cuda.is_available() and use_fp8:\n    return low(x)",
    "behind_an_option": "if use_fp8 and torch.cuda.is_available():\n    return low(x)",
    "an_option_of_the_command": "if args.cuda_graphs and torch.cuda.is_available():\n    capture(x)",
    "by_another_name": "if torch.cuda.is_available():\n    with te.fp8_autocast(enabled=True):\n        return model(x)",
    "chosen": "layer = te.Linear(2, 2) if torch.cuda.is_available() else nn.Linear(2, 2)",
    "a_flag": "graphs = graphs and torch.cuda.is_available()\nif graphs:\n    f = torch.cuda.make_graphed_callables(model, (x,))",
    "a_flag_that_is_asked_with_another": "ready = torch.cuda.is_available()\nif ready and graphs:\n    g = torch.cuda.CUDAGraph()",
    "left_early": "if not torch.cuda.is_available():\n    return model(x)\ng = torch.cuda.CUDAGraph()\ng.replay()",
    "providers_of_onnxruntime": "there = torch.cuda.is_available()\nproviders = ['CUDAExecutionProvider'] if there else []",
    "a_provider_that_is_put_first": "if torch.cuda.is_available():\n    providers.insert(0, 'CUDAExecutionProvider')",
    "a_provider_behind_a_refusal": (
        "if graphs:\n    if not torch.cuda.is_available():\n        raise RuntimeError(\"no CUDA, but 'cuda' is asked for\")\n"
        "    providers = ['CUDAExecutionProvider']"
    ),
    "a_refusal_in_the_branch": (
        "if torch.cuda.is_available():\n    if graphs:\n        raise RuntimeError(\"not on 'cuda'\")\n"
        "    g = torch.cuda.CUDAGraph()"
    ),
    "a_package_to_install": "install('onnxruntime-gpu' if torch.cuda.is_available() else 'onnxruntime')",
    "left_early_by_either": "if not torch.cuda.is_available() or not graphs:\n    return model(x)\ng = torch.cuda.CUDAGraph()\ng.replay()",
    "refused_before_kernels_are_compiled": (
        "if not torch.cuda.is_available():\n    raise ImportError('CUDA is needed')\n"
        "wkv = load(name='wkv', sources=['wkv.cpp', 'wkv.cu'])\nreturn wkv"
    ),
    "refused_before_an_extension_is_built": (
        "if not torch.cuda.is_available():\n    raise RuntimeError('no device')\n"
        "return load(name='wkv', sources=files, extra_cuda_cflags=['-O3'])"
    ),
    "refused_first": "if not torch.cuda.is_available():\n    print('no')\nelse:\n    g = torch.cuda.CUDAGraph()",
    "refused_first_by_either": "if not graphs or not torch.cuda.is_available():\n    print('no')\nelse:\n    g = torch.cuda.CUDAGraph()",
    "chosen_last": "layer = nn.Linear(2, 2) if not torch.cuda.is_available() else te.Linear(2, 2)",
    "a_record_of_memory": "if not torch.cuda.is_available():\n    print('no')\nelse:\n    torch.cuda.memory._record_memory_history()",
    "what_warns_of_waiting": "if torch.cuda.is_available():\n    mode = torch.cuda.get_sync_debug_mode()",
    "a_snapshot_of_memory": "if graphs and torch.cuda.is_available():\n    torch.cuda.memory._dump_snapshot('x')",
    "left_before_the_hardware": (
        "if not graphs or not torch.cuda.is_available():\n    return\n"
        "properties = torch.cuda.get_device_properties(torch.device('cuda'))\nif properties.major == 8:\n    x.fast = 1"
    ),
}
BECOMES_TRUE = {
    "a_move": "if torch.cuda.is_available() and graphs:\n    x = x.cuda()",
    "a_move_behind_a_refusal": (
        "if torch.cuda.is_available():\n    if graphs:\n        raise RuntimeError('no')\n"
        "    x = x.to('cuda')\n    x = own_kernel(x)"
    ),
    "a_flag_for_a_move": "there = torch.cuda.is_available()\nif there:\n    x = x.cuda()",
    "a_flag_for_both": "there = torch.cuda.is_available()\nif there:\n    g = torch.cuda.CUDAGraph()\nif there:\n    x = x.cuda()",
    "left_before_a_move": "if not torch.cuda.is_available():\n    return model(x)\nreturn model(x.cuda())",
    "left_before_the_hardware_and_a_move": (
        "if not torch.cuda.is_available():\n    return\nproperties = torch.cuda.get_device_properties(0)\n"
        "print(properties.major)\nreturn model(x.to('cuda'))"
    ),
    "streams_that_go": "if torch.cuda.is_available():\n    with torch.cuda.stream(torch.cuda.Stream()):\n        x = x.cpu()",
    "refused_before_a_move": (
        "if not torch.cuda.is_available():\n    raise ImportError('CUDA is needed')\nreturn model(x.cuda())"
    ),
    "refused_before_a_word_with_a_package_in_it": (
        "if not torch.cuda.is_available():\n    raise ImportError('CUDA is needed')\n# already occupying memory\nx.occupy(2)"
    ),
    "refused_before_a_move_beside": "if not torch.cuda.is_available():\n    print('no')\nelse:\n    x = x.cuda()",
    "chosen_for_the_cpu": "if torch.cuda.is_available():\n    x = x.cuda()\nelse:\n    x = cpu_kernels(x)",
    "memory": "if torch.cuda.is_available():\n    torch.cuda.empty_cache()\n    x = x + 1",
}


def _migrated(body: str) -> str:
    return migrate((HEAD + textwrap.indent(body, "    ") + "\n").encode()).data.decode()


@each(
    "launched",
    [
        "wrap_triton(gate_kernel)[grid](x, y)",
        "gate_kernel[grid](x, y)",
        "_gate_kernel_fwd[(n, 1)](x, y, n)",
    ],
)
def test_tensors_that_a_launch_of_a_kernel_refuses(launched: str) -> None:
    source = f"""
import torch
def check(x, y):
    if not x.is_cuda or not y.is_cuda:
        raise ValueError("needs CUDA")
def gate(x, y, grid, n):
    check(x, y)
    {launched}
model.cuda()
"""
    assert "if not x.is_cuda or not y.is_cuda:" in migrate(source.encode()).data.decode()
    other = source.replace(launched, "return kernels[n](x, y)")
    assert "xla.is_accelerator(x)" in migrate(other.encode()).data.decode()


@pytest.mark.parametrize("body", STAYS.values(), ids=STAYS)
def test_what_asks_for_a_feature_of_cuda_stays(body: str) -> None:
    assert ASKED in _migrated(body)


@pytest.mark.parametrize("body", BECOMES_TRUE.values(), ids=BECOMES_TRUE)
def test_what_asks_for_an_accelerator_is_rewritten(body: str) -> None:
    assert ASKED not in _migrated(body)


@each("name", ["require_cuda", "check_cuda_device", "_ensure_cuda", "assert_cuda", "needs_cuda"])
def test_a_function_that_refuses_to_go_on_without_cuda_is_no_kernel(name: str) -> None:
    source = f"""
import torch
def {name}(device):
    if device.type != "cuda":
        raise ValueError("--device must be a CUDA device")
    if device.index is not None and device.index >= torch.cuda.device_count():
        raise ValueError("no such device")
{name}(torch.device("cuda"))
"""
    after = migrate(source.encode()).data.decode()
    assert "if not xla.is_accelerator(device):" in after
    assert "xla.device_count()" in after


@pytest.mark.parametrize(
    ("name", "stays"),
    [("_use_mxfp8", True), ("can_use_cuda_graphs", True), ("is_usable", False)],
)
def test_a_question_in_a_function_that_is_called_like_a_feature(name: str, stays: bool) -> None:
    source = (
        "import torch\n"
        f"def {name}(x):\n"
        '    if x.device.type != "cuda":\n'
        "        return False\n"
        "    return x.dtype == torch.bfloat16\n"
    )
    assert (migrated(source) == source) is stays


KERNELS = """import torch
import triton

@triton.jit
def _add(x, y):
    pass

def add(x, y):
    _add[(1,)](x, y)
"""


def test_kernels_of_another_module_that_are_imported_where_they_are_used() -> None:
    source = (
        "import torch\n"
        "def accumulate(total, g):\n"
        "    if g.is_cuda and g.is_contiguous():\n"
        "        from .kernels import add\n"
        "        add(total, g)\n"
        "    else:\n"
        "        total.add_(g)\n"
    )
    files = {
        "lib/__init__.py": b"",
        "lib/kernels.py": KERNELS.encode(),
        "lib/sum.py": source.encode(),
    }
    project = Project(Modules(files), "lib/sum.py")
    assert migrate(source.encode(), path="lib/sum.py", project=project).data.decode() == source
