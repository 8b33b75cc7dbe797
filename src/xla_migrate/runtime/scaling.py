"""What remains of loss scaling, which bfloat16 does without."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .step import optimizer_step, reduce_gradients


class NativeScaler:
    """timm's ``NativeScaler`` and ``ApexScaler``: backward, clipping and the step, and no scaling.

    Gradients are averaged over the replicas before they are clipped (xla-facts 1.74, 3.8).
    """

    state_dict_key = "amp_scaler"

    def __init__(self, device: Any = None) -> None:
        """``device`` is accepted as timm accepts it."""

    def __call__(
        self,
        loss: Any,
        optimizer: Any,
        clip_grad: float | None = None,
        clip_mode: str = "norm",
        parameters: Any = None,
        create_graph: bool = False,
        need_update: bool = True,
    ) -> None:
        loss.backward(create_graph=create_graph)
        if not need_update:
            return
        if clip_grad is not None:
            from timm.utils.clip_grad import dispatch_clip_grad

            reduce_gradients(optimizer)
            if parameters is None:
                parameters = [p for group in optimizer.param_groups for p in group["params"]]
            dispatch_clip_grad(parameters, clip_grad, mode=clip_mode)
        optimizer_step(optimizer)

    def state_dict(self) -> dict[str, Any]:
        """Nothing: there is no scale."""
        return {}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """The scale of an old checkpoint is of no use here."""
