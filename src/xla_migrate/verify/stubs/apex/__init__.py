"""NVIDIA apex: mixed precision, fused optimizers, fused norms and parallel helpers, in plain torch."""

from . import amp, multi_tensor_apply, normalization, optimizers, parallel

__all__ = ["amp", "multi_tensor_apply", "normalization", "optimizers", "parallel"]
