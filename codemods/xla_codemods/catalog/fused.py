"""apex and bitsandbytes: fused optimizers, mixed precision and quantised layers for CUDA."""

from __future__ import annotations

from .row import (
    ABSENT,
    ARGUMENTS,
    CONTEXT,
    NONE,
    RAISES,
    REMOVED,
    RENAMED,
    REWRITTEN,
    RUNTIME,
    Row,
    rows,
)

_APEX_AMP = "`xla.autocast()` computes in bfloat16 without loss scaling"
_CASTS = "autocast decides which functions compute in which precision"
_APEX_FP16 = "it is apex's first mixed precision: use `xla.autocast()`"
_APEX_KERNEL = "it is a fused CUDA kernel: use the module or function of torch.nn, which XLA fuses"
MEGATRON = "its model parallelism needs NCCL: use SPMD shardings (`torch_xla.distributed.spmd`)"

APEX: tuple[Row, ...] = (
    *rows(
        "apex.amp",
        REMOVED,
        CONTEXT,
        RAISES,
        {
            "initialize": _APEX_AMP,
            "scale_loss": _APEX_AMP,
            "master_params": ("optimizer's own parameters", _APEX_AMP),
            "state_dict": "without loss scaling there is no state to keep",
            "load_state_dict": "without loss scaling there is no state to keep",
        },
        rule="XLA206",
        torch="any",
        evidence="docs",
    ),
    *rows(
        "apex.amp",
        REWRITTEN,
        ARGUMENTS,
        RAISES,
        {
            "disable_casts": "xla.autocast(enabled=False)",
            "float_function": ("xla.cast_inputs(...)", _CASTS),
            "half_function": ("xla.cast_inputs(...)", _CASTS),
            "register_float_function": ("xla.cast_inputs(...)", _CASTS),
            "register_half_function": ("xla.cast_inputs(...)", _CASTS),
        },
        rule="XLA206",
        torch="any",
        evidence="docs",
    ),
    *rows(
        "apex.amp",
        REMOVED,
        CONTEXT,
        RAISES,
        {"register_promote_function": "autocast converts mixed arguments"},
        rule="XLA206",
        torch="any",
        evidence="docs",
    ),
    *rows(
        "apex.amp",
        ABSENT,
        NONE,
        RAISES,
        dict.fromkeys(("init", "promote_function"), _CASTS),
        rule="XLA206",
        torch="any",
        evidence="docs",
    ),
    *rows(
        "apex.optimizers",
        REWRITTEN,
        ARGUMENTS,
        RAISES,
        {
            "FusedAdam": (
                "torch.optim.AdamW(...)",
                "apex's defaults become explicit arguments, and `adam_w_mode=False` becomes Adam",
            ),
            "FusedSGD": "torch.optim.SGD(...)",
            "FusedAdagrad": "torch.optim.Adagrad(...)",
            "FusedLAMB": "timm.optim.Lamb(...)",
            "FusedNovoGrad": "xla.NovoGrad(...)",
            "FusedMixedPrecisionLamb": "timm.optim.Lamb(...)",
        },
        rule="XLA301",
        torch="any",
        evidence="docs",
    ),
    *rows(
        "apex.normalization",
        REWRITTEN,
        ARGUMENTS,
        RAISES,
        {
            "FusedLayerNorm": "torch.nn.LayerNorm(...)",
            "FusedRMSNorm": (
                "torch.nn.RMSNorm(..., eps=1e-5)",
                "apex's default `eps` becomes an explicit argument",
            ),
        },
        rule="XLA809",
        torch="any",
        evidence="docs",
    ),
    *rows(
        "apex.normalization",
        RUNTIME,
        RENAMED,
        RAISES,
        {"MixedFusedLayerNorm": "torch.nn.LayerNorm", "MixedFusedRMSNorm": "torch.nn.RMSNorm"},
        torch="any",
        evidence="docs",
    ),
    *rows(
        "apex.parallel",
        REWRITTEN,
        ARGUMENTS,
        RAISES,
        {
            "DistributedDataParallel": "xla.DistributedDataParallel(model)",
        },
        rule="XLA603",
        torch="any",
        evidence="docs",
    ),
    *rows(
        "apex.parallel",
        REWRITTEN,
        RENAMED,
        RAISES,
        {
            "SyncBatchNorm": "xla.SyncBatchNorm(...)",
            "convert_syncbn_model": "xla.convert_sync_batchnorm(model)",
        },
        rule="XLA609",
        torch="any",
        evidence="docs",
    ),
    *rows(
        "apex",
        ABSENT,
        NONE,
        RAISES,
        {
            "fp16_utils.FP16_Optimizer": _APEX_FP16,
            "fp16_utils.network_to_half": ("model.to(torch.bfloat16)", _APEX_FP16),
        },
        rule="XLA207",
        torch="any",
        evidence="docs",
    ),
    *rows(
        "apex.contrib",
        REWRITTEN,
        RENAMED,
        RAISES,
        {"clip_grad.clip_grad_norm_": "torch.nn.utils.clip_grad_norm_"},
        rule="XLA309",
        torch="any",
        evidence="docs",
    ),
    *rows(
        "apex",
        ABSENT,
        NONE,
        RAISES,
        {
            "fp16_utils": _APEX_FP16,
            "multi_tensor_apply": _APEX_KERNEL,
            "multi_tensor_apply.multi_tensor_applier": _APEX_KERNEL,
            "mlp.MLP": ("torch.nn.Sequential(...)", _APEX_KERNEL),
            "mlp.MlpFunction": _APEX_KERNEL,
            "fused_dense": ("torch.nn.Linear", _APEX_KERNEL),
            "RNN": ("torch.nn.LSTM", _APEX_KERNEL),
            "reparameterization": ("torch.nn.utils.parametrizations.weight_norm", _APEX_KERNEL),
            "transformer": MEGATRON,
            "contrib": _APEX_KERNEL,
            "contrib.xentropy.SoftmaxCrossEntropyLoss": (
                "torch.nn.functional.cross_entropy",
                _APEX_KERNEL,
            ),
            "contrib.multihead_attn": ("torch.nn.MultiheadAttention", _APEX_KERNEL),
            "contrib.layer_norm.FastLayerNorm": ("torch.nn.LayerNorm", _APEX_KERNEL),
            "contrib.sparsity.ASP": "2:4 sparsity needs NVIDIA's tensor cores",
            "contrib.nccl_allocator": "XLA does not use NCCL's memory",
            "contrib.gpu_direct_storage": "XLA has no GPUDirect storage: read into host memory, then move the tensor",
            "contrib.optimizers": (
                "torch.optim",
                "apex's optimizers are sharded and fused for CUDA",
            ),
            "pyprof": "it is for NVIDIA's profiler: use `torch_xla.debug.profiler`",
            "parallel.create_syncbn_process_group": "apex's batch norm needs CUDA: use `xla.convert_sync_batchnorm`",
            "parallel.LARC": ("timm.optim.Lars(...)", "apex's class is written for apex.amp"),
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
            "apex": "apex needs CUDA",
            "amp_C": _APEX_KERNEL,
            "apex_C": _APEX_KERNEL,
        },
        torch="any",
        evidence="docs",
    ),
)

