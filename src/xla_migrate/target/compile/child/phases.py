"""The phases of the script since the last graph ended: forward, backward, optimizer steps, evaluation, saving."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....verify.observe.process import where

FORWARD, EVALUATION, BACKWARD, STEP = "forward", "evaluation", "backward", "optimizer step"

_seen: set[str] = set()
_backward: list[str] = []  # the lines that started the backward passes that run
steps = 0


def seen() -> list[str]:
    """The phases since the last call of `forget`."""
    return sorted(_seen)


def forget() -> None:
    """A graph was cut: what comes now belongs to the next."""
    _seen.clear()


def watch(torch: Any) -> None:
    """Note phases as they happen."""
    engine = torch.autograd._engine_run_backward

    def run_backward(*args: Any, **kwargs: Any) -> Any:
        _seen.add(BACKWARD)
        _backward.append(where.caller())
        try:
            return engine(*args, **kwargs)
        finally:
            _backward.pop()

    torch.autograd._engine_run_backward = run_backward

    def forward(module: Any, inputs: Any) -> None:
        _seen.add(FORWARD if torch.is_grad_enabled() else EVALUATION)

    torch.nn.modules.module.register_module_forward_pre_hook(forward)
    after_steps(_count_step)


def _count_step() -> None:
    global steps
    steps += 1
    _seen.add(STEP)


def backward_place() -> str:
    """The line that started the innermost backward pass that runs, or ""."""
    return _backward[-1] if _backward else ""


def after_steps(then: Callable[[], None]) -> None:
    """Call `then` after each optimizer step that `watch` counts."""
    from torch.optim.optimizer import register_optimizer_step_post_hook

    register_optimizer_step_post_hook(lambda *_: then())
