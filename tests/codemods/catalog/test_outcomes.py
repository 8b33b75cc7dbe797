"""What the catalog says happens to a name that is left is what happens here, where there is no CUDA device.

Rows with the evidence "measured" are tried, each by a statement, in one process of their own: some of them change
settings of torch's.
"""

from __future__ import annotations

import json
import subprocess

import pytest
import torch

from xla_codemods import catalog
from xla_codemods.catalog import row as kinds

from ... import warm
from ...each import each

pytestmark = pytest.mark.skipif(
    torch.cuda.is_available() or torch.version.cuda is None,
    reason="what a build for CUDA does without a CUDA device",
)

GRAPH = "torch.cuda.CUDAGraph()"
# Arguments by the name's last part; by its whole name where two names share the last part.
ARGUMENTS = {
    "data_parallel": "torch.nn.Linear(1, 1), torch.ones(1)",
    "set_device": "0",
    "set_device_index": "0",
    "set_device_idx": "0",
    "set_sync_debug_mode": "0",
    "can_device_access_peer": "0, 0",
    "check_error": "0",
    "ExternalStream": "0, device=0",
    "get_stream_from_external": "0, 0",
    "make_graphed_callables": "torch.nn.Linear(1, 1), (torch.ones(1),)",
    "set_per_process_memory_fraction": "0.5",
    "caching_allocator_alloc": "8",
    "caching_allocator_delete": "0",
    "change_current_allocator": "torch.cuda.CUDAPluggableAllocator('x.so', 'a', 'b')",
    "CUDAPluggableAllocator": "'x.so', 'a', 'b'",
    "manual_seed": "0",
    "manual_seed_all": "0",
    "set_rng_state": "torch.get_rng_state()",
    "set_rng_state_all": "[]",
    "gather": "[x, x]",
    "scatter": "x, [0]",
    "reduce_add": "[x, x]",
    "reduce_add_coalesced": "[[x], [x]]",
    "broadcast_coalesced": "[x], [0]",
    "torch.cuda.comm.broadcast": "x, [0]",
    "torch.cuda.nccl.broadcast": "[x]",
    "torch.cuda.nccl.reduce": "[x, x]",
    "torch.cuda.nccl.all_reduce": "[x, x]",
    "torch.cuda.nccl.all_gather": "[x], [x]",
    "torch.cuda.nccl.reduce_scatter": "[x], [x]",
    "torch.cuda.nccl.is_available": "[x]",
    "mark": "'a'",
    "range_push": "'a'",
    "range_start": "'a'",
    "range_end": "1",
    "torch.cuda.profiler.init": "'x.out'",
    "tune_gemm_in_file": "'x.csv'",
    "mgpu_tune_gemm_in_file": "'x*.csv', 1",
    "set_filename": "'x.csv'",
    "set_max_tuning_duration": "1",
    "set_max_tuning_iterations": "1",
    "to_sparse_semi_structured": "torch.ones(64, 64)",
    "set_rotating_buffer_size": "1",
    "write_file_on_exit": "False",
    "gds_register_buffer": "x.untyped_storage()",
    "gds_deregister_buffer": "x.untyped_storage()",
    "GdsFile": "'/tmp/x', 0",
    "is_acceptable": "x",
    "set_autocast_gpu_dtype": "torch.float16",
    "torch.accelerator.set_stream": "torch.Stream('cuda')",
    "torch.cuda.set_stream": "None",
    "torch.Stream": "'cuda'",
    "get_device_module": "'xla'",
    "_record_memory_history": "enabled='all'",
    "_dump_snapshot": "'/tmp/x'",
}
# Statements where a name is not called, or shows what it does only later.
STATEMENTS = {
    "torch.cuda.device": "with torch.cuda.device(0): pass",
    "torch.cuda.device_of": "with torch.cuda.device_of(x): pass",
    "torch.accelerator.device_index": "with torch.accelerator.device_index(0): pass",
    "torch.cuda.stream": "with torch.cuda.stream(None): pass",
    "torch.cuda.StreamContext": "with torch.cuda.StreamContext(None): pass",
    "torch.cuda.nvtx.range": "with torch.cuda.nvtx.range('a'): pass",
    "torch.cuda.profiler.profile": "with torch.cuda.profiler.profile(): pass",
    "torch.autograd.profiler.emit_nvtx": "with torch.autograd.profiler.emit_nvtx(): torch.ones(2) + 1",
    "torch.backends.cudnn.flags": "with torch.backends.cudnn.flags(): pass",
    "torch.cuda.graph": f"torch.cuda.graph({GRAPH})",
    "torch.cuda.graphs.graph": f"torch.cuda.graph({GRAPH})",
    "torch.cuda.use_mem_pool": "torch.cuda.use_mem_pool(None)",
    "torch.cuda.memory.use_mem_pool": "torch.cuda.use_mem_pool(None)",
    "torch.cuda.jiterator._create_jit_fn": "torch.cuda.jiterator._create_jit_fn("
    "'template <typename T> T f(T x) { return x; }')(x)",
    "torch.cuda.jiterator._create_multi_output_jit_fn": "torch.cuda.jiterator._create_multi_output_jit_fn("
    "'template <typename T> void f(T x, T& y) { y = x; }', 1)(x)",
    "torch.Tensor.cuda": "x.cuda()",
    "torch.nn.Module.cuda": "torch.nn.Linear(1, 1).cuda()",
    "torch.UntypedStorage.cuda": "x.untyped_storage().cuda()",
    "torch.UntypedStorage.pin_memory": "x.untyped_storage().pin_memory()",
    "torch.Tensor.is_cuda": "x.is_cuda",
    "torch.Tensor.pin_memory": "x.pin_memory()",
    "torch.Tensor.is_pinned": "x.is_pinned()",
    "torch.Tensor.record_stream": "x.record_stream(torch.cuda.current_stream())",
    "torch.Tensor.get_device": "x.get_device()",
    "torch.nn.attention.sdpa_kernel": "with torch.nn.attention.sdpa_kernel("
    "torch.nn.attention.SDPBackend.MATH): pass",
    "torch.nn.attention.SDPBackend": "torch.nn.attention.SDPBackend.MATH",
    'torch.distributed.is_backend_available("nccl")': "torch.distributed.is_backend_available('nccl')",
    "torch.autograd.profiler.profile(use_cuda)": "with torch.autograd.profiler.profile(use_cuda=True): x + 1",
    "torch.profiler.profile(use_cuda)": "with torch.profiler.profile(use_cuda=True): x + 1",
}
CHILD = """
import importlib, json, pkgutil, sys, warnings
warnings.simplefilter("ignore")
import torch
for name in ("gds", "jiterator", "nccl", "comm", "tunable", "amp.common", "streams", "random"):
    importlib.import_module(f"torch.cuda.{name}")
import torch.nn.attention
outcomes = {}
for name, statement in json.load(sys.stdin).items():
    try:
        exec(statement, {"torch": torch, "x": torch.ones(2)})
        outcomes[name] = ""
    except Exception as error:
        outcomes[name] = f"{type(error).__name__}: {error}"
print("\\n" + json.dumps(outcomes))
"""


