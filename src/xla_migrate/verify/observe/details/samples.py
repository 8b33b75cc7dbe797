"""A tensor in a few numbers: norm, maximum, mean and values at fixed indices; a batch by its rows.

A norm does not see that a batch is permuted or that an attention head changes its sign: values at fixed
indices do. On XLA these are a few operations in the step's own graph.
"""

from __future__ import annotations

from typing import Any

import torch

from ..device.device_values import local, real_device

VALUES = 64  # at fixed indices, of each tensor
WIDTH = 3 + VALUES
ROWS = 64  # of a batch, at most
_COLUMNS = 1024  # of a row, at most

_randint = torch.randint  # the harness's own draws must not be the script's
_rand = torch.rand
_arange = torch.arange
_zeros = torch.zeros
_placed: dict[tuple[str, int, torch.device], torch.Tensor] = {}


def plain(tensor: torch.Tensor) -> torch.Tensor:
    """Return the tensor's elements, dense and real, without its gradient's history."""
    found = local(tensor.detach())
    if found.is_sparse:
        found = found.coalesce().values()
    return torch.view_as_real(found) if found.is_complex() else found


def summary(tensor: torch.Tensor) -> torch.Tensor:
    """Return norm, largest absolute value, mean, and the values at fixed indices: one vector in float32."""
    flat = plain(tensor).reshape(-1)
    if not flat.numel():
        return _zeros(WIDTH, device="cpu")
    wide = flat if flat.dtype == torch.float32 else flat.float()
    if real_device(wide).type == "xla":  # norm() there takes twice as long
        norm = (wide * wide).sum().sqrt()
    else:
        norm = torch.linalg.vector_norm(wide)
    largest = wide.abs().max()
    return torch.cat([torch.stack([norm, largest, wide.mean()]), values(wide)])


def values(tensor: torch.Tensor) -> torch.Tensor:
    """Return the elements at the fixed indices of a tensor of this size."""
    flat = plain(tensor).reshape(-1)
    return flat[_indices(flat.numel(), real_device(flat))]


def rows(tensor: torch.Tensor) -> torch.Tensor:
    """Return one number for each of the first rows, which tells the row's contents from others."""
    found = plain(tensor)
    count = found.shape[0] if found.dim() else 1
    if not found.numel():
        return _zeros(1, device="cpu")
    table = found.reshape(count, -1)[:ROWS]
    place = real_device(table)
    if table.shape[1] > _COLUMNS:
        table = table[:, _column_indices(table.shape[1], place)]
    wide = table.double() if place.type == "cpu" else table.float()
    return (wide * _weights(table.shape[1], place).to(wide.dtype)).sum(1)


def _indices(count: int, place: torch.device) -> torch.Tensor:
    if count <= VALUES:
        return _made("all", count, place, lambda: _arange(VALUES, device="cpu") % count)
    return _made("some", count, place, lambda: _drawn(count, VALUES))


def _column_indices(count: int, place: torch.device) -> torch.Tensor:
    return _made("columns", count, place, lambda: _drawn(count, _COLUMNS))


def _weights(count: int, place: torch.device) -> torch.Tensor:
    def make() -> torch.Tensor:
        return _rand(count, generator=_generator(count), device="cpu") + 0.5

    return _made("weights", count, place, make)


def _drawn(count: int, wanted: int) -> torch.Tensor:
    return _randint(count, (wanted,), generator=_generator(count), device="cpu")


def _generator(seed: int) -> Any:
    generator = torch._C.Generator()
    generator.manual_seed(seed)
    return generator


def _made(kind: str, count: int, place: torch.device, make: Any) -> torch.Tensor:
    key = (kind, count, place)
    if key not in _placed:
        _placed[key] = torch._C.TensorBase.to(make(), place)
    return _placed[key]


def tensors_in(value: Any, path: str = "", depth: int = 0) -> list[tuple[str, torch.Tensor]]:
    """Return (path, tensor) of each tensor in nested lists, tuples and mappings."""
    if isinstance(value, torch.Tensor):
        return [(path, value)]
    if depth > 4 or isinstance(value, (str, bytes)):
        return []
    if isinstance(value, (list, tuple)):
        items: Any = enumerate(value)
    elif hasattr(value, "keys") and hasattr(value, "__getitem__"):
        items = ((key, value[key]) for key in value.keys())  # noqa: SIM118  # a BatchEncoding
    else:
        return []
    return [
        found
        for name, part in items
        for found in tensors_in(part, f"{path}.{name}" if path else str(name), depth + 1)
    ]
