"""`torch.backends.cuda`, `torch.backends.cudnn` and `torch.backends.cusparselt`."""

from __future__ import annotations

from .row import ABSENT, HARMLESS, NONE, RAISES, RENAMED, REWRITTEN, SILENT, Row, rows

_PRECISION = 'xla.set_float32_matmul_precision("highest")'
_KERNEL_CHOICE = (
    "it chooses between CUDA kernels, and `scaled_dot_product_attention` has one form on XLA"
)
_BUILD = "it describes the build of PyTorch, not the machine: do not branch on it"

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
            "benchmark_limit": "it tunes cuDNN, which XLA does not use",
            "flags": "it sets flags of cuDNN, which XLA does not use",
            "set_flags": "it sets flags of cuDNN, which XLA does not use",
            "version": "XLA does not use cuDNN",
            "CUDNN_TENSOR_DTYPES": "XLA does not use cuDNN",
        },
    ),
    *rows(
        "torch.backends.cudnn",
        ABSENT,
        NONE,
        SILENT,
        {
            "is_acceptable": "it returns False for XLA tensors: do not branch on it",
            "fp32_precision": f"set the precision with `{_PRECISION}`",
            "conv": f"set the precision with `{_PRECISION}`",
            "rnn": f"set the precision with `{_PRECISION}`",
        },
    ),
    *rows(
        "torch.backends.cudnn",
        REWRITTEN,
        RENAMED,
        SILENT,
        {
            "is_available": (
                'xla.device_type() == "cuda"',
                "the original is True even without a device",
            )
        },
        rule="XLA128",
    ),
    *rows(
        "torch.backends.cudnn.rnn",
        ABSENT,
        NONE,
        HARMLESS,
        {
            "Unserializable": "it is a state of cuDNN",
            "get_cudnn_mode": "it is a state of cuDNN",
            "init_dropout_state": "it is a state of cuDNN",
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
            "2:4 sparsity needs NVIDIA's tensor cores",
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
        {"is_built": ("xla.is_available()", "it describes the build of PyTorch, not the machine")},
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
                'TPUs multiply in bfloat16 by default: set "highest" for exact float32 (fact 1.108)',
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
            "matmul": "it contains settings of cuBLAS",
            "matmul.allow_fp16_reduced_precision_reduction": "it is a setting of cuBLAS",
            "matmul.allow_bf16_reduced_precision_reduction": "it is a setting of cuBLAS",
            "matmul.allow_fp16_accumulation": "it is a setting of cuBLAS",
            "cuBLASModule": "it is a type of cuBLAS settings",
            "preferred_blas_library": "it chooses between CUDA libraries",
            "preferred_linalg_library": "it chooses between CUDA libraries",
            "preferred_rocm_fa_library": "it chooses between ROCm libraries",
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
        {"cufft_plan_cache": "XLA has no plans of cuFFT"},
        evidence="fact 2",
    ),
    *rows(
        "torch.backends.cuda",
        ABSENT,
        NONE,
        HARMLESS,
        dict.fromkeys(
            ("cuFFTPlanCache", "cuFFTPlanCacheAttrContextProp", "cuFFTPlanCacheManager"),
            "XLA has no plans of cuFFT",
        ),
        evidence="docs",
    ),
)

ROWS: tuple[Row, ...] = (*CUDNN, *CUSPARSELT, *CUDA)
