"""`torch.backends.cuda`, `torch.backends.cudnn` and `torch.backends.cusparselt`."""

from __future__ import annotations

from .row import ABSENT, HARMLESS, NONE, RAISES, RENAMED, REWRITTEN, SILENT, Row, rows

_PRECISION = 'xla.set_float32_matmul_precision("highest")'
_KERNEL_CHOICE = "chooses between CUDA kernels: `scaled_dot_product_attention` has one form on XLA"
_BUILD = "true of the build, not of the machine: do not branch on it"

CUDNN: tuple[Row, ...] = (
    *rows(
        "torch.backends.cudnn",
        REWRITTEN,
        RENAMED,
        HARMLESS,
        {
            name: f"xla.set_cudnn({name}=...)"
            for name in ("benchmark", "deterministic", "enabled", "allow_tf32")
        },
        rule="XLA128",
    ),
    *rows(
        "torch.backends.cudnn",
        ABSENT,
        NONE,
        HARMLESS,
        {
            "benchmark_limit": "tunes cuDNN: it changes nothing on XLA",
            "flags": "flags of cuDNN: they change nothing on XLA",
            "set_flags": "flags of cuDNN: they change nothing on XLA",
            "version": "the version of a library that is not used",
            "CUDNN_TENSOR_DTYPES": "data types of cuDNN's own",
        },
    ),
    *rows(
        "torch.backends.cudnn",
        ABSENT,
        NONE,
        SILENT,
        {
            "is_acceptable": "says no of XLA's tensors: do not branch on it",
            "fp32_precision": f"set precision by `{_PRECISION}`",
            "conv": f"set precision by `{_PRECISION}`",
            "rnn": f"set precision by `{_PRECISION}`",
        },
    ),
    *rows(
        "torch.backends.cudnn",
        REWRITTEN,
        RENAMED,
        SILENT,
        {"is_available": ('xla.device_type() == "cuda"', "true even without a device")},
        rule="XLA128",
    ),
    *rows(
        "torch.backends.cudnn.rnn",
        ABSENT,
        NONE,
        HARMLESS,
        {
            "Unserializable": "cuDNN's own state",
            "get_cudnn_mode": "cuDNN's own state",
            "init_dropout_state": "cuDNN's own state",
        },
        evidence="docs",
    ),
)

CUSPARSELT: tuple[Row, ...] = (
    *rows(
        "torch.backends.cusparselt",
        ABSENT,
        NONE,
        HARMLESS,
        dict.fromkeys(
            ("get_max_alg_id", "is_available", "version"),
            "2:4 sparsity is a feature of NVIDIA's tensor cores",
        ),
        torch="2.5+",
    ),
)

CUDA: tuple[Row, ...] = (
    *rows(
        "torch.backends.cuda",
        ABSENT,
        NONE,
        SILENT,
        {"is_flash_attention_available": _BUILD},
    ),
    *rows(
        "torch.backends.cuda",
        REWRITTEN,
        RENAMED,
        SILENT,
        {"is_built": ("xla.is_available()", "true of the build, not of the machine")},
        rule="XLA102",
    ),
    *rows(
        "torch.backends.cuda",
        REWRITTEN,
        RENAMED,
        SILENT,
        {
            "matmul.allow_tf32": (
                'xla.set_float32_matmul_precision("high")',
                "TPUs compute in bfloat16 by default, so a script that needs exact float32 must say so to XLA (fact 1.108)",
            ),
            "matmul.fp32_precision": _PRECISION,
        },
        rule="XLA129",
        evidence="fact 1.108",
    ),
    *rows(
        "torch.backends.cuda",
        ABSENT,
        NONE,
        HARMLESS,
        {
            "matmul": "settings of cuBLAS",
            "matmul.allow_fp16_reduced_precision_reduction": "a setting of cuBLAS",
            "matmul.allow_bf16_reduced_precision_reduction": "a setting of cuBLAS",
            "matmul.allow_fp16_accumulation": "a setting of cuBLAS",
            "cuBLASModule": "the type of cuBLAS's settings",
            "preferred_blas_library": "chooses between CUDA libraries",
            "preferred_linalg_library": "chooses between CUDA libraries",
            "preferred_rocm_fa_library": "chooses between ROCm libraries",
        },
    ),
    *rows(
        "torch.backends.cuda",
        ABSENT,
        NONE,
        HARMLESS,
        dict.fromkeys(
            (
                "SDPAParams",
                "allow_fp16_bf16_reduction_math_sdp",
                "can_use_cudnn_attention",
                "can_use_efficient_attention",
                "can_use_flash_attention",
                "cudnn_sdp_enabled",
                "enable_cudnn_sdp",
                "enable_flash_sdp",
                "enable_math_sdp",
                "enable_mem_efficient_sdp",
                "flash_sdp_enabled",
                "fp16_bf16_reduction_math_sdp_allowed",
                "math_sdp_enabled",
                "mem_efficient_sdp_enabled",
                "sdp_kernel",
            ),
            _KERNEL_CHOICE,
        ),
        evidence="fact 2",
    ),
    *rows(
        "torch.backends.cuda",
        ABSENT,
        NONE,
        RAISES,
        {"cufft_plan_cache": "plans of cuFFT, of which there are none: remove it"},
        evidence="fact 2",
    ),
    *rows(
        "torch.backends.cuda",
        ABSENT,
        NONE,
        HARMLESS,
        dict.fromkeys(
            ("cuFFTPlanCache", "cuFFTPlanCacheAttrContextProp", "cuFFTPlanCacheManager"),
            "plans of cuFFT, of which there are none",
        ),
        evidence="docs",
    ),
)

ROWS: tuple[Row, ...] = (*CUDNN, *CUSPARSELT, *CUDA)
