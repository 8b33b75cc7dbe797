"""`torch.cuda` itself: devices, streams, events, graphs, errors, typed tensors."""

from __future__ import annotations

from .row import (
    ABSENT,
    ARGUMENTS,
    CONTEXT,
    HARMLESS,
    NONE,
    OF_A_MODULE,
    RAISES,
    REMOVED,
    RENAMED,
    REWRITTEN,
    RUNTIME,
    SAME,
    SILENT,
    STAYS,
    Row,
    rows,
)

_NO_STREAMS = "XLA has no streams: run the code without a stream"
_ONE = "an XLA process drives one device"
_CAPTURE = "XLA compiles and runs whole graphs by itself: call the function directly, once per step"
_ARCHITECTURE = "an XLA device has no CUDA architecture: do not branch on it"

DEVICES: tuple[Row, ...] = (
    *rows(
        "torch.cuda",
        REWRITTEN,
        RENAMED,
        SILENT,
        {"is_available": "xla.is_available()", "device_count": "xla.device_count()"},
        rule="XLA102",
    ),
    *rows(
        "torch.cuda",
        REWRITTEN,
        CONTEXT,
        RAISES,
        {
            "current_device": ("xla.xla_device()", "it returns a device, not an index"),
            "get_device_name": "xla.device_name()",
        },
        rule="XLA102",
    ),
    *rows(
        "torch.cuda",
        REWRITTEN,
        RENAMED,
        SILENT,
        {
            "is_bf16_supported": (
                "xla.is_bf16_supported()",
                "the original returns False on XLA, so scripts choose float16",
            ),
        },
        rule="XLA210",
    ),
    *rows(
        "torch.cuda",
        REWRITTEN,
        RENAMED,
        SILENT,
        {"is_initialized": ("xla.is_initialized()", "the original returns False on an XLA host")},
        rule="XLA102",
    ),
    *rows(
        "torch.cuda",
        REMOVED,
        CONTEXT,
        RAISES,
        {"init": "the runtime initialises the device at its first use"},
        rule="XLA102",
    ),
    *rows(
        "torch.cuda",
        REWRITTEN,
        RENAMED,
        RAISES,
        {
            "set_device": ("xla.set_device(...)", _ONE),
            "device": ("xla.device_index(...)", _ONE),
        },
        rule="XLA103",
    ),
    *rows(
        "torch.cuda",
        REMOVED,
        CONTEXT,
        HARMLESS,
        {"device_of": f"{_ONE}: remove it, and keep the code inside"},
        rule="XLA103",
    ),
    *rows(
        "torch.cuda",
        REWRITTEN,
        CONTEXT,
        RAISES,
        {
            "get_device_capability": (
                "xla.is_bf16_supported()",
                "XLA devices have no compute capability",
            ),
            "get_device_properties": (
                "xla.device_properties()",
                "it knows `name` and `total_memory`; other properties can only be displayed",
            ),
        },
        rule="XLA113",
    ),
    *rows(
        "torch.cuda",
        REMOVED,
        CONTEXT,
        RAISES,
        {"set_sync_debug_mode": "count host reads with `xla.metrics()`"},
        rule="XLA126",
    ),
    *rows(
        "torch.cuda",
        ABSENT,
        NONE,
        RAISES,
        {
            "can_device_access_peer": "XLA devices communicate through collectives only",
            "cudart": "an XLA host has no CUDA runtime",
            "current_blas_handle": "an XLA host has no cuBLAS",
            "clock_rate": "use the vendor's monitor (neuron-monitor, tpu-info)",
            "power_draw": "use the vendor's monitor (neuron-monitor, tpu-info)",
            "temperature": "use the vendor's monitor (neuron-monitor, tpu-info)",
            "utilization": "use the vendor's monitor (neuron-monitor, tpu-info)",
            "get_sync_debug_mode": "count host reads with `xla.metrics()`",
        },
    ),
    *rows(
        "torch.cuda",
        ABSENT,
        NONE,
        SILENT,
        {
            "get_arch_list": _ARCHITECTURE,
            "get_gencode_flags": _ARCHITECTURE,
            "is_tf32_supported": "XLA has no TF32: set the precision with `xla.set_float32_matmul_precision(...)`",
            "list_gpu_processes": "use the vendor's monitor (neuron-monitor, tpu-info)",
        },
    ),
    *rows(
        "torch.cuda",
        ABSENT,
        NONE,
        SILENT,
        {
            "has_half": "it describes the build of PyTorch, not the device: choose bfloat16 on XLA devices",
            "has_magma": "it describes the build of PyTorch, not the device",
            "default_generators": "it is empty without CUDA: seed with `xla.manual_seed(seed)`",
        },
    ),
)

