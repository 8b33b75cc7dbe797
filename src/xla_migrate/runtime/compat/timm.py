"""Functions of timm that scripts call and that timm has for CUDA devices only. Imports timm when called."""

from __future__ import annotations

import copy
import importlib
import inspect
import os
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from ..devices import set_device, xla_device
from ..processes import init_process_group, local_rank, rank, world_size
from ..step import optimizer_step, reduce_unasked
from .grad_scaler import GradScaler


def init_distributed_device(args: Any) -> torch.device:
    """``timm.utils.init_distributed_device``: the process group, and the device of this process.

    timm takes the local rank for the device's index, and gloo for devices that it does not know.

    Args:
        args: Its ``device`` ("cpu" stays the CPU), ``dist_backend`` and ``dist_url`` are read;
            ``distributed``, ``world_size``, ``rank``, ``local_rank`` and ``device`` are set.

    Returns:
        The device of this process.

    Example:
        >>> device = xla.init_distributed_device(args)  # doctest: +SKIP
    """
    timms: Any = importlib.import_module("timm.utils.distributed")
    args.distributed = timms.is_distributed_env()
    if args.distributed:
        of_slurm = timms.world_info_from_env()[1:] if "SLURM_PROCID" in os.environ else (-1, -1)
        backend, url = getattr(args, "dist_backend", None), getattr(args, "dist_url", None)
        init_process_group(backend, url, rank=of_slurm[0], world_size=of_slurm[1])
    args.world_size, args.rank, args.local_rank = world_size(), rank(), local_rank()
    on_host = str(getattr(args, "device", "")) == "cpu"
    device = xla_device("cpu" if on_host else local_rank())
    if not on_host:
        set_device(device)
    args.device = str(device)
    return device


def ModelEmaV3(model: nn.Module, *args: Any, **kwargs: Any) -> Any:  # noqa: N802 - timm's
    """``timm.utils.ModelEmaV3``; on XLA, which has no random generators, it rounds with the host's.

    Args:
        model: On any device.
        args: As for timm.
        kwargs: As for timm.

    Returns:
        timm's own object: ``update(model)`` after each step; ``module`` holds the averages.

    Raises:
        ImportError: where timm is not installed.

    Example:
        >>> ema = xla.ModelEmaV3(model, decay=0.999)  # doctest: +SKIP
        >>> ema.update(model)  # doctest: +SKIP
    """
    from timm.utils import model_ema

    bound = inspect.signature(model_ema.ModelEmaV3).bind(model, *args, **kwargs)
    own = next(model.parameters()).device
    asked = bound.arguments.get("device")
    if own.type != "xla" or torch.device(asked or own).type != "xla":
        return model_ema.ModelEmaV3(*bound.args, **bound.kwargs)
    bound.arguments |= {"model": copy.deepcopy(model).to("cpu"), "device": None}
    averages: Any = model_ema.ModelEmaV3(*bound.args, **bound.kwargs)
    return averages.to(own)


class NativeScaler:
    """timm's ``NativeScaler`` and ``ApexScaler``: backward, clipping and the step, and no scaling.

    Gradients are averaged over the replicas before they are clipped (fact 1.74, 3.8).

    Args:
        device: Accepted as timm accepts it, and without effect.

    Example:
        >>> scaler = xla.NativeScaler()
        >>> scaler(model(x).sum(), optimizer, clip_grad=1.0, parameters=model.parameters())
    """

    state_dict_key = "amp_scaler"

    def __init__(self, device: Any = None) -> None:
        """``device`` is accepted as timm accepts it."""
        self._scaler = GradScaler()

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

            reduce_unasked(optimizer)
            if parameters is None:
                parameters = [p for group in optimizer.param_groups for p in group["params"]]
            dispatch_clip_grad(parameters, clip_grad, mode=clip_mode)
        optimizer_step(optimizer)

    def state_dict(self) -> dict[str, Any]:
        """Return the state of a CUDA script's scaler in a checkpoint."""
        return self._scaler.state_dict()

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Keep the scaler's state for the next checkpoint."""
        self._scaler.load_state_dict(state_dict)
