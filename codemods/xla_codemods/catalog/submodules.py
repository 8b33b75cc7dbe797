"""The modules below `torch.cuda`: amp, comm, gds, graphs, nccl, nvtx, profiler, streams, tunable ..."""

from __future__ import annotations

from .cuda import GRAPHS, SYNCHRONIZATION
from .row import (
    ABSENT,
    ARGUMENTS,
    CONTEXT,
    HARMLESS,
    NONE,
    RAISES,
    REMOVED,
    RENAMED,
    REWRITTEN,
    SILENT,
    Row,
    also,
    rows,
)

_COLLECTIVE = "an XLA process has one device: use the collectives"
_GDS = "XLA has no GPUDirect storage: read into host memory, then move the tensor"
_TUNABLE = "it tunes cuBLAS and rocBLAS, and XLA chooses its own kernels"
_PLAIN = "the original only calls the decorated function"

_AUTOCAST = "autocast for CUDA leaves XLA tensors in float32"
_SCALER = "bfloat16 needs no loss scaling, and the scaler reads from the device in every step"

# `torch.cuda.amp`.
AMP: tuple[Row, ...] = (
    *rows(
        "torch.cuda.amp",
        REWRITTEN,
        ARGUMENTS,
        SILENT,
        {"autocast": ("xla.autocast()", _AUTOCAST)},
        rule="XLA201",
        evidence="fact 1.71",
    ),
    *rows(
        "torch.cuda.amp",
        REMOVED,
        CONTEXT,
        SILENT,
        {"GradScaler": _SCALER},
        rule="XLA204",
        evidence="fact 1.74",
    ),
    *rows(
        "torch.cuda.amp",
        REWRITTEN,
        ARGUMENTS,
        HARMLESS,
        {
            "custom_fwd": ("torch.amp.custom_fwd(device_type=xla.device_type())", _PLAIN),
            "custom_bwd": ("torch.amp.custom_bwd(device_type=xla.device_type())", _PLAIN),
        },
        rule="XLA203",
        evidence="fact 2",
    ),
    *rows(
        "torch.cuda.amp",
        ABSENT,
        NONE,
        HARMLESS,
        {"amp_definitely_not_available": "it is internal to PyTorch"},
    ),
)

_BRANCH = "an XLA process drives one device: do not branch on it"

# `torch.cuda.comm` and `torch.cuda.nccl`.
COMMUNICATION: tuple[Row, ...] = (
    *rows(
        "torch.cuda.comm",
        ABSENT,
        NONE,
        RAISES,
        dict.fromkeys(
            (
                "broadcast",
                "broadcast_coalesced",
                "gather",
                "reduce_add",
                "reduce_add_coalesced",
                "scatter",
            ),
            _COLLECTIVE,
        ),
        rule="XLA911",
    ),
    *rows(
        "torch.cuda.nccl",
        ABSENT,
        NONE,
        RAISES,
        dict.fromkeys(
            ("all_gather", "all_reduce", "broadcast", "reduce", "reduce_scatter"), _COLLECTIVE
        ),
        rule="XLA911",
    ),
    *rows(
        "torch.cuda.nccl",
        ABSENT,
        NONE,
        SILENT,
        {
            "version": "it reports NCCL even without a device: do not branch on it",
            "is_available": _BRANCH,
        },
        rule="XLA911",
    ),
    *rows(
        "torch.cuda.nccl",
        ABSENT,
        NONE,
        RAISES,
        {"init_rank": _COLLECTIVE},
        rule="XLA911",
    ),
    *rows("torch.cuda.nccl", ABSENT, NONE, HARMLESS, {"unique_id": _COLLECTIVE}, rule="XLA911"),
)


