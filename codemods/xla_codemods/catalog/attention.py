"""flash_attn, xformers and their like."""

from __future__ import annotations

from .row import ABSENT, ARGUMENTS, NONE, RAISES, REWRITTEN, Row, rows

SDPA = "torch.nn.functional.scaled_dot_product_attention"
_FLASH = "flash_attn takes (batch, sequence, heads, features), and PyTorch's function takes (batch, heads, sequence, features)"
_VARLEN = "packed sequences have a new shape in each batch, and XLA compiles for each: pad the sequences and pass a mask"

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
            "flash_attn_with_kvcache": (
                SDPA,
                "PyTorch's function has no cache: concatenate the keys and values of earlier steps",
            ),
            "flash_attn_interface": (SDPA, _FLASH),
            "bert_padding": _VARLEN,
            "layers": "the modules call CUDA kernels: use PyTorch's modules",
            "layers.rotary.apply_rotary_emb": "it is a CUDA kernel: write the rotation with PyTorch's operations",
            "losses.cross_entropy.CrossEntropyLoss": (
                "torch.nn.CrossEntropyLoss",
                "it is a CUDA kernel: write it with PyTorch's operations",
            ),
            "modules": "the modules call CUDA kernels: use PyTorch's modules",
            "ops": "these are CUDA kernels: use PyTorch's operations, which XLA fuses",
            "ops.rms_norm": (
                "torch.nn.RMSNorm",
                "it is a CUDA kernel: write it with PyTorch's operations",
            ),
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
            "ops": "these are CUDA kernels: use PyTorch's operations",
            "ops.memory_efficient_attention": (
                SDPA,
                "xformers takes (batch, sequence, heads, features), and PyTorch's function takes "
                "(batch, heads, sequence, features)",
            ),
            "ops.LowerTriangularMask": ("is_causal=True", ""),
            "ops.fmha": (SDPA, "these are CUDA kernels: write them with PyTorch's operations"),
            "ops.SwiGLU": (
                "torch.nn.functional.silu(a) * b",
                "it is a CUDA kernel: write it with PyTorch's operations",
            ),
            "components": "the modules call CUDA kernels: use PyTorch's modules",
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
            "flash_attn": (
                "torch.nn.functional.scaled_dot_product_attention",
                "these are CUDA kernels: write them with PyTorch's operations",
            ),
            "flash_attn_interface": (
                SDPA,
                "these are CUDA kernels: write them with PyTorch's operations",
            ),
            "flash_attn_2_cuda": (
                SDPA,
                "these are CUDA kernels: write them with PyTorch's operations",
            ),
            "xformers": (SDPA, "these are CUDA kernels: write them with PyTorch's operations"),
            "sageattention": (SDPA, "these are CUDA kernels: write them with PyTorch's operations"),
            "flashinfer": (SDPA, "these are CUDA kernels: write them with PyTorch's operations"),
            "sgl_kernel": "these are CUDA kernels: write them with PyTorch's operations",
            "mamba_ssm": "these are CUDA kernels: use the same models from transformers",
            "causal_conv1d": (
                "torch.nn.functional.conv1d",
                "it is a CUDA kernel: write it with PyTorch's operations",
            ),
            "liger_kernel": "these are Triton kernels: use the modules of transformers",
            "fla": "these are Triton kernels: write them with PyTorch's operations",
            "grouped_gemm": "it is a CUDA kernel: write it with PyTorch's operations",
            "warp_rnnt": "it is a CUDA kernel: write the transducer loss with PyTorch's operations",
            "warpctc_pytorch": (
                "torch.nn.functional.ctc_loss",
                "it has kernels for CUDA and the CPU only",
            ),
            "warprnnt_pytorch": "it has kernels for CUDA and the CPU only: write the transducer loss with PyTorch's operations",
            "kernels.get_kernel": "it loads CUDA kernels from a hub: write them with PyTorch's operations",
            "unsloth": "it needs Triton kernels: use transformers and peft",
        },
        rule="XLA904",
        torch="any",
        evidence="docs",
    ),
)

ROWS: tuple[Row, ...] = ATTENTION
