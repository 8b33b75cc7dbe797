"""Losses of what a mask selects, without reading the mask from the device."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.nn import functional

from .masks import is_mask, masked_mean, masked_sum, over_rows

_BY_ELEMENT: frozenset[object] = frozenset(
    {
        functional.binary_cross_entropy,
        functional.binary_cross_entropy_with_logits,
        functional.huber_loss,
        functional.l1_loss,
        functional.mse_loss,
        functional.smooth_l1_loss,
        nn.BCELoss,
        nn.BCEWithLogitsLoss,
        nn.HuberLoss,
        nn.L1Loss,
        nn.MSELoss,
        nn.SmoothL1Loss,
    }
)
_BY_CLASS: frozenset[object] = frozenset(
    {functional.cross_entropy, functional.nll_loss, nn.CrossEntropyLoss, nn.NLLLoss}
)
_REDUCTIONS = {"mean": masked_mean, "sum": masked_sum}


def masked_loss(
    loss: Callable[..., torch.Tensor],
    output: torch.Tensor,
    target: torch.Tensor,
    *,
    mask: torch.Tensor,
    **options: Any,
) -> torch.Tensor:
    """``loss(output[mask], target[mask], **options)`` without reading the mask.

    torch_xla reads the mask from the device to learn how many elements it selects, and compiles
    again for each number. This computes the losses of all elements, and leaves out those outside of
    the mask. Tensors on the CPU and on CUDA are selected as in torch. So are the operands of other
    losses than those of ``torch.nn.functional`` and ``torch.nn`` that average or add one value for
    each element (absolute and squared errors, Huber and binary cross-entropy) or for each class
    index (``cross_entropy`` and ``nll_loss``).

    Args:
        loss: A function of ``torch.nn.functional``, or a module of ``torch.nn``.
        output: What the model computes.
        target: What it should compute.
        mask: Booleans of the shape of ``target``, or of its first dimensions.
        options: Passed to ``loss``.

    Returns:
        The loss, without dimensions; NaN if it is a mean and the mask selects nothing.

    Example:
        >>> output = torch.tensor([4.0, 1.0, 3.0], device=device)
        >>> target = torch.tensor([2.0, 9.0, 3.0], device=device)
        >>> loss = torch.nn.functional.mse_loss
        >>> xla.masked_loss(loss, output, target, mask=target < 9).item()
        2.0
    """
    rows = _rows(output, target, mask)
    reduction = options.get("reduction", getattr(loss, "reduction", "mean"))
    if rows is None or reduction not in _REDUCTIONS:
        return loss(output[mask], target[mask], **options)
    kind: object = type(loss) if isinstance(loss, nn.Module) else loss
    if kind in _BY_CLASS and not target.is_floating_point():
        ignored = options.get("ignore_index", getattr(loss, "ignore_index", -100))
        return loss(
            _filled(rows.output, rows.mask, 0), _filled(rows.target, rows.mask, ignored), **options
        )
    if kind not in _BY_ELEMENT | _BY_CLASS or _has_rows_of_its_own(loss, options, rows):
        return loss(output[mask], target[mask], **options)
    if isinstance(loss, nn.Module):
        unreduced: Any = copy.copy(loss)
        unreduced.reduction = "none"
        loss = unreduced
    else:
        options = {**options, "reduction": "none"}
    losses = loss(_filled(rows.output, rows.mask, 0), _filled(rows.target, rows.mask, 0), **options)
    return _REDUCTIONS[reduction](losses, rows.mask)


class _Rows(NamedTuple):
    """The operands of a loss and their mask, which has one dimension, the first of the operands."""

    output: torch.Tensor
    target: torch.Tensor
    mask: torch.Tensor


def _filled(tensor: torch.Tensor, mask: torch.Tensor, value: float) -> torch.Tensor:
    """Return `tensor` with `value` outside of the mask: a NaN there must not reach a gradient."""
    return torch.where(over_rows(mask, tensor), tensor, value)


def _rows(output: torch.Tensor, target: torch.Tensor, mask: torch.Tensor) -> _Rows | None:
    """Return the operands with the dimensions of the mask flattened; None if torch must select, or refuse."""
    if not all(isinstance(each, torch.Tensor) for each in (output, target)) or not is_mask(mask):
        return None
    if output.device.type in ("cpu", "cuda") or target.device != output.device or not mask.dim():
        return None
    if any(each.shape[: mask.dim()] != mask.shape for each in (output, target)):
        return None
    last = mask.dim() - 1
    mask = mask.to(output.device, torch.bool).flatten()
    return _Rows(output.flatten(0, last), target.flatten(0, last), mask)


def _has_rows_of_its_own(loss: object, options: dict[str, Any], rows: _Rows) -> bool:
    """Return True if the operands are broadcast, or if a weight has one row for each selected row."""
    weight = options.get("weight", getattr(loss, "weight", None))
    is_by_row = isinstance(weight, torch.Tensor) and weight.dim() >= rows.output.dim()
    return is_by_row or rows.output.shape != rows.target.shape