# `torch.cuda.nvtx` and `torch.cuda.profiler`.
PROFILING: tuple[Row, ...] = (
    *rows(
        "torch.cuda.nvtx",
        REWRITTEN,
        RENAMED,
        HARMLESS,
        {
            "range": "torch.profiler.record_function(name)",
            "range_push": "xla.range_push(name)",
            "range_pop": "xla.range_pop()",
        },
        rule="XLA127",
    ),
    *rows(
        "torch.cuda.nvtx",
        REMOVED,
        CONTEXT,
        HARMLESS,
        dict.fromkeys(
            ("mark", "range_end", "range_start"),
            "it marks ranges for NVIDIA's profiler: use `torch_xla.debug.profiler.Trace(name)`",
        ),
        rule="XLA127",
    ),
    *rows(
        "torch.cuda.profiler",
        REMOVED,
        CONTEXT,
        RAISES,
        dict.fromkeys(
            ("init", "profile", "start", "stop"),
            "it controls NVIDIA's profiler: use `torch_xla.debug.profiler`",
        ),
        rule="XLA127",
    ),
)

_TUNABLE_RAISING = (
    "get_results",
    "get_rotating_buffer_size",
    "tune_gemm_in_file",
    "mgpu_tune_gemm_in_file",
)
_TUNABLE_QUIET = (
    "get_filename",
    "get_max_tuning_duration",
    "get_max_tuning_iterations",
    "get_validators",
    "is_enabled",
    "read_file",
    "record_untuned_is_enabled",
    "tuning_is_enabled",
    "write_file",
)
# Those of `torch.cuda.tunable` that only set something.
TUNABLE_SETTING = (
    "enable",
    "record_untuned_enable",
    "set_filename",
    "set_max_tuning_duration",
    "set_max_tuning_iterations",
    "set_rotating_buffer_size",
    "tuning_enable",
    "write_file_on_exit",
)

# Kernels: `torch.cuda.tunable`, `.jiterator`, `.gds` and `.green_contexts`.
KERNELS: tuple[Row, ...] = (
    *rows(
        "torch.cuda.tunable",
        ABSENT,
        NONE,
        RAISES,
        dict.fromkeys(_TUNABLE_RAISING, _TUNABLE),
        rule="XLA132",
        torch="2.3+",
    ),
    *rows(
        "torch.cuda.tunable",
        ABSENT,
        NONE,
        HARMLESS,
        dict.fromkeys(_TUNABLE_QUIET, _TUNABLE),
        rule="XLA132",
        torch="2.3+",
    ),
    *rows(
        "torch.cuda.tunable",
        REMOVED,
        NONE,
        HARMLESS,
        dict.fromkeys(TUNABLE_SETTING, _TUNABLE),
        rule="XLA132",
        torch="2.3+",
    ),
    *rows(
        "torch.cuda.gds",
        ABSENT,
        NONE,
        RAISES,
        dict.fromkeys(("GdsFile", "gds_deregister_buffer", "gds_register_buffer"), _GDS),
        torch="2.6+",
    ),
    *rows(
        "torch.cuda.jiterator",
        ABSENT,
        NONE,
        RAISES,
        dict.fromkeys(
            ("_create_jit_fn", "_create_multi_output_jit_fn"),
            "it compiles a CUDA kernel: write the expression with PyTorch's operations, which XLA "
            "fuses",
        ),
        rule="XLA902",
    ),
    *rows(
        "torch.cuda",
        ABSENT,
        NONE,
        RAISES,
        {
            "_compile_kernel": "it compiles a CUDA kernel: write it with PyTorch's operations, which XLA fuses"
        },
        rule="XLA902",
        torch="2.9+",
        evidence="docs",
    ),
    *rows(
        "torch.cuda.green_contexts",
        ABSENT,
        NONE,
        RAISES,
        {"GreenContext": "it divides a CUDA device"},
        torch="2.10+",
        evidence="docs",
    ),
)

# All of them, by every name that they are reached by.
ROWS: tuple[Row, ...] = (
    *AMP,
    *also("torch.cuda.amp.autocast_mode", ("autocast", "custom_bwd", "custom_fwd"), AMP),
    *also("torch.cuda.amp.common", ("amp_definitely_not_available",), AMP),
    *also("torch.cuda.amp.grad_scaler", ("GradScaler",), AMP),
    *also("torch.cuda.graphs", [row.name.rpartition(".")[2] for row in GRAPHS], GRAPHS),
    *also("torch.cuda.streams", ("Event", "ExternalStream", "Stream"), SYNCHRONIZATION),
    *COMMUNICATION,
    *PROFILING,
    *KERNELS,
)