QUANTISED = "the quantisation needs CUDA kernels: train in bfloat16"

BITSANDBYTES: tuple[Row, ...] = (
    *rows(
        "bitsandbytes.optim",
        REWRITTEN,
        ARGUMENTS,
        RAISES,
        {
            f"{kind}{bits}": (
                f"torch.optim.{kind.removeprefix('Paged')}(...)",
                "its state in 32 bits takes more memory",
            )
            for kind in ("Adam", "AdamW", "SGD", "Adagrad", "RMSprop", "PagedAdam", "PagedAdamW")
            for bits in ("8bit", "32bit", "")
        },
        rule="XLA302",
        torch="any",
        evidence="docs",
    ),
    *rows(
        "bitsandbytes.optim",
        REWRITTEN,
        ARGUMENTS,
        RAISES,
        dict.fromkeys(
            ("Lion", "Lion8bit", "Lion32bit", "PagedLion", "PagedLion8bit"),
            ("timm.optim.Lion(...)", "its state in 32 bits takes more memory"),
        ),
        rule="XLA302",
        torch="any",
        evidence="docs",
    ),
    *rows(
        "bitsandbytes.optim",
        ABSENT,
        NONE,
        RAISES,
        dict.fromkeys(
            (
                "AdEMAMix",
                "AdEMAMix8bit",
                "PagedAdEMAMix",
                "PagedAdEMAMix8bit",
                "LAMB",
                "LAMB8bit",
                "LARS",
                "LARS8bit",
                "GlobalOptimManager.get_instance",
            ),
            "its state is quantised by CUDA kernels: use an optimizer of torch.optim",
        ),
        rule="XLA302",
        torch="any",
        evidence="docs",
    ),
    *rows(
        "bitsandbytes.nn",
        ABSENT,
        NONE,
        RAISES,
        {
            "Linear8bitLt": ("torch.nn.Linear", QUANTISED),
            "Linear4bit": ("torch.nn.Linear", QUANTISED),
            "LinearFP4": ("torch.nn.Linear", QUANTISED),
            "LinearNF4": ("torch.nn.Linear", QUANTISED),
            "Embedding8bit": ("torch.nn.Embedding", QUANTISED),
            "Embedding": ("torch.nn.Embedding", QUANTISED),
            "StableEmbedding": ("torch.nn.Embedding", QUANTISED),
            "Params4bit": QUANTISED,
            "Int8Params": QUANTISED,
            "triton_based_modules": QUANTISED,
        },
        rule="XLA914",
        torch="any",
        evidence="docs",
    ),
    *rows(
        "bitsandbytes",
        ABSENT,
        NONE,
        RAISES,
        {
            "functional": QUANTISED,
            "matmul": QUANTISED,
            "matmul_4bit": QUANTISED,
            "research": QUANTISED,
        },
        rule="XLA914",
        torch="any",
        evidence="docs",
    ),
    *rows("", ABSENT, NONE, RAISES, {"bitsandbytes": QUANTISED}, torch="any", evidence="docs"),
)

ROWS: tuple[Row, ...] = (*APEX, *BITSANDBYTES)
