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

_BUILD = "builds CUDA code: write it with PyTorch's operations, or as a Pallas (TPU) or NKI (Trainium) kernel"
_CUDNN = "it calls cuDNN directly: use the function of torch.nn.functional"

FUNCTIONS: tuple[Row, ...] = (
    *rows(
        "torch",
        REWRITTEN,
        ARGUMENTS,
        RAISES,
        {
            "set_default_tensor_type": ("", "with a CUDA device, the next new tensor fails"),
            "set_default_device": (
                "torch.set_default_device(xla.xla_device())",
                "with a CUDA device, the next new tensor fails",
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
        {"Stream": "XLA has no streams: run the code without a stream"},
        rule="XLA123",
        torch="2.6+",
        evidence="fact 1.3",
    ),
    *rows(
        "torch",
        REWRITTEN,
        ARGUMENTS,
        SILENT,
        {"Event": ("xla.Event(enable_timing=True)", "the event does not measure XLA devices")},
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
                'XLA raises RuntimeError ("RESOURCE_EXHAUSTED") instead',
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
            "has_cuda": (
                "xla.is_available()",
                "it describes the build of PyTorch, not the machine",
            ),
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
                "PyTorch's setting has no effect on XLA, and TPUs multiply in bfloat16 by default",
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
            "SyncBatchNorm": (
                "xla.SyncBatchNorm(...)",
                "PyTorch's class works on CUDA tensors only",
            ),
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
        {"cuda": "it describes the build of PyTorch, not the machine: do not branch on it"},
        rule="XLA102",
        evidence="fact 2",
    ),
    *rows(
        "torch.nn.attention",
        ABSENT,
        NONE,
        HARMLESS,
        {
            "sdpa_kernel": "it chooses between CUDA kernels, and `scaled_dot_product_attention` has one form on XLA",
            "SDPBackend": "it names CUDA kernels, and `scaled_dot_product_attention` has one form on XLA",
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
            (
                "xla.DistributedDataParallel(model)",
                "PyTorch's class fails on XLA tensors at its first broadcast",
            ),
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
                "PyTorch's class leaves inputs on the CPU and uses one device; for several "
                "devices, use `xla.DistributedDataParallel`",
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
        {"data_parallel": ("module(inputs)", "the original needs CUDA devices")},
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
                "it records nothing of XLA: use `torch_xla.debug.profiler` for the device",
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
            "emit_nvtx": "it marks ranges for NVIDIA's profiler: use `torch_xla.debug.profiler.Trace(name)`"
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
            "CUDA_HOME": "an XLA host has no CUDA toolkit",
            "CUDNN_HOME": "an XLA host has no cuDNN",
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
            "BuildExtension": "it also builds C++: remove only CUDA sources",
            "CppExtension": "it builds C++ that runs on CPU tensors",
            "SyclExtension": "it builds for Intel's devices",
            "check_compiler_is_gcc": "it describes the host's compiler",
            "check_compiler_ok_for_platform": "it describes the host's compiler",
            "get_compiler_abi_compatibility_and_version": "it describes the host's compiler",
            "get_cxx_compiler": "it describes the host's compiler",
            "get_default_build_root": "a folder of the host",
            "include_paths": 'it describes the host; with "cuda", a CUDA toolkit',
            "library_paths": 'it describes the host; with "cuda", a CUDA toolkit',
            "is_ninja_available": "asks about the host",
            "remove_extension_h_precompiler_headers": "it removes files on the host",
            "verify_ninja_availability": "asks about the host",
        },
        evidence="docs",
    ),
)

SPARSE: tuple[Row, ...] = (
    *rows(
        "torch.sparse",
        ABSENT,
        NONE,
        RAISES,
        {
            "to_sparse_semi_structured": (
                "2:4 sparsity needs NVIDIA's tensor cores: keep the pruned weight dense"
            )
        },
        torch="2.2+",
    ),
)

ROWS: tuple[Row, ...] = (*FUNCTIONS, *PROFILERS, *EXTENSIONS, *SPARSE)
