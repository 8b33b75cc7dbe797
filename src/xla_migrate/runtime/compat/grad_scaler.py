"""The loss scaler of a CUDA script, where losses need no scaling."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch.amp.grad_scaler import GradScaler as TorchScaler

# CUDA's own name, which torch gives up one day, is a subclass of the other: scripts ask `isinstance` of either.
_Base: Any = getattr(torch.cuda.amp, "GradScaler", TorchScaler)


class GradScaler(_Base):  # type: ignore[misc]
    """``torch.amp.GradScaler`` that scales nothing, and keeps its entry in checkpoints.

    Autocast computes in bfloat16, which has float32's range. The state that a CUDA script saved is kept and
    saved again, so that checkpoints are resumed by the migrated script and by the CUDA script it was.

    Args:
        device: Accepted as torch accepts it, and without effect.
        init_scale: What a new scaler's state says; as for torch, so are the next three.
        growth_factor: As for torch.
        backoff_factor: As for torch.
        growth_interval: As for torch.
        enabled: False means that the script trains without mixed precision: the state is empty, as torch's is.

    Example:
        >>> scaler = xla.GradScaler()
        >>> scaler.scale(3), scaler.get_scale(), scaler.state_dict()["scale"]
        (3, 1.0, 65536.0)
    """

    def __init__(
        self,
        device: str = "cuda",
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        TorchScaler.__init__(self, "cpu", enabled=False)
        self._asked = enabled
        self._kept: dict[str, Any] = {
            "scale": float(init_scale),
            "growth_factor": growth_factor,
            "backoff_factor": backoff_factor,
            "growth_interval": growth_interval,
            "_growth_tracker": 0,
        }

    def is_enabled(self) -> bool:
        """True if the script trains in mixed precision, as under CUDA."""
        return self._asked

    def state_dict(self) -> dict[str, Any]:
        """Return the state that torch's scaler has in a checkpoint; empty if it is not enabled."""
        return dict(self._kept) if self._asked else {}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Keep a scaler's state for the next checkpoint."""
        self._kept.update(state_dict)
