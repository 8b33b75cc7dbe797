"""`torch.cuda` itself: devices, streams, events, graphs, errors, typed tensors."""

from __future__ import annotations

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
    RUNTIME,
    SAME,
    SILENT,
    STAYS,
    Row,
    rows,
)

_NO_STREAMS = "XLA orders the work itself: run the body without a stream"
_ONE = "a process of XLA drives one device"
_CAPTURE = "XLA compiles and replays whole graphs anyway: call the function directly, once per step"
_ARCHITECTURE = "XLA has no CUDA architecture: do not branch on it"

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
            "current_device": ("xla.xla_device()", "a device, not an index"),
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
                "left as it is it says no, and scripts fall back to float16",
            ),
        },
        rule="XLA210",
    ),
    *rows(
        "torch.cuda",
        REWRITTEN,
        RENAMED,
        SILENT,
        {"is_initialized": ("xla.is_initialized()", "it is False on an XLA host")},
        rule="XLA102",
    ),
    *rows(
        "torch.cuda",
        REMOVED,
        CONTEXT,
        RAISES,
        {"init": "the device is initialised when it is first used"},
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
        {"device_of": f"{_ONE}: the body runs without the context"},
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
                "if it chooses bfloat16; XLA has no other capabilities",
            ),
            "get_device_properties": (
                'xla.memory_info()["bytes_limit"]',
                "its total_memory; its name is `xla.device_name()`, and for the rest there is nothing to ask",
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
            "can_device_access_peer": "devices reach each other through collectives only",
            "cudart": "there is no CUDA runtime to call",
            "current_blas_handle": "there is no cuBLAS handle",
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
            "is_tf32_supported": "the precision of matmuls is set by `xla.set_float32_matmul_precision(...)`",
            "list_gpu_processes": "use the vendor's monitor (neuron-monitor, tpu-info)",
        },
    ),
    *rows(
        "torch.cuda",
        ABSENT,
        NONE,
        SILENT,
        {
            "has_half": "true of the build, not of the device: XLA devices compute in bfloat16",
            "has_magma": "true of the build, not of the device",
            "default_generators": "empty: seed with `xla.manual_seed(seed)`",
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
        {"Event": ("xla.Event(enable_timing=True)", "constructs, and fails at `record()`")},
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
            "stream": f"{_NO_STREAMS} (harmless only with the None that a fallback gives it)",
            "set_stream": f"{_NO_STREAMS} (harmless only with the None that a fallback gives it)",
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
            "ExternalStream": "a stream of another CUDA library: XLA has none to share",
            "get_stream_from_external": "a stream of another CUDA library: XLA has none to share",
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
            "is_current_stream_capturing": "nothing is captured: take the branch of False",
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
                'the class exists, but XLA raises RuntimeError ("RESOURCE_EXHAUSTED")',
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
            "AcceleratorError": ("RuntimeError", "the class exists, but XLA raises RuntimeError"),
            "CudaError": ("RuntimeError", "the class exists, but XLA raises RuntimeError"),
            "DeferredCudaCallError": ("RuntimeError", "never raised without CUDA"),
        },
        evidence="fact 2",
    ),
    *rows(
        "torch.cuda",
        ABSENT,
        NONE,
        HARMLESS,
        {
            "cudaStatus": "error numbers of the CUDA runtime, of which there is none",
            "check_error": "error numbers of the CUDA runtime, of which there is none",
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
                "of sizes, and not values, `torch.empty`",
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
            f"{kind}Storage": "XLA tensors have no storage to hold: keep the tensor"
            for kind in (*_DTYPES, "ComplexDouble", "ComplexFloat")
        },
    ),
    *rows(
        "torch.cuda.sparse",
        ABSENT,
        NONE,
        RAISES,
        {
            f"{kind}Tensor": "there are no sparse XLA tensors: `to_dense()` before moving"
            for kind in _DTYPES
            if kind != "Bool"
        },
    ),
)

OF_A_MODULE = "replace each name that the script uses of it with the runtime's"

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
