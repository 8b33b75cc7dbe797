"""Half models and float32 master weights, for O2 and O3 (apex/amp/_initialize.py)."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._pytree import tree_map_only


def _cast(values: Any, dtype: torch.dtype) -> Any:
    return tree_map_only(
        torch.Tensor, lambda t: t.to(dtype) if t.is_floating_point() else t, values
    )


def cast_model(
    model: Any, dtype: torch.dtype, keep_batch_norm: bool, outputs: torch.dtype | None
) -> None:
    """Convert the model, and its inputs and outputs at every call."""
    for module in model.modules():
        norm = isinstance(module, torch.nn.modules.batchnorm._BatchNorm) and module.affine
        if not (norm and keep_batch_norm):
            _convert_own(module, dtype)
    if dtype == torch.float32:
        return
    forward = model.forward

    def cast_forward(*args: Any, **kwargs: Any) -> Any:
        out = forward(*_cast(args, dtype), **_cast(kwargs, dtype))
        return _cast(out, outputs or torch.float32)

    model.forward = cast_forward


def _convert_own(module: torch.nn.Module, dtype: torch.dtype) -> None:
    for p in module.parameters(recurse=False):
        if p.is_floating_point():
            p.data = p.data.to(dtype)
    for name, buffer in module.named_buffers(recurse=False):
        if buffer.is_floating_point():
            setattr(module, name, buffer.to(dtype))


class MasterWeights:
    """Float32 copies that the optimizer steps on instead of the half parameters."""

    def __init__(self, optimizer: Any) -> None:
        self.pairs: list[tuple[torch.Tensor, torch.Tensor]] = []
        for group in optimizer.param_groups:
            group["params"] = [self._master(p) for p in group["params"]]
        optimizer._amp_masters = self
        step, zero_grad = optimizer.step, optimizer.zero_grad

        def step_and_copy(closure: Any = None) -> Any:
            out = step() if closure is None else step(closure)
            with torch.no_grad():
                for half, master in self.pairs:
                    half.copy_(master)
            return out

        def zero_both(*args: Any, **kwargs: Any) -> None:
            zero_grad(*args, **kwargs)
            for half, _ in self.pairs:
                half.grad = None

        optimizer.step, optimizer.zero_grad = step_and_copy, zero_both

    def _master(self, p: torch.Tensor) -> torch.Tensor:
        if p.dtype != torch.float16:
            return p
        master = torch.nn.Parameter(p.detach().float())
        self.pairs.append((p, master))
        return master

    def take_gradients(self) -> None:
        """Move the half gradients of the last backward to the master weights."""
        for half, master in self.pairs:
            if half.grad is not None:
                master.grad = half.grad.float()
                half.grad = None
