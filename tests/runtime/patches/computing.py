"""Operations computed on the CPU and on the device, with their gradients."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch_xla.debug import metrics

from xla_migrate import runtime as xla

Case = Callable[[torch.Tensor], torch.Tensor]


def computed(case: Case, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the result, and the gradient of the sum of its squares."""
    leaf = x.detach().clone().requires_grad_()
    out = case(leaf)
    out.float().pow(2).sum().backward()  # type: ignore[no-untyped-call]
    assert leaf.grad is not None
    return out.detach().cpu(), leaf.grad.cpu()


def fallbacks(case: Case, x: torch.Tensor) -> list[str]:
    """Return the operations that run on the CPU, with those of the gradient."""
    return fallbacks_of(lambda: computed(case, x))


def fallbacks_of(run: Callable[[], object]) -> list[str]:
    """Return the operations of `run` that run on the CPU."""
    xla.mark_step()
    metrics.clear_counters()  # type: ignore[no-untyped-call]
    run()
    names: list[str] = metrics.counter_names()  # type: ignore[no-untyped-call]
    return [name for name in names if name.startswith("aten::")]


def assert_computed_on_the_device(
    case: Case, x: torch.Tensor, device: torch.device, tolerance: float = 1e-5
) -> None:
    """The result and the gradient are the CPU's, and nothing runs on the CPU."""
    expected = computed(case, x)
    found = computed(case, x.to(device))
    torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)
    assert fallbacks(case, x.to(device)) == []
