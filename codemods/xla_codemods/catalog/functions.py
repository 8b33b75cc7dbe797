"""CUDA-only functions and classes of torch itself; its profilers and its extension builder."""

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

_BUILD = "builds CUDA code: write it with torch's operations, or as a Pallas (TPU) or NKI (Trainium) kernel"
_CUDNN = "calls cuDNN directly: use the function of torch.nn.functional"

FUNCTIONS: tuple[Row, ...] = (
    *rows(
        "torch",
        REWRITTEN,
        ARGUMENTS,
        RAISES,
        {
            "set_default_tensor_type": ("", "the next tensor that is made fails"),
            "set_default_device": (
                "torch.set_default_device(xla.xla_device())",
                "the next tensor that is made fails",
            ),
        },
        rule="XLA109",
    ),
    *rows(
        "torch",
        ABSENT,
        NONE,
        RAISES,
        {
            "cudnn_affine_grid_generator": _CUDNN,
            "cudnn_batch_norm": _CUDNN,
            "cudnn_convolution": _CUDNN,
            "cudnn_convolution_add_relu": _CUDNN,
            "cudnn_convolution_relu": _CUDNN,
            "cudnn_convolution_transpose": _CUDNN,
            "cudnn_grid_sampler": _CUDNN,
        },
    ),
    *rows("torch", ABSENT, NONE, SILENT, {"cudnn_is_acceptable": _CUDNN}),
    *rows(
        "torch",
        REWRITTEN,
        RENAMED,
        RAISES,
        {"get_device_module": "xla.device_module(...)"},
        rule="XLA115",
        torch="2.6+",
        evidence="fact 1.3",
    ),
    *rows(
        "torch",
        REMOVED,
        CONTEXT,
        RAISES,
        {"Stream": "a stream of CUDA's: XLA orders the work itself"},
        rule="XLA123",
        torch="2.6+",
        evidence="fact 1.3",
    ),
    *rows(
        "torch",
        REWRITTEN,
        ARGUMENTS,
        SILENT,
        {"Event": ("xla.Event(enable_timing=True)", "an event of CUDA's")},
        rule="XLA122",
        torch="2.6+",
    ),
    *rows(
        "torch",
        RUNTIME,
        RENAMED,
        SILENT,
        {
            "OutOfMemoryError": (
                "RuntimeError",
                'XLA raises RuntimeError ("RESOURCE_EXHAUSTED") and not this',
            )
        },
        rule="XLA131",
        torch="2.5+",
        evidence="fact 2",
    ),
    *rows(
        "torch",
        REWRITTEN,
        RENAMED,
        SILENT,
        {
            "has_cuda": ("xla.is_available()", "true of the build, not of the machine"),
        },
        rule="XLA102",
        evidence="docs",
    ),
    *rows(
        "torch",
        REWRITTEN,
        RENAMED,
        SILENT,
        {
            "set_float32_matmul_precision": (
                "xla.set_float32_matmul_precision(precision)",
                "does not reach XLA, where TPUs compute in bfloat16 by default",
            )
        },
        rule="XLA129",
        evidence="fact 1.108",
    ),
    *rows(
        "torch.nn",
        REWRITTEN,
        RENAMED,
        RAISES,
        {
            "SyncBatchNorm": ("xla.SyncBatchNorm(...)", "torch's works on CUDA's tensors only"),
            "SyncBatchNorm.convert_sync_batchnorm": "xla.convert_sync_batchnorm(model)",
        },
        rule="XLA609",
        evidence="docs",
    ),
    *rows(
        "torch.version",
        STAYS,
        CONTEXT,
        SILENT,
        {"cuda": "true of the build, not of the machine: do not branch on it"},
        rule="XLA102",
        evidence="fact 2",
    ),
    *rows(
        "torch.nn.attention",
        ABSENT,
        NONE,
        HARMLESS,
        {
            "sdpa_kernel": "chooses between CUDA kernels: `scaled_dot_product_attention` has one form on XLA",
            "SDPBackend": "names CUDA kernels: `scaled_dot_product_attention` has one form on XLA",
        },
        torch="2.3+",
    ),
    *rows(
        "torch.nn.parallel",
        REWRITTEN,
        RENAMED,
        RAISES,
        dict.fromkeys(
            ("DistributedDataParallel", "distributed.DistributedDataParallel"),
            ("xla.DistributedDataParallel(model)", "its first broadcast fails on XLA tensors"),
        ),
        rule="XLA603",
        evidence="fact 5.2",
    ),
    *rows(
        "torch.nn",
        REWRITTEN,
        RENAMED,
        RAISES,
        dict.fromkeys(
            ("DataParallel", "parallel.DataParallel"),
            (
                "xla.DataParallel(model)",
                "leaves inputs on the CPU, and uses one device: for several, `xla.DistributedDataParallel`",
            ),
        ),
        rule="XLA605",
        evidence="fact 3.4",
    ),
    *rows(
        "torch.nn.parallel",
        ABSENT,
        NONE,
        RAISES,
        {"data_parallel": ("module(inputs)", "needs CUDA devices")},
        rule="XLA605",
    ),
)

PROFILERS: tuple[Row, ...] = (
    *rows(
        "torch.profiler",
        REWRITTEN,
        CONTEXT,
        HARMLESS,
        {
            "ProfilerActivity.CUDA": (
                "torch.profiler.supported_activities()",
                "records nothing of XLA: use `torch_xla.debug.profiler`; alone it fails",
            )
        },
        rule="XLA127",
        evidence="fact 1.107",
    ),
    *rows(
        "torch.autograd.profiler",
        REMOVED,
        CONTEXT,
        RAISES,
        {
            "emit_nvtx": "marks ranges for NVIDIA's profiler; XLA's has `torch_xla.debug.profiler.Trace(name)`"
        },
        rule="XLA127",
    ),
)

EXTENSIONS: tuple[Row, ...] = (
    *rows(
        "torch.utils.cpp_extension",
        ABSENT,
        NONE,
        RAISES,
        {
            "CUDAExtension": _BUILD,
            "CUDA_HOME": "the folder of a CUDA toolkit, which an XLA host lacks",
            "CUDNN_HOME": "the folder of cuDNN, which an XLA host lacks",
            "load": f"with `.cu` sources it {_BUILD}",
            "load_inline": f"with `cuda_sources` it {_BUILD}",
        },
        rule="XLA902",
        evidence="docs",
    ),
    *rows(
        "torch.utils.cpp_extension",
        STAYS,
        SAME,
        HARMLESS,
        {
            "BuildExtension": "builds C++ as well; only CUDA sources are lost",
            "CppExtension": "C++ for the host: it runs on host tensors",
            "SyclExtension": "builds for Intel's devices",
            "check_compiler_is_gcc": "asks about the host's compiler",
            "check_compiler_ok_for_platform": "asks about the host's compiler",
            "get_compiler_abi_compatibility_and_version": "asks about the host's compiler",
            "get_cxx_compiler": "asks about the host's compiler",
            "get_default_build_root": "a folder of the host",
            "include_paths": 'asks about the host; with "cuda", about a CUDA toolkit',
            "library_paths": 'asks about the host; with "cuda", about a CUDA toolkit',
            "is_ninja_available": "asks about the host",
            "remove_extension_h_precompiler_headers": "removes files of the host",
            "verify_ninja_availability": "asks about the host",
        },
        evidence="docs",
    ),
)

ROWS: tuple[Row, ...] = (*FUNCTIONS, *PROFILERS, *EXTENSIONS)
