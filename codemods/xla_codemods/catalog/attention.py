"""flash_attn, xformers and their like."""

from __future__ import annotations

from .row import ABSENT, ARGUMENTS, NONE, RAISES, REWRITTEN, Row, rows

SDPA = "torch.nn.functional.scaled_dot_product_attention"
_FLASH = "a CUDA kernel; it takes (batch, sequence, heads, features), the function of torch (batch, heads, sequence, features)"
_VARLEN = "packs sequences of different lengths, a new shape and a new compilation each time: pad, and give a mask"

ATTENTION: tuple[Row, ...] = (
    *rows(
        "flash_attn",
        REWRITTEN,
        ARGUMENTS,
        RAISES,
        {
            "flash_attn_func": (SDPA, _FLASH),
            "flash_attn_qkvpacked_func": (SDPA, _FLASH),
            "flash_attn_kvpacked_func": (SDPA, _FLASH),
        },
        rule="XLA904",
        torch="any",
        evidence="docs",
    ),
    *rows(
        "flash_attn",
        ABSENT,
        NONE,
        RAISES,
        {
            "flash_attn_varlen_func": (SDPA, _VARLEN),
            "flash_attn_varlen_qkvpacked_func": (SDPA, _VARLEN),
            "flash_attn_varlen_kvpacked_func": (SDPA, _VARLEN),
            "flash_attn_with_kvcache": (SDPA, "decodes with a cache on CUDA"),
            "flash_attn_interface": (SDPA, _FLASH),
            "bert_padding": _VARLEN,
            "layers": "modules around CUDA kernels: use torch's own",
            "layers.rotary.apply_rotary_emb": "a CUDA kernel: rotate with torch's operations",
            "losses.cross_entropy.CrossEntropyLoss": ("torch.nn.CrossEntropyLoss", "a CUDA kernel"),
            "modules": "modules around CUDA kernels: use torch's own",
            "ops": "CUDA kernels: use torch's own operations, XLA fuses them",
            "ops.rms_norm": ("torch.nn.RMSNorm", "a CUDA kernel"),
        },
        rule="XLA904",
        torch="any",
        evidence="docs",
    ),
    *rows(
        "xformers",
        ABSENT,
        NONE,
        RAISES,
        {
            "ops": "CUDA kernels: use torch's own operations",
            "ops.memory_efficient_attention": (
                SDPA,
                "it takes (batch, sequence, heads, features)",
            ),
            "ops.LowerTriangularMask": ("is_causal=True", ""),
            "ops.fmha": (SDPA, "CUDA kernels"),
            "ops.SwiGLU": ("torch.nn.functional.silu(a) * b", "a CUDA kernel"),
            "components": "modules around CUDA kernels: use torch's own",
        },
        rule="XLA904",
        torch="any",
        evidence="docs",
    ),
    *rows(
        "",
        ABSENT,
        NONE,
        RAISES,
        {
            "flash_attn": ("torch.nn.functional.scaled_dot_product_attention", "CUDA kernels"),
            "flash_attn_interface": (SDPA, "CUDA kernels"),
            "flash_attn_2_cuda": (SDPA, "CUDA kernels"),
            "xformers": (SDPA, "CUDA kernels"),
            "sageattention": (SDPA, "CUDA kernels"),
            "flashinfer": (SDPA, "CUDA kernels"),
            "sgl_kernel": "CUDA kernels",
            "mamba_ssm": "CUDA kernels: transformers has the same models with torch's operations",
            "causal_conv1d": ("torch.nn.functional.conv1d", "a CUDA kernel"),
            "liger_kernel": "triton kernels: use transformers' own modules",
            "fla": "triton kernels",
            "grouped_gemm": "a CUDA kernel",
            "warp_rnnt": "a CUDA kernel: write the transducer loss with torch's operations",
            "warpctc_pytorch": ("torch.nn.functional.ctc_loss", "kernels for CUDA and the CPU"),
            "warprnnt_pytorch": "kernels for CUDA and the CPU: write the transducer loss with torch's operations",
            "kernels.get_kernel": "loads CUDA kernels from a hub",
            "unsloth": "triton kernels: use transformers and peft",
        },
        rule="XLA904",
        torch="any",
        evidence="docs",
    ),
)

ROWS: tuple[Row, ...] = ATTENTION
