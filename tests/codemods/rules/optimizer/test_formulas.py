"""The optimizers that calls are rewritten to compute what apex, bitsandbytes and DeepSpeed do.

Each reference is one update of one tensor, written from the kernels' formulas (apex 6424da3 csrc/multi_tensor_*.cu,
bitsandbytes 95f9af3 csrc/kernels.cu, DeepSpeed 0.19.6 csrc/). The other side is the migrated call itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

from ...helpers import migrated

pytest.importorskip("timm")

State = dict[str, Any]
Update = Callable[[torch.Tensor, torch.Tensor, State, int], torch.Tensor]

HEAD = """\
import torch
from apex.optimizers import FusedAdam, FusedSGD, FusedLAMB, FusedAdagrad
import bitsandbytes as bnb
from deepspeed.ops.adam import DeepSpeedCPUAdam
from deepspeed.ops.lion import FusedLion
"""
STEPS = 12


def moments(g: torch.Tensor, s: State, b1: float, b2: float) -> tuple[torch.Tensor, torch.Tensor]:
    s["m"] = b1 * s.get("m", 0 * g) + (1 - b1) * g
    s["v"] = b2 * s.get("v", 0 * g) + (1 - b2) * g * g
    return s["m"], s["v"]


def adam_update(
    g: torch.Tensor, s: State, t: int, b1: float, b2: float, eps: float
) -> torch.Tensor:
    m, v = moments(g, s, b1, b2)
    return (m / (1 - b1**t)) / ((v / (1 - b2**t)).sqrt() + eps)


def apex_adam(lr: float, decay: float, b1: float = 0.9, decoupled: bool = True) -> Update:
    def update(p: torch.Tensor, g: torch.Tensor, s: State, t: int) -> torch.Tensor:
        g = g if decoupled else g + decay * p
        u = adam_update(g, s, t, b1, 0.999, 1e-8)
        return p - lr * (u + decay * p if decoupled else u)

    return update


def apex_sgd(lr: float, momentum: float, decay: float, nesterov: bool) -> Update:
    def update(p: torch.Tensor, g: torch.Tensor, s: State, t: int) -> torch.Tensor:
        g = g + decay * p
        s["m"] = g if t == 1 else momentum * s["m"] + g
        return p - lr * (g + momentum * s["m"] if nesterov else s["m"])

    return update


def apex_lamb(lr: float, decay: float = 0.01, nvlamb: bool = False) -> Update:
    """Gradients are clipped to a global norm of 1 before; see `train`."""

    def update(p: torch.Tensor, g: torch.Tensor, s: State, t: int) -> torch.Tensor:
        u = adam_update(g, s, t, 0.9, 0.999, 1e-6) + decay * p
        ratio = 1.0
        if (nvlamb or decay) and u.norm() != 0 and p.norm() != 0:
            ratio = (p.norm() / u.norm()).item()
        return p - lr * ratio * u

    return update


def adagrad(lr: float, decay: float, eps: float = 1e-10) -> Update:
    def update(p: torch.Tensor, g: torch.Tensor, s: State, t: int) -> torch.Tensor:
        g = g + decay * p
        s["h"] = s.get("h", 0 * g) + g * g
        return p - lr * g / (s["h"].sqrt() + eps)

    return update


def bnb_adam(lr: float, decay: float) -> Update:
    """ADAM in kOptimizer32bit2State: the step first, then `p *= 1 - lr * decay`, for Adam and AdamW alike."""

    def update(p: torch.Tensor, g: torch.Tensor, s: State, t: int) -> torch.Tensor:
        m, v = moments(g, s, 0.9, 0.999)
        correction = math.sqrt(1 - 0.999**t)
        size = lr * correction / (1 - 0.9**t)
        return (p - size * m / (v.sqrt() + 1e-8 * correction)) * (1 - lr * decay)

    return update


def bnb_momentum(lr: float, momentum: float, decay: float) -> Update:
    return apex_sgd(lr, momentum, decay, nesterov=False)


def bnb_rmsprop(lr: float, decay: float) -> Update:
    def update(p: torch.Tensor, g: torch.Tensor, s: State, t: int) -> torch.Tensor:
        g = g + decay * p
        s["v"] = 0.99 * s.get("v", 0 * g) + 0.01 * g * g
        return p - lr * g / (s["v"].sqrt() + 1e-8)

    return update


def lion(lr: float, b1: float, b2: float, decay: float) -> Update:
    def update(p: torch.Tensor, g: torch.Tensor, s: State, t: int) -> torch.Tensor:
        m = s.get("m", 0 * g)
        p = p * (1 - lr * decay) - lr * torch.sign(b1 * m + (1 - b1) * g)
        s["m"] = b2 * m + (1 - b2) * g
        return p

    return update


def parameters() -> list[torch.Tensor]:
    torch.manual_seed(0)
    return [torch.randn(4, 3, dtype=torch.float64), torch.randn(5, dtype=torch.float64)]


def gradients(values: list[torch.Tensor], t: int) -> list[torch.Tensor]:
    """Of no loss in particular: they depend on the parameters, and on the step."""
    return [3 * p.tanh() + math.sin(t) for p in values]


def reference(update: Update, clips: bool) -> list[torch.Tensor]:
    values = parameters()
    states: list[State] = [{} for _ in values]
    for t in range(1, STEPS + 1):
        grads = gradients(values, t)
        if clips:
            total = torch.cat([g.flatten() for g in grads]).norm().item()
            assert total > 1, "else nothing is clipped"
            grads = [g / max(total, 1.0) for g in grads]
        values = [update(p, g, s, t) for p, g, s in zip(values, grads, states, strict=True)]
    return values


def trained(call: str) -> list[torch.Tensor]:
    """The parameters after as many steps of the optimizer that `call` is rewritten to."""
    lines = migrated(f"{HEAD}optimizer = {call}\n", unsafe=True).splitlines()
    source = "\n".join(line for line in lines if "apex" not in line and "deepspeed" not in line)
    params = [torch.nn.Parameter(p) for p in parameters()]
    names: dict[str, Any] = {"params": params}
    exec(source.replace("import bitsandbytes as bnb", ""), names)
    for t in range(1, STEPS + 1):
        for p, g in zip(params, gradients([p.detach() for p in params], t), strict=True):
            p.grad = g
        names["optimizer"].step()
    return [p.detach() for p in params]


@pytest.mark.parametrize(
    ("call", "update"),
    [
        ("FusedAdam(params, lr=0.01)", apex_adam(0.01, 0.0)),
        ("FusedAdam(params, lr=0.01, betas=(0.5, 0.999), weight_decay=0.1)", apex_adam(0.01, 0.1, b1=0.5)),
        ("FusedAdam(params, lr=0.01, adam_w_mode=False, weight_decay=0.1)", apex_adam(0.01, 0.1, decoupled=False)),
        ("FusedAdam(params, lr=0.01, adam_w_mode=len(params) == 1, weight_decay=0.1)", apex_adam(0.01, 0.1, decoupled=False)),
        ("FusedSGD(params, 0.1, 0.9, weight_decay=0.01)", apex_sgd(0.1, 0.9, 0.01, False)),
        ("FusedSGD(params, 0.1, 0.9, 0, 0.01, True)", apex_sgd(0.1, 0.9, 0.01, True)),
        ("FusedLAMB(params, lr=0.01)", apex_lamb(0.01)),
        ("FusedLAMB(params, lr=0.01, weight_decay=0.0)", apex_lamb(0.01, 0.0)),
        ("FusedLAMB(params, lr=0.01, weight_decay=0.0, use_nvlamb=True)", apex_lamb(0.01, 0.0, nvlamb=True)),
        ("FusedAdagrad(params, weight_decay=0.1)", adagrad(0.01, 0.1)),
        ("bnb.optim.Adam8bit(params, lr=0.01)", bnb_adam(0.01, 0.0)),
        ("bnb.optim.SGD8bit(params, 0.1, momentum=0.9, weight_decay=0.01, nesterov=True)", bnb_momentum(0.1, 0.9, 0.01)),
        ("bnb.optim.RMSprop(params, weight_decay=0.1)", bnb_rmsprop(0.01, 0.1)),
        ("bnb.optim.Adagrad(params, weight_decay=0.1)", adagrad(0.01, 0.1)),
        ("bnb.optim.Lion8bit(params, weight_decay=0.1)", lion(1e-4, 0.9, 0.99, 0.1)),
        ("FusedLion(params)", lion(1e-3, 0.9, 0.999, 0.0)),
        ("DeepSpeedCPUAdam(params, lr=0.01)", apex_adam(0.01, 0.0)),
    ],
)  # fmt: skip
def test_formula(call: str, update: Update) -> None:
    for ours, theirs in zip(trained(call), reference(update, "LAMB" in call), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", ["AdamW8bit", "PagedAdam32bit"])
def test_bitsandbytes_decays_after_the_step(name: str) -> None:
    """Both of its Adams decouple weight decay; torch's AdamW does it before the step: a difference of lr^2."""
    call = f"bnb.optim.{name}(params, lr=0.001, weight_decay=0.1)"
    for ours, theirs in zip(trained(call), reference(bnb_adam(0.001, 0.1), False), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=STEPS * 0.001**2)
