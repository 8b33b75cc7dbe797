"""Several tensors in one piece, so that one message carries them."""

from __future__ import annotations

from collections.abc import Sequence

import torch


class Flat:
    """Tensors of one type and device in one piece."""

    def __init__(self, tensors: list[torch.Tensor]) -> None:
        self._tensors = tensors
        self.values = torch.cat([tensor.reshape(-1) for tensor in tensors])

    def give_back(self, scale: float) -> None:
        """Put the piece's content, scaled, into the tensors."""
        if scale != 1:
            self.values *= scale
        sizes = [tensor.numel() for tensor in self._tensors]
        for tensor, part in zip(self._tensors, self.values.split(sizes), strict=True):  # type: ignore[no-untyped-call]
            tensor.copy_(part.view_as(tensor))


def flattened(tensors: Sequence[torch.Tensor]) -> list[Flat]:
    """The tensors, in as few pieces as their types and devices allow."""
    by_type: dict[tuple[torch.dtype, torch.device], list[torch.Tensor]] = {}
    for tensor in tensors:
        by_type.setdefault((tensor.dtype, tensor.device), []).append(tensor)
    return [Flat(same) for same in by_type.values()]
