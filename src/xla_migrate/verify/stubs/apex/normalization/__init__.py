"""apex.normalization: layer norm and RMS norm, and their "mixed" forms."""

from __future__ import annotations

import numbers
from typing import Any

import torch
from torch.nn import functional

__all__ = ["FusedLayerNorm", "FusedRMSNorm", "MixedFusedLayerNorm", "MixedFusedRMSNorm"]


class FusedLayerNorm(torch.nn.LayerNorm):
    """Layer norm; the statistics of half inputs are computed in float32."""

    def __init__(
        self,
        normalized_shape: Any,
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        memory_efficient: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(normalized_shape, eps=eps, elementwise_affine=elementwise_affine)

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Normalize; the result has the input's type."""
        weight = None if self.weight is None else self.weight.float()
        bias = None if self.bias is None else self.bias.float()
        out = functional.layer_norm(input.float(), self.normalized_shape, weight, bias, self.eps)
        return out.to(input.dtype)


class FusedRMSNorm(torch.nn.Module):
    """RMS norm; eps is inside the root, the default 1e-5 is apex's."""

    def __init__(
        self,
        normalized_shape: Any,
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        memory_efficient: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__()
        if isinstance(normalized_shape, numbers.Integral):
            normalized_shape = (normalized_shape,)
        self.normalized_shape = torch.Size(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        weight = torch.nn.Parameter(torch.empty(*self.normalized_shape))
        self.register_parameter("weight", weight if elementwise_affine else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Weights to one."""
        weight = self._parameters["weight"]
        if weight is not None:
            torch.nn.init.ones_(weight)

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Return x / sqrt(mean(x^2) + eps) * weight, in float32 inside."""
        dims = tuple(range(-len(self.normalized_shape), 0))
        x = input.float()
        x = x * torch.rsqrt(x.square().mean(dims, keepdim=True) + self.eps)
        weight = self._parameters["weight"]
        if weight is not None:
            x = x * weight.float()
        return x.to(input.dtype)


class MixedFusedLayerNorm(FusedLayerNorm):
    """Layer norm whose result has the weights' type."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Normalize."""
        weight = self._parameters["weight"]
        return super().forward(input).to(input.dtype if weight is None else weight.dtype)


class MixedFusedRMSNorm(FusedRMSNorm):
    """RMS norm whose result has the weights' type."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Normalize."""
        weight = self._parameters["weight"]
        return super().forward(input).to(input.dtype if weight is None else weight.dtype)
