"""What a mask selects, without reading the mask from the device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


def assign(tensor: torch.Tensor, mask: torch.Tensor, value: Any) -> None:
    """``tensor[mask] = value``, and ``tensor[mask] = value[mask]``, without reading the mask.

    torch_xla reads the mask from the device to learn how many elements it selects, and compiles
    again for each number. This computes all elements, and keeps those outside of
    the mask.

    Args:
        tensor: What is written to, in place.
        mask: Booleans of the shape of ``tensor``, or of its first dimensions. Any other index
            writes as in torch.
        value: A number, a tensor with one element, or a tensor from which the elements under the
            mask are taken.

    Example:
        >>> distances = torch.tensor([4.0, 1.0, 3.0], device=device)
        >>> xla.assign(distances, distances > 2, 0)
        >>> distances.tolist()
        [0.0, 1.0, 0.0]
    """
    is_selected = isinstance(value, torch.Tensor) and value.numel() != 1
    if not isinstance(tensor, torch.Tensor) or not is_mask(mask):
        tensor[mask] = value[mask] if is_selected else value
        return
    mask = over_rows(mask.to(tensor.device, torch.bool), tensor)
    if isinstance(value, torch.Tensor):
        value = value.to(tensor.device)
        value = value if is_selected else value.reshape(())
    tensor.copy_(torch.where(mask, value, tensor))


def masked_sum(
    tensor: torch.Tensor, mask: torch.Tensor, *, broadcast: bool = False
) -> torch.Tensor:
    """``tensor[mask].sum()`` without reading the mask.

    torch_xla reads the mask from the device to learn how many elements it selects, and compiles
    again for each number. This adds all elements, with 0 for those outside of the mask. Tensors on
    the CPU and on CUDA are selected as in torch.

    Args:
        tensor: Of any type and shape.
        mask: Booleans of the shape of ``tensor``, or of its first dimensions. Any other index
            selects as in torch.
        broadcast: Whether both are broadcast: ``tensor.masked_select(mask).sum()``.

    Returns:
        The sum, without dimensions.

    Example:
        >>> losses = torch.tensor([4.0, 1.0, 3.0], device=device)
        >>> xla.masked_sum(losses, losses > 2).item()
        7.0
    """
    found = _under_mask(tensor, mask, broadcast)
    if found is None:
        return _selected(tensor, mask, broadcast).sum()
    values, mask = found
    return torch.where(mask, values, 0).sum()


def masked_mean(
    tensor: torch.Tensor, mask: torch.Tensor, *, broadcast: bool = False
) -> torch.Tensor:
    """``tensor[mask].mean()`` without reading the mask: see `masked_sum`.

    Args:
        tensor: Numbers of a floating-point type, of any shape.
        mask: Booleans of the shape of ``tensor``, or of its first dimensions.
        broadcast: Whether both are broadcast: ``tensor.masked_select(mask).mean()``.

    Returns:
        The mean, without dimensions; NaN if the mask selects nothing.

    Example:
        >>> losses = torch.tensor([4.0, 1.0, 3.0], device=device)
        >>> xla.masked_mean(losses, losses > 2).item()
        3.5
    """
    found = _under_mask(tensor, mask, broadcast)
    if found is None or not found[0].is_floating_point():
        return _selected(tensor, mask, broadcast).mean()
    values, mask = found
    wide = torch.promote_types(values.dtype, torch.float32)  # a sum in half precision may overflow
    total = torch.where(mask, values, 0).sum(dtype=wide)
    return (total / mask.expand_as(values).sum()).to(values.dtype)


def masked_count(
    comparison: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
    one: torch.Tensor,
    other: torch.Tensor,
    *,
    mask: torch.Tensor,
    broadcast: bool = False,
) -> torch.Tensor:
    """``comparison(one[mask], other[mask]).sum()`` without reading the mask: see `masked_sum`.

    Args:
        comparison: ``torch.eq``, or another function that compares element by element.
        one: Of any type and shape.
        other: What ``one`` is compared with. If it has another number of dimensions, the mask is
            read, as in torch.
        mask: Booleans of the shape of ``one``, or of its first dimensions.
        broadcast: Whether ``masked_select`` selects.

    Returns:
        The number of elements for which the comparison is true.

    Example:
        >>> found = torch.tensor([4, 1, 3], device=device)
        >>> labels = torch.tensor([4, 1, -100], device=device)
        >>> xla.masked_count(torch.eq, found, labels, mask=labels != -100).item()
        2
    """
    if not _fit(one, other, mask, broadcast):
        one, other = (_selected(each, mask, broadcast) for each in (one, other))
        return comparison(one, other).sum()
    return masked_sum(comparison(one, other), mask, broadcast=broadcast)


def masked_share(
    comparison: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
    one: torch.Tensor,
    other: torch.Tensor,
    *,
    mask: torch.Tensor,
    broadcast: bool = False,
) -> torch.Tensor:
    """``comparison(one[mask], other[mask]).float().mean()`` without reading the mask: see `masked_count`.

    Args:
        comparison: As for `masked_count`.
        one: As for `masked_count`.
        other: As for `masked_count`.
        mask: As for `masked_count`.
        broadcast: As for `masked_count`.

    Returns:
        The share of elements under the mask for which the comparison is true; NaN if there are none.

    Example:
        >>> found = torch.tensor([4, 2, 3], device=device)
        >>> labels = torch.tensor([4, 1, -100], device=device)
        >>> xla.masked_share(torch.eq, found, labels, mask=labels != -100).item()
        0.5
    """
    if not _fit(one, other, mask, broadcast):
        one, other = (_selected(each, mask, broadcast) for each in (one, other))
        return comparison(one, other).float().mean()
    return masked_mean(comparison(one, other).float(), mask, broadcast=broadcast)


def _fit(one: torch.Tensor, other: torch.Tensor, mask: torch.Tensor, broadcast: bool) -> bool:
    """Return True if two tensors compare as a whole as the elements under the mask do."""
    if _under_mask(one, mask, broadcast) is None or _under_mask(other, mask, broadcast) is None:
        return False
    return one.shape == other.shape if broadcast else one.dim() == other.dim()


def _selected(tensor: torch.Tensor, mask: torch.Tensor, broadcast: bool) -> torch.Tensor:
    return tensor.masked_select(mask) if broadcast else tensor[mask]


def _under_mask(
    tensor: torch.Tensor, mask: torch.Tensor, broadcast: bool
) -> tuple[torch.Tensor, torch.Tensor] | None:
    """Return both with shapes that fit; None if torch must select, or refuse."""
    if not isinstance(tensor, torch.Tensor) or tensor.device.type in ("cpu", "cuda"):
        return None
    if not is_mask(mask):
        return None
    mask = mask.to(tensor.device, torch.bool)
    if broadcast:
        tensor, mask = torch.broadcast_tensors(tensor, mask)  # type: ignore[no-untyped-call]
        return tensor, mask
    if mask.shape != tensor.shape[: mask.dim()]:
        return None
    return tensor, over_rows(mask, tensor)


def is_mask(index: object) -> bool:
    """Return True if `index` selects by truth values."""
    return isinstance(index, torch.Tensor) and index.dtype in (torch.bool, torch.uint8)


def over_rows(mask: torch.Tensor, tensor: torch.Tensor) -> torch.Tensor:
    """Return a mask of the first dimensions of `tensor` with all of its dimensions."""
    return mask.reshape(mask.shape + (1,) * (tensor.dim() - mask.dim()))
