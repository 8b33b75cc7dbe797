"""apex.amp: opt levels O0 to O3, dynamic loss scaling, master weights (apex/amp/frontend.py).

O0 is float32; O1 casts around operations (here: CUDA's autocast to float16, on for good, as apex's
patched functions are); O2 is a half model with float32 batch norms and master weights; O3 is half.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.amp.autocast_mode import custom_fwd

from .master import MasterWeights, cast_model
from .scaling import LossScaler, scaled_backward

__all__ = [
    "disable_casts",
    "float_function",
    "half_function",
    "initialize",
    "load_state_dict",
    "master_params",
    "promote_function",
    "register_float_function",
    "register_half_function",
    "register_promote_function",
    "scale_loss",
    "state_dict",
]

_LEVELS: dict[str, dict[str, Any]] = {
    "O0": {"cast": torch.float32, "casts_around": False, "master": False, "scale": 1.0},
    "O1": {"cast": None, "casts_around": True, "master": False, "scale": "dynamic"},
    "O2": {"cast": torch.float16, "casts_around": False, "master": True, "scale": "dynamic"},
    "O3": {"cast": torch.float16, "casts_around": False, "master": False, "scale": 1.0},
}
_KEEP_BATCH_NORM = {"O0": None, "O1": None, "O2": True, "O3": False}
_scalers: list[LossScaler] = []


def initialize(
    models: Any,
    optimizers: Any = None,
    enabled: bool = True,
    opt_level: str = "O1",
    cast_model_type: torch.dtype | None = None,
    patch_torch_functions: bool | None = None,
    keep_batchnorm_fp32: Any = None,
    master_weights: bool | None = None,
    loss_scale: Any = None,
    cast_model_outputs: torch.dtype | None = None,
    num_losses: int = 1,
    verbosity: int = 1,
    min_loss_scale: float | None = None,
    max_loss_scale: float = 2.0**24,
) -> Any:
    """Prepare models and optimizers; returns them in the shape they came in."""
    if opt_level not in _LEVELS:
        raise RuntimeError(f"Unexpected optimization level {opt_level}: O0, O1, O2 or O3")
    chosen = dict(_LEVELS[opt_level])
    asked = {
        "cast": cast_model_type,
        "casts_around": patch_torch_functions,
        "master": master_weights,
        "scale": loss_scale,
    }
    chosen.update({name: value for name, value in asked.items() if value is not None})
    keep = _KEEP_BATCH_NORM[opt_level] if keep_batchnorm_fp32 is None else keep_batchnorm_fp32
    _scalers[:] = [LossScaler(chosen["scale"] if enabled else 1.0) for _ in range(num_losses)]
    if enabled:
        _prepare(
            _listed(models), _listed(optimizers), chosen, str(keep) == "True", cast_model_outputs
        )
    return models if optimizers is None else (models, optimizers)


def _prepare(
    models: list[Any],
    optimizers: list[Any],
    chosen: dict[str, Any],
    keep_batch_norm: bool,
    outputs: torch.dtype | None,
) -> None:
    if chosen["cast"] is not None:
        for model in models:
            cast_model(model, chosen["cast"], keep_batch_norm, outputs)
    if chosen["master"]:
        for optimizer in optimizers:
            MasterWeights(optimizer)
    if chosen["casts_around"]:
        # Without autocast's cache: it would keep weights cast under an evaluation's no_grad.
        torch.autocast("cuda", torch.float16, cache_enabled=False).__enter__()  # type: ignore[no-untyped-call]


def _listed(one_or_more: Any) -> list[Any]:
    if one_or_more is None:
        return []
    return list(one_or_more) if isinstance(one_or_more, (list, tuple)) else [one_or_more]


@contextlib.contextmanager
def scale_loss(
    loss: torch.Tensor,
    optimizers: Any,
    loss_id: int = 0,
    model: Any = None,
    delay_unscale: bool = False,
    delay_overflow_check: bool = False,
) -> Iterator[torch.Tensor]:
    """Yield the loss to call backward on, times the loss scale."""
    if not _scalers:
        raise RuntimeError("amp.scale_loss before amp.initialize")
    with scaled_backward(_scalers[loss_id], loss, _listed(optimizers), delay_unscale) as scaled:
        yield scaled


def master_params(optimizer: torch.optim.Optimizer) -> Iterator[torch.Tensor]:
    """The parameters that the optimizer steps on."""
    for group in optimizer.param_groups:
        yield from group["params"]


def state_dict(destination: Any = None) -> dict[str, Any]:
    """The loss scalers' states, under apex's names."""
    return {
        f"loss_scaler{i}": {"loss_scale": s.scale, "unskipped": s.unskipped}
        for i, s in enumerate(_scalers)
    }


def load_state_dict(state: dict[str, Any]) -> None:
    """Restore the loss scalers."""
    for scaler, saved in zip(_scalers, state.values(), strict=False):
        scaler.restore(saved["loss_scale"], saved["unskipped"])


@contextlib.contextmanager
def disable_casts() -> Iterator[None]:
    """Run without the casts of O1."""
    with torch.autocast("cuda", enabled=False):
        yield


def _decorator(dtype: torch.dtype | None) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def decorate(fn: Callable[..., Any]) -> Callable[..., Any]:
        return custom_fwd(fn, device_type="cuda", cast_inputs=dtype)  # type: ignore[no-any-return]

    return decorate


half_function = _decorator(torch.float16)
float_function = _decorator(torch.float32)
promote_function = _decorator(None)


def register_half_function(module: Any, name: str) -> None:
    """Run `module.name` in half under O1."""
    setattr(module, name, half_function(getattr(module, name)))


def register_float_function(module: Any, name: str) -> None:
    """Run `module.name` in float32 under O1."""
    setattr(module, name, float_function(getattr(module, name)))


def register_promote_function(module: Any, name: str) -> None:
    """Mixed arguments of `module.name` promote by themselves."""