SYNCHRONIZATION: tuple[Row, ...] = (
    *rows(
        "torch.cuda",
        REWRITTEN,
        RENAMED,
        RAISES,
        {"synchronize": "xla.synchronize()"},
        rule="XLA121",
    ),
    *rows(
        "torch.cuda",
        REWRITTEN,
        ARGUMENTS,
        RAISES,
        {"Event": ("xla.Event(enable_timing=True)", "the original fails at `record()`")},
        rule="XLA122",
        evidence="fact 2",
    ),
    *rows(
        "torch.cuda",
        REMOVED,
        CONTEXT,
        RAISES,
        {
            "Stream": _NO_STREAMS,
            "current_stream": _NO_STREAMS,
            "default_stream": _NO_STREAMS,
        },
        rule="XLA123",
    ),
    *rows(
        "torch.cuda",
        REMOVED,
        CONTEXT,
        HARMLESS,
        {
            "stream": f"{_NO_STREAMS}",
            "set_stream": f"{_NO_STREAMS}",
            "StreamContext": _NO_STREAMS,
        },
        rule="XLA123",
    ),
    *rows(
        "torch.cuda",
        ABSENT,
        NONE,
        RAISES,
        {
            "ExternalStream": "XLA has no streams that another library could share",
            "get_stream_from_external": "XLA has no streams that another library could share",
        },
    ),
)

GRAPHS: tuple[Row, ...] = (
    *rows(
        "torch.cuda",
        ABSENT,
        NONE,
        RAISES,
        {
            "CUDAGraph": _CAPTURE,
            "graph": _CAPTURE,
            "is_current_stream_capturing": "XLA captures no CUDA graph: keep the branch for False",
        },
        rule="XLA901",
    ),
    *rows(
        "torch.cuda",
        REMOVED,
        CONTEXT,
        RAISES,
        {"make_graphed_callables": _CAPTURE},
        rule="XLA901",
    ),
    *rows(
        "torch.cuda",
        ABSENT,
        NONE,
        HARMLESS,
        {"graph_pool_handle": _CAPTURE},
        rule="XLA901",
    ),
)

ERRORS: tuple[Row, ...] = (
    *rows(
        "torch.cuda",
        RUNTIME,
        RENAMED,
        SILENT,
        {
            "OutOfMemoryError": (
                "RuntimeError",
                'XLA raises RuntimeError ("RESOURCE_EXHAUSTED") instead',
            )
        },
        rule="XLA131",
        evidence="fact 2",
    ),
    *rows(
        "torch.cuda",
        RUNTIME,
        RENAMED,
        SILENT,
        {
            "AcceleratorError": ("RuntimeError", "XLA raises RuntimeError instead"),
            "CudaError": ("RuntimeError", "XLA raises RuntimeError instead"),
            "DeferredCudaCallError": ("RuntimeError", "the original is never raised without CUDA"),
        },
        evidence="fact 2",
    ),
    *rows(
        "torch.cuda",
        ABSENT,
        NONE,
        HARMLESS,
        {
            "cudaStatus": "it contains error numbers of the CUDA runtime",
            "check_error": "it contains error numbers of the CUDA runtime",
        },
    ),
)

_DTYPES = {
    "BFloat16": "bfloat16",
    "Bool": "bool",
    "Byte": "uint8",
    "Char": "int8",
    "Double": "float64",
    "Float": "float32",
    "Half": "float16",
    "Int": "int32",
    "Long": "int64",
    "Short": "int16",
}

TYPED: tuple[Row, ...] = (
    *rows(
        "torch.cuda",
        REWRITTEN,
        ARGUMENTS,
        RAISES,
        {
            f"{kind}Tensor": (
                f"torch.tensor(..., dtype=torch.{dtype}, device=xla.xla_device())",
                "if the arguments are sizes, use `torch.empty`",
            )
            for kind, dtype in _DTYPES.items()
        },
        rule="XLA108",
    ),
    *rows(
        "torch.cuda",
        ABSENT,
        NONE,
        RAISES,
        {
            f"{kind}Storage": "XLA tensors have no storage: keep the tensor"
            for kind in (*_DTYPES, "ComplexDouble", "ComplexFloat")
        },
    ),
    *rows(
        "torch.cuda.sparse",
        ABSENT,
        NONE,
        RAISES,
        {
            f"{kind}Tensor": "XLA has no sparse tensors: call `to_dense()` before you move the tensor"
            for kind in _DTYPES
            if kind != "Bool"
        },
    ),
)

MODULES: tuple[Row, ...] = (
    *rows(
        "torch",
        ABSENT,
        CONTEXT,
        SILENT,
        dict.fromkeys(
            (
                "accelerator",
                "backends.cuda",
                "backends.cudnn",
                "backends.cusparselt",
                "cuda.amp",
                "cuda.comm",
                "cuda.gds",
                "cuda.graphs",
                "cuda.jiterator",
                "cuda.memory",
                "cuda.nccl",
                "cuda.nvtx",
                "cuda.profiler",
                "cuda.random",
                "cuda.sparse",
                "cuda.streams",
                "cuda.tunable",
            ),
            OF_A_MODULE,
        ),
        evidence="docs",
    ),
    *rows(
        "torch.cuda",
        ABSENT,
        CONTEXT,
        SILENT,
        {"green_contexts": OF_A_MODULE},
        torch="2.10+",
        evidence="docs",
    ),
    *rows("torch", ABSENT, CONTEXT, SILENT, {"cuda": OF_A_MODULE}, rule="XLA115", evidence="docs"),
    *rows("torch.utils", STAYS, SAME, HARMLESS, {"cpp_extension": OF_A_MODULE}, evidence="docs"),
)

ROWS: tuple[Row, ...] = (*MODULES, *DEVICES, *SYNCHRONIZATION, *GRAPHS, *ERRORS, *TYPED)
