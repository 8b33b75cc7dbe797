"""A fast test for CUDA-only names, by their beginnings."""

from __future__ import annotations

# Packages all of whose names are.
PACKAGES = frozenset(
    {
        "GPUtil",
        "PyNvVideoCodec",
        "amp_C",
        "apex",
        "apex_C",
        "bitsandbytes",
        "bmtrain",
        "causal_conv1d",
        "colossalai",
        "cucim",
        "cudf",
        "cugraph",
        "cuml",
        "cupy",
        "cupyx",
        "cuspatial",
        "cutlass",
        "cuvs",
        "cvcuda",
        "dask_cuda",
        "dask_cudf",
        "deepspeed",
        "fairscale",
        "fla",
        "flash_attn",
        "flash_attn_2_cuda",
        "flash_attn_interface",
        "flashinfer",
        "gpustat",
        "grouped_gemm",
        "helion",
        "horovod",
        "kvikio",
        "liger_kernel",
        "mamba_ssm",
        "megatron",
        "modelopt",
        "msamp",
        "nvcv",
        "nvidia_smi",
        "nvitop",
        "nvsmi",
        "nvtx",
        "polygraphy",
        "py3nvml",
        "pycuda",
        "pylibcudf",
        "pylibraft",
        "pynvml",
        "raft_dask",
        "rmm",
        "sageattention",
        "sgl_kernel",
        "tensorrt",
        "tensorrt_llm",
        "thunderkittens",
        "tilelang",
        "torch2trt",
        "torch_tensorrt",
        "transformer_engine",
        "transformer_engine_torch",
        "triton",
        "unsloth",
        "warp_rnnt",
        "warpctc_pytorch",
        "warprnnt_pytorch",
        "xformers",
    }
)

# Parts of other packages: the name itself and all below it.
PARTS = (
    "torch.accelerator",
    "torch.backends.cuda",
    "torch.backends.cudnn",
    "torch.backends.cusparselt",
    "torch.cuda",
    "torch.distributed.ProcessGroupNCCL",
    "torch.distributed._symmetric_memory",
    "torch.distributed.distributed_c10d.ProcessGroupNCCL",
    "cuda.bindings",
    "cuda.cuda",
    "cuda.cudart",
    "cuda.nvrtc",
    "kernels.get_kernel",
    "numba.cuda",
    "nvidia.dali",
    "nvidia.nvimgcodec",
    "torchao.float8",
    "torchao.optim",
    "torchao.prototype.mx_formats",
)

# Single names of torch, FAISS and spaCy.
NAMES = frozenset(
    {
        "faiss.GpuClonerOptions",
        "faiss.GpuIndex",
        "faiss.GpuIndexFlat",
        "faiss.GpuIndexFlatConfig",
        "faiss.GpuIndexFlatIP",
        "faiss.GpuIndexFlatL2",
        "faiss.GpuIndexIVFFlat",
        "faiss.GpuIndexIVFFlatConfig",
        "faiss.GpuIndexIVFPQ",
        "faiss.GpuIndexIVFPQConfig",
        "faiss.GpuMultipleClonerOptions",
        "faiss.StandardGpuResources",
        "faiss.index_cpu_to_all_gpus",
        "faiss.index_cpu_to_gpu",
        "faiss.index_cpu_to_gpu_multiple",
        "faiss.index_cpu_to_gpu_multiple_py",
        "faiss.index_cpu_to_gpus_list",
        "faiss.index_gpu_to_cpu",
        "faiss.knn_gpu",
        "spacy.prefer_gpu",
        "spacy.require_gpu",
        "thinc.api.prefer_gpu",
        "thinc.api.require_gpu",
        "thinc.util.prefer_gpu",
        "thinc.util.require_gpu",
        "torch.autograd.profiler.emit_nvtx",
        "torch.cudnn_affine_grid_generator",
        "torch.cudnn_batch_norm",
        "torch.cudnn_convolution",
        "torch.cudnn_convolution_add_relu",
        "torch.cudnn_convolution_relu",
        "torch.cudnn_convolution_transpose",
        "torch.cudnn_grid_sampler",
        "torch.cudnn_is_acceptable",
        "torch.distributed.Backend.NCCL",
        "torch.distributed.all_gather_multigpu",
        "torch.distributed.all_reduce_multigpu",
        "torch.distributed.broadcast_multigpu",
        "torch.distributed.fsdp.FullyShardedDataParallel",
        "torch.distributed.fsdp.fully_shard",
        "torch.distributed.fsdp.sharded_grad_scaler.ShardedGradScaler",
        "torch.distributed.is_nccl_available",
        "torch.distributed.reduce_multigpu",
        "torch.distributed.pipeline.sync.Pipe",
        "torch.distributed.pipelining.PipelineStage",
        "torch.distributed.pipelining.pipeline",
        "torch.distributed.rpc.init_rpc",
        "torch.distributed.tensor.parallel.parallelize_module",
        "torch.get_autocast_gpu_dtype",
        "torch.get_device_module",
        "torch.nn.DataParallel",
        "torch.nn.SyncBatchNorm",
        "torch.nn.SyncBatchNorm.convert_sync_batchnorm",
        "torch.nn.parallel.DistributedDataParallel",
        "torch.nn.parallel.distributed.DistributedDataParallel",
        "torch.nn.attention.SDPBackend",
        "torch.nn.attention.sdpa_kernel",
        "torch.nn.parallel.DataParallel",
        "torch.nn.parallel.data_parallel",
        "torch.profiler.ProfilerActivity.CUDA",
        "torch.set_autocast_gpu_dtype",
        "torch.sparse.to_sparse_semi_structured",
        "torch.utils.cpp_extension.CUDAExtension",
        "torch.utils.cpp_extension.CUDA_HOME",
        "torch.utils.cpp_extension.CUDNN_HOME",
        "torch.utils.cpp_extension.load",
        "torch.utils.cpp_extension.load_inline",
    }
)

# What rules about a script as a whole deal with: that they are silent on one means that it does no harm.
_JUDGED = frozenset({"torch.cuda.amp.GradScaler", "torch.cuda.amp.grad_scaler.GradScaler"})

# What a dotted name that leads to one of them begins with: the parts that may come next.
NEXT: dict[str, set[str]] = {}
for _name in (*PARTS, *NAMES):
    _home, _, _last = _name.rpartition(".")
    while _home:
        NEXT.setdefault(_home, set()).add(_last)
        _home, _, _last = _home.rpartition(".")

# The first part of any of them: what has none of these as its root is not ours.
ROOTS = PACKAGES | {name.partition(".")[0] for name in NEXT}

_PARTS = frozenset(PARTS)
_BELOW = tuple(f"{part}." for part in PARTS)


def is_cuda_only(dotted: str) -> bool:
    """True if `dotted` is a name, or a part of one, that only CUDA devices have."""
    return (
        dotted in NAMES
        or dotted in _PARTS
        or (dotted.startswith(_BELOW) and dotted not in _JUDGED)
        or dotted.partition(".")[0] in PACKAGES
    )


def may_lead_to_one(dotted: str) -> bool:
    """True if `dotted` is CUDA-only, or a module that has something CUDA-only in it."""
    return dotted in NEXT or is_cuda_only(dotted)