IMAGE = "torch.ones(1, 1, 4, 4)"
KERNEL = f"{IMAGE}, torch.ones(1, 1, 3, 3)"
STATEMENTS |= {
    f"torch.{name}": f"torch.{name}({given})"
    for name, given in {
        "cudnn_affine_grid_generator": "torch.ones(1, 2, 3), 1, 1, 2, 2",
        "cudnn_batch_norm": f"{IMAGE}, torch.ones(1), None, None, None, True, 0.1, 1e-5",
        "cudnn_convolution": f"{KERNEL}, [0, 0], [1, 1], [1, 1], 1, False, False, False",
        "cudnn_convolution_add_relu": f"{KERNEL}, {IMAGE}, 1, None, [1, 1], [0, 0], [1, 1], 1",
        "cudnn_convolution_relu": f"{KERNEL}, None, [1, 1], [0, 0], [1, 1], 1",
        "cudnn_convolution_transpose": f"{KERNEL}, [0, 0], [0, 0], [1, 1], [1, 1], 1, False, False, False",
        "cudnn_grid_sampler": f"{IMAGE}, torch.zeros(1, 2, 2, 2)",
        "cudnn_is_acceptable": "x",
        "cuda.nccl.init_rank": "1, torch.cuda.nccl.unique_id(), 0",
    }.items()
}
# What is accepted, and fails where the next tensor is made.
STATEMENTS |= {
    f"torch.{name}": f"torch.{name}({given})\ntry: torch.ones(1)\nfinally: torch.{name}({usual})"
    for name, given, usual in (
        ("set_default_tensor_type", "'torch.cuda.FloatTensor'", "'torch.FloatTensor'"),
        ("set_default_device", "'cuda'", "None"),
    )
}
STATEMENTS |= {
    f"torch.{name}(pin_memory)": f"torch.{name}({given}, pin_memory=True)"
    for name, given in {
        **dict.fromkeys(("arange", "empty", "ones", "rand", "randn", "randperm", "zeros"), "2"),
        "full": "(2,), 1.0",
        "randint": "3, (2,)",
        "tensor": "[2.0]",
    }.items()
}


def statement(name: str) -> str:
    """A use of `name` that a script may make."""
    if name in STATEMENTS:
        return STATEMENTS[name]
    given = ARGUMENTS.get(name, ARGUMENTS.get(name.rpartition(".")[2], ""))
    return f"y = {name}\nif callable(y): y({given})"


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("outcomes")
    asked = {row.name: statement(row.name) for row in MEASURED}
    done = subprocess.run(
        [warm.for_side("reference"), "-c", CHILD],
        input=json.dumps(asked),
        capture_output=True,
        text=True,
        cwd=folder,
        check=True,
    )
    # CUDA's own libraries print as well.
    result: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    return result


def holds_here(versions: str) -> bool:
    ours = tuple(int(part) for part in torch.__version__.split(".")[:2])
    number = tuple(int(part) for part in versions.strip("<+").split(".") if part.isdigit())
    return {"+": ours >= number, "<": ours < number}.get(
        versions[-1] if versions.endswith("+") else versions[0], True
    )


MEASURED = [
    row
    for row in catalog.table().values()
    if row.evidence == "measured" and row.name.startswith("torch.") and holds_here(row.torch)
]


@each("row", MEASURED, ids=lambda row: row.name)
def test_what_happens_is_what_the_row_says(row: catalog.Row, outcomes: dict[str, str]) -> None:
    failure = outcomes[row.name]
    mistaken = failure.startswith(("AttributeError", "NameError", "SyntaxError", "TypeError"))
    assert not mistaken, f"not tried: {failure}"
    assert bool(failure) == (row.left == kinds.RAISES), f"{row.left}: {failure or 'no failure'}"
