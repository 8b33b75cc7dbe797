"""`torch.backends.cuda`, `torch.backends.cudnn`, `torch.amp` and `torch.accelerator`."""

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
    SAME,
    SILENT,
    STAYS,
    Row,
    also,
    rows,
)

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
        {"is_available": ('xla.device_type() == "cuda"', "says yes where no device is")},
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
                "of TPUs the default is bfloat16, so a script that asks for exact float32 must say so to XLA (fact 1.108)",
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

_AUTOCAST = (
    "xla.autocast()",
    'with "cuda" it changes nothing on XLA: tensors stay float32; float16 becomes bfloat16',
)

AMP: tuple[Row, ...] = (
    *rows(
        "torch.amp",
        REWRITTEN,
        ARGUMENTS,
        SILENT,
        {"autocast": _AUTOCAST},
        rule="XLA201",
        evidence="fact 1.71",
    ),
    *rows(
        "torch",
        REWRITTEN,
        ARGUMENTS,
        SILENT,
        {"autocast": _AUTOCAST},
        rule="XLA201",
        evidence="fact 1.71",
    ),
    *rows(
        "torch.amp",
        REMOVED,
        CONTEXT,
        SILENT,
        {"GradScaler": "XLA computes in bfloat16, which needs no loss scaling"},
        rule="XLA204",
        torch="2.3+",
        evidence="fact 1.73",
    ),
    *rows(
        "torch.amp",
        REWRITTEN,
        ARGUMENTS,
        HARMLESS,
        {
            "custom_fwd": ("torch.amp.custom_fwd(device_type=xla.device_type())", ""),
            "custom_bwd": ("torch.amp.custom_bwd(device_type=xla.device_type())", ""),
        },
        rule="XLA203",
        torch="2.4+",
        evidence="fact 2",
    ),
    *rows(
        "torch.amp",
        STAYS,
        SAME,
        HARMLESS,
        {
            "is_autocast_available": 'ask it of `xla.device_type()`, not of "cuda"',
            "autocast_mode.autocast_decorator": "works with any autocast context",
            "grad_scaler.OptState": "of a GradScaler, which XLA does not need",
        },
        torch="2.4+",
        evidence="docs",
    ),
    *rows(
        "torch",
        REWRITTEN,
        ARGUMENTS,
        SILENT,
        {
            "get_autocast_gpu_dtype": (
                "torch.get_autocast_dtype(xla.device_type())",
                "of CUDA only",
            ),
            "set_autocast_gpu_dtype": (
                "torch.set_autocast_dtype(xla.device_type(), dtype)",
                "of CUDA only",
            ),
            "is_autocast_enabled": ("torch.is_autocast_enabled(xla.device_type())", "of CUDA only"),
        },
        rule="XLA202",
    ),
)

_ONE = "a process of XLA drives one device"
_WRONG = (
    "with torch_xla it means CUDA, or nothing: a script that asks it trains on the CPU (fact 1.4)"
)

ACCELERATOR: tuple[Row, ...] = (
    *rows(
        "torch.accelerator",
        REWRITTEN,
        RENAMED,
        SILENT,
        {
            "is_available": ("xla.is_available()", _WRONG),
            "device_count": ("xla.device_count()", _WRONG),
        },
        rule="XLA102",
        torch="2.6+",
    ),
    *rows(
        "torch.accelerator",
        REWRITTEN,
        CONTEXT,
        SILENT,
        {"current_accelerator": ("xla.xla_device()", _WRONG)},
        rule="XLA110",
        torch="2.6+",
    ),
    *rows(
        "torch.accelerator",
        REWRITTEN,
        CONTEXT,
        RAISES,
        {
            "current_device_index": ("xla.xla_device()", "a device, not an index"),
            "current_device_idx": ("xla.xla_device()", "a device, not an index"),
        },
        rule="XLA102",
        torch="2.6+",
    ),
    *rows(
        "torch.accelerator",
        REWRITTEN,
        RENAMED,
        RAISES,
        {"synchronize": "xla.synchronize()"},
        rule="XLA121",
        torch="2.6+",
    ),
    *rows(
        "torch.accelerator",
        REWRITTEN,
        RENAMED,
        RAISES,
        {
            "set_device_index": ("xla.set_device(...)", _ONE),
            "set_device_idx": ("xla.set_device(...)", _ONE),
            "device_index": ("xla.device_index(...)", _ONE),
        },
        rule="XLA103",
        torch="2.6+",
    ),
    *rows(
        "torch.accelerator",
        REMOVED,
        CONTEXT,
        RAISES,
        {
            "current_stream": "XLA orders the work itself",
            "set_stream": "XLA orders the work itself",
        },
        rule="XLA123",
        torch="2.6+",
    ),
)

_FIGURES: tuple[Row, ...] = (
    *rows(
        "torch.accelerator",
        REMOVED,
        SAME,
        HARMLESS,
        {"empty_cache": "XLA keeps no cache of freed memory"},
        rule="XLA126",
        torch="2.9+",
    ),
    *rows(
        "torch.accelerator",
        REWRITTEN,
        ARGUMENTS,
        SILENT,
        {
            "memory_allocated": 'xla.memory_info()["bytes_used"]',
            "memory_reserved": 'xla.memory_info()["bytes_reserved"]',
            "max_memory_allocated": 'xla.memory_info()["peak_bytes_used"]',
            "max_memory_reserved": 'xla.memory_info()["peak_bytes_reserved"]',
            "memory_stats": "xla.memory_info()",
        },
        rule="XLA125",
        torch="2.9+",
    ),
    *rows(
        "torch.accelerator",
        REWRITTEN,
        RENAMED,
        RAISES,
        {"reset_peak_memory_stats": "xla.reset_peak_memory_stats()"},
        rule="XLA125",
        torch="2.9+",
    ),
    *rows(
        "torch.accelerator",
        REMOVED,
        CONTEXT,
        RAISES,
        {"reset_accumulated_memory_stats": "XLA keeps no such count"},
        rule="XLA126",
        torch="2.9+",
    ),
)

ROWS: tuple[Row, ...] = (
    *CUDNN,
    *CUSPARSELT,
    *CUDA,
    *AMP,
    *also(
        "torch.amp.autocast_mode",
        ("autocast", "custom_bwd", "custom_fwd", "is_autocast_available"),
        AMP,
    ),
    *also("torch.amp.grad_scaler", ("GradScaler",), AMP),
    *ACCELERATOR,
    *_FIGURES,
    *also("torch.accelerator.memory", [row.name.rpartition(".")[2] for row in _FIGURES], _FIGURES),
)
