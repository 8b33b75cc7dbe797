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

_APEX_AMP = "XLA computes in bfloat16 under `xla.autocast()`, without loss scaling"
_CASTS = "which functions compute in which precision is autocast's own affair"
_APEX_FP16 = "apex's first mixed precision: use `xla.autocast()`"
_APEX_KERNEL = "a fused CUDA kernel: use the module or function of torch.nn, XLA fuses it"
MEGATRON = "tensor parallelism over NCCL: use SPMD shardings (`torch_xla.distributed.spmd`)"

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
            "state_dict": "there is no loss scale to keep",
            "load_state_dict": "there is no loss scale to keep",
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
            "float_function": ("torch.amp.custom_fwd(...)", _CASTS),
            "half_function": ("torch.amp.custom_fwd(...)", _CASTS),
            "register_float_function": ("torch.amp.custom_fwd(...)", _CASTS),
            "register_half_function": ("torch.amp.custom_fwd(...)", _CASTS),
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
        {"register_promote_function": "autocast widens mixed arguments itself"},
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
                "its defaults are made explicit; `adam_w_mode=False` gives Adam",
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
        RUNTIME,
        RENAMED,
        RAISES,
        {
            "FusedLayerNorm": "torch.nn.LayerNorm",
            "MixedFusedLayerNorm": "torch.nn.LayerNorm",
            "FusedRMSNorm": "torch.nn.RMSNorm",
            "MixedFusedRMSNorm": "torch.nn.RMSNorm",
        },
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
            "contrib.sparsity.ASP": "2:4 sparsity is a feature of NVIDIA's tensor cores",
            "contrib.nccl_allocator": "memory of NCCL's, which XLA does not use",
            "contrib.gpu_direct_storage": "GPUDirect storage has no counterpart",
            "contrib.optimizers": ("torch.optim", "sharded and fused optimizers of CUDA's"),
            "pyprof": "NVIDIA's profiler; XLA's is `torch_xla.debug.profiler`",
            "parallel.create_syncbn_process_group": "XLA has no synchronised batch norm of apex's",
            "parallel.LARC": ("timm.optim.Lars(...)", "written for apex's amp"),
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
            "apex": "NVIDIA's extension of torch: CUDA only",
            "amp_C": _APEX_KERNEL,
            "apex_C": _APEX_KERNEL,
        },
        torch="any",
        evidence="docs",
    ),
)

QUANTISED = "quantised by CUDA kernels: train in bfloat16 (`torch_dtype=torch.bfloat16`)"

BITSANDBYTES: tuple[Row, ...] = (
    *rows(
        "bitsandbytes.optim",
        REWRITTEN,
        ARGUMENTS,
        RAISES,
        {
            f"{kind}{bits}": (
                f"torch.optim.{kind.removeprefix('Paged')}(...)",
                "states of 32 bits take more memory",
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
            ("timm.optim.Lion(...)", "states of 32 bits take more memory"),
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
            "its states are quantised by CUDA kernels: no drop-in in torch.optim",
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
