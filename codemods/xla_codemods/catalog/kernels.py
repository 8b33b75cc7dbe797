"""triton, transformer_engine, NVML, DALI, TensorRT, cupy and others that compute or ask on CUDA devices only."""

from __future__ import annotations

from .attention import SDPA
from .fused import MEGATRON
from .row import ABSENT, CONTEXT, NONE, RAISES, REMOVED, Row, rows

_TRITON = "triton compiles for CUDA: write it with torch's operations, or as a Pallas (TPU) or NKI (Trainium) kernel"
_TE = "fp8 of NVIDIA's tensor cores: use torch.nn's module in bfloat16"
_NVML = "asks NVIDIA's driver: use the vendor's monitor (neuron-monitor, tpu-info) or `xla.memory_info()`"
_DALI = (
    "decodes and augments on CUDA devices: use torchvision transforms in the DataLoader's workers"
)
_TENSORRT = "runs a trained model on NVIDIA's devices: not part of training"
_CUPY = "computes on CUDA devices: use torch's operations, or numpy on the host"

KERNELS: tuple[Row, ...] = (
    *rows(
        "triton",
        ABSENT,
        NONE,
        RAISES,
        {
            "jit": _TRITON,
            "autotune": _TRITON,
            "heuristics": _TRITON,
            "Config": _TRITON,
            "language": _TRITON,
            "testing": _TRITON,
            "cdiv": ("-(-a // b)", ""),
        },
        rule="XLA903",
        torch="any",
        evidence="docs",
    ),
    *rows(
        "",
        ABSENT,
        NONE,
        RAISES,
        {"triton": _TRITON, "tilelang": _TRITON, "cutlass": _TRITON, "thunderkittens": _TRITON},
        rule="XLA903",
        torch="any",
        evidence="docs",
    ),
    *rows(
        "transformer_engine",
        ABSENT,
        NONE,
        RAISES,
        {
            "pytorch": _TE,
            "pytorch.Linear": ("torch.nn.Linear", _TE),
            "pytorch.LayerNorm": ("torch.nn.LayerNorm", _TE),
            "pytorch.RMSNorm": ("torch.nn.RMSNorm", _TE),
            "pytorch.LayerNormLinear": (
                "torch.nn.Sequential(torch.nn.LayerNorm(...), torch.nn.Linear(...))",
                _TE,
            ),
            "pytorch.LayerNormMLP": _TE,
            "pytorch.TransformerLayer": ("torch.nn.TransformerEncoderLayer", _TE),
            "pytorch.DotProductAttention": (SDPA, _TE),
            "pytorch.MultiheadAttention": ("torch.nn.MultiheadAttention", _TE),
            "pytorch.fp8_autocast": ("xla.autocast()", _TE),
            "pytorch.fp8_model_init": _TE,
            "pytorch.autocast": ("xla.autocast()", _TE),
            "common.recipe": _TE,
        },
        rule="XLA910",
        torch="any",
        evidence="docs",
    ),
    *rows(
        "",
        ABSENT,
        NONE,
        RAISES,
        {"transformer_engine": _TE, "transformer_engine_torch": _TE, "msamp": _TE},
        rule="XLA910",
        torch="any",
        evidence="docs",
    ),
    *rows(
        "",
        ABSENT,
        NONE,
        RAISES,
        {
            "pynvml": _NVML,
            "py3nvml": _NVML,
            "nvidia_smi": _NVML,
            "nvitop": _NVML,
            "gpustat": _NVML,
            "GPUtil": _NVML,
            "nvsmi": _NVML,
        },
        rule="XLA905",
        torch="any",
        evidence="docs",
    ),
    *rows(
        "pynvml",
        ABSENT,
        NONE,
        RAISES,
        {
            "nvmlInit": _NVML,
            "nvmlShutdown": _NVML,
            "nvmlDeviceGetCount": ("xla.device_count()", ""),
            "nvmlDeviceGetHandleByIndex": _NVML,
            "nvmlDeviceGetName": ("xla.device_name()", ""),
            "nvmlDeviceGetMemoryInfo": ("xla.memory_info()", ""),
            "nvmlDeviceGetUtilizationRates": _NVML,
            "nvmlDeviceGetTemperature": _NVML,
            "nvmlDeviceGetPowerUsage": _NVML,
            "nvmlDeviceGetUUID": _NVML,
            "nvmlDeviceGetCpuAffinity": _NVML,
            "nvmlDeviceSetCpuAffinity": _NVML,
            "nvmlSystemGetDriverVersion": _NVML,
        },
        rule="XLA905",
        torch="any",
        evidence="docs",
    ),
    *rows(
        "",
        ABSENT,
        NONE,
        RAISES,
        {
            "nvidia.dali": _DALI,
            "nvidia.dali.plugin.pytorch.DALIGenericIterator": (
                "torch.utils.data.DataLoader",
                _DALI,
            ),
            "nvidia.dali.plugin.pytorch.DALIClassificationIterator": (
                "torch.utils.data.DataLoader",
                _DALI,
            ),
            "nvidia.dali.pipeline.Pipeline": _DALI,
            "nvidia.dali.pipeline_def": _DALI,
            "nvidia.dali.fn": _DALI,
            "nvidia.dali.ops": _DALI,
            "nvidia.dali.types": _DALI,
            "nvidia.nvimgcodec": _DALI,
        },
        rule="XLA907",
        torch="any",
        evidence="docs",
    ),
    *rows(
        "",
        ABSENT,
        NONE,
        RAISES,
        {
            "tensorrt": _TENSORRT,
            "torch_tensorrt": _TENSORRT,
            "torch2trt": _TENSORRT,
            "tensorrt_llm": _TENSORRT,
            "polygraphy": _TENSORRT,
            "modelopt": "quantises for NVIDIA's devices",
        },
        rule="XLA908",
        torch="any",
        evidence="docs",
    ),
    *rows(
        "",
        ABSENT,
        NONE,
        RAISES,
        {
            "cupy": _CUPY,
            "cupyx": _CUPY,
            "numba.cuda": _CUPY,
            "numba.cuda.jit": _CUPY,
            "pycuda": _CUPY,
            "cuda": "NVIDIA's own bindings (cuda-python): there is no CUDA runtime to call",
            "cudf": ("pandas", _CUPY),
            "cuml": ("sklearn", _CUPY),
            "cugraph": ("networkx", _CUPY),
            "cucim": _CUPY,
            "rmm": "an allocator of CUDA memory",
            "cuvs": _CUPY,
        },
        rule="XLA909",
        torch="any",
        evidence="docs",
    ),
    *rows(
        "",
        REMOVED,
        CONTEXT,
        RAISES,
        {
            "nvtx": "marks ranges for NVIDIA's profiler; XLA's has `torch_xla.debug.profiler.Trace(name)`"
        },
        torch="any",
        evidence="docs",
    ),
    *rows(
        "",
        ABSENT,
        NONE,
        RAISES,
        {
            "megatron": MEGATRON,
            "bmtrain": MEGATRON,
            "colossalai": MEGATRON,
            "fairscale": MEGATRON,
        },
        torch="any",
        evidence="docs",
    ),
    *rows(
        "torchao",
        ABSENT,
        NONE,
        RAISES,
        {
            "optim.AdamW8bit": (
                "torch.optim.AdamW(...)",
                "its states are quantised by CUDA kernels",
            ),
            "optim.Adam8bit": ("torch.optim.Adam(...)", "its states are quantised by CUDA kernels"),
            "optim.AdamW4bit": (
                "torch.optim.AdamW(...)",
                "its states are quantised by CUDA kernels",
            ),
            "optim.AdamWFp8": (
                "torch.optim.AdamW(...)",
                "its states are quantised by CUDA kernels",
            ),
            "optim.CPUOffloadOptimizer": ("torch.optim.AdamW(...)", "copies over CUDA's streams"),
            "float8": _TE,
            "float8.convert_to_float8_training": _TE,
            "prototype.mx_formats": _TE,
        },
        rule="XLA910",
        torch="any",
        evidence="docs",
    ),
)

ROWS: tuple[Row, ...] = KERNELS
