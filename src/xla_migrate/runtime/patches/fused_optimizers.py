"""Optimizers of torch.optim ignore ``fused=True`` for XLA parameters.

The fault: ``fused=True`` raises at the first step (fact 3.26). The migration changes it where a script writes it out.
It cannot change the settings in ``AdamW(parameters, **config["optimizer"])``, whose file is right for CUDA. XLA fuses the
whole step in any case.

To see it: ``torch.optim.AdamW(parameters, fused=True).step()`` with XLA parameters.
It can go when this fails: test_fact_3_26_fused_optimizers_raise_without_the_patch.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from ._versions import Versions

VERSIONS = Versions("torch", "2.4")


def apply() -> None:
    """Clear ``fused`` of groups with XLA parameters, before they are stepped."""
    for kind in vars(torch.optim).values():
        create = vars(kind).get("_init_group") if isinstance(kind, type) else None
        if create is not None:
            kind._init_group = _without_fused(create)


def _without_fused(create: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(create)
    def init_group(self: Any, group: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        if group.get("fused") and any(p.device.type == "xla" for p in group["params"]):
            group["fused"] = False
            self._step_supports_amp_scaling = False  # of the fused kernels
        return create(self, group, *args, **kwargs)

    return init_group
