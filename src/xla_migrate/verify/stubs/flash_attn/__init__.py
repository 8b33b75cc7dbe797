"""flash_attn: exact attention by torch's scaled_dot_product_attention.

Layout (batch, sequence, heads, head size); fewer key heads are repeated (GQA); a causal mask is
aligned at the bottom right where the lengths differ, a window is (left, right) with -1 for none.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import torch
from torch.nn import functional

__version__ = "2.8.3"
__all__ = [
    "flash_attn_func",
    "flash_attn_kvpacked_func",
    "flash_attn_qkvpacked_func",
    "flash_attn_varlen_func",
    "flash_attn_varlen_kvpacked_func",
    "flash_attn_varlen_qkvpacked_func",
]


def _allowed(n_q: int, n_k: int, causal: bool, window: tuple[int, int], device: Any) -> Any:
    left, right = window
    if causal:
        right = 0
    if left < 0 and right < 0:
        return None
    offset = torch.arange(n_k, device=device) - (
        torch.arange(n_q, device=device)[:, None] + n_k - n_q
    )
    allowed = torch.ones(n_q, n_k, dtype=torch.bool, device=device)
    if right >= 0:
        allowed &= offset <= right
    if left >= 0:
        allowed &= offset >= -left
    return allowed


def _bias(slopes: torch.Tensor, n_q: int, n_k: int) -> torch.Tensor:
    distance = (
        torch.arange(n_k, device=slopes.device)
        - (torch.arange(n_q, device=slopes.device)[:, None] + n_k - n_q)
    ).abs()
    return -slopes.float().reshape(-1, slopes.shape[-1], 1, 1) * distance


def flash_attn_func(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: torch.Tensor | None = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
    **ignored: Any,
) -> torch.Tensor:
    """softmax(q k' * scale) v over (batch, sequence, heads, size)."""
    if return_attn_probs:
        raise NotImplementedError("flash_attn's return_attn_probs is for its own tests only")
    q, k, v = (t.transpose(1, 2) for t in (q, k, v))
    if k.shape[1] != q.shape[1]:
        k, v = (t.repeat_interleave(q.shape[1] // t.shape[1], 1) for t in (k, v))
    scale = softmax_scale if softmax_scale is not None else 1.0 / math.sqrt(q.shape[-1])
    mask = _allowed(q.shape[2], k.shape[2], causal, window_size, q.device)
    if alibi_slopes is not None:
        bias = _bias(alibi_slopes, q.shape[2], k.shape[2])
        mask = bias if mask is None else bias.masked_fill(~mask, float("-inf"))
        mask = mask.to(q.dtype)
    if softcap > 0:
        out = _capped(q, k, v, mask, scale, softcap, dropout_p)
    else:
        out = functional.scaled_dot_product_attention(q, k, v, mask, dropout_p, scale=scale)
    return out.transpose(1, 2)


def _capped(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    mask: torch.Tensor | None,
    scale: float,
    softcap: float,
    dropout_p: float,
) -> torch.Tensor:
    scores = softcap * torch.tanh((q @ k.transpose(-1, -2)).float() * scale / softcap)
    if mask is not None:
        scores = (
            scores.masked_fill(~mask, float("-inf")) if mask.dtype == torch.bool else scores + mask
        )
    return functional.dropout(scores.softmax(-1), dropout_p).to(v.dtype) @ v


def flash_attn_kvpacked_func(
    q: torch.Tensor, kv: torch.Tensor, *args: Any, **kwargs: Any
) -> torch.Tensor:
    """kv: (batch, sequence, 2, heads, size)."""
    return flash_attn_func(q, kv[:, :, 0], kv[:, :, 1], *args, **kwargs)


def flash_attn_qkvpacked_func(qkv: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
    """qkv: (batch, sequence, 3, heads, size)."""
    return flash_attn_func(qkv[:, :, 0], qkv[:, :, 1], qkv[:, :, 2], *args, **kwargs)


def flash_attn_varlen_func(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    cu_seqlens_k: torch.Tensor,
    max_seqlen_q: int,
    max_seqlen_k: int,
    *args: Any,
    **kwargs: Any,
) -> torch.Tensor:
    """Sequences laid end to end: (total, heads, size), cut at cu_seqlens."""
    bounds = list(zip(cu_seqlens_q.tolist(), cu_seqlens_k.tolist(), strict=True))
    parts = [
        flash_attn_func(q[a_q:b_q][None], k[a_k:b_k][None], v[a_k:b_k][None], *args, **kwargs)[0]
        for (a_q, a_k), (b_q, b_k) in pairwise(bounds)
    ]
    return torch.cat(parts)


def flash_attn_varlen_kvpacked_func(
    q: torch.Tensor,
    kv: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    cu_seqlens_k: torch.Tensor,
    max_seqlen_q: int,
    max_seqlen_k: int,
    *args: Any,
    **kwargs: Any,
) -> torch.Tensor:
    """kv: (total, 2, heads, size)."""
    return flash_attn_varlen_func(
        q,
        kv[:, 0],
        kv[:, 1],
        cu_seqlens_q,
        cu_seqlens_k,
        max_seqlen_q,
        max_seqlen_k,
        *args,
        **kwargs,
    )


def flash_attn_varlen_qkvpacked_func(
    qkv: torch.Tensor, cu_seqlens: torch.Tensor, max_seqlen: int, *args: Any, **kwargs: Any
) -> torch.Tensor:
    """qkv: (total, 3, heads, size)."""
    return flash_attn_varlen_func(
        qkv[:, 0],
        qkv[:, 1],
        qkv[:, 2],
        cu_seqlens,
        cu_seqlens,
        max_seqlen,
        max_seqlen,
        *args,
        **kwargs,
    )
