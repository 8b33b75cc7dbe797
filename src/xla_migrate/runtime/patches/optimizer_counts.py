"""Optimizers of torch.optim keep their step counts on the host.

The fault: Adam and its like create their counts with ``torch.tensor(0.0)``, which follows the default device.
With an XLA default device (``torch.set_default_device``, ``with torch.device``), each step reads one count per
parameter from the device. So does a step with counts that a checkpoint or a loop has moved to the device (fact 3.28).

To see it: ``xla.metrics()["host_reads"]`` of steps of Adam with an XLA default device.
It can go when this fails: test_torch_reads_the_step_counts_of_a_default_device.

Counts of ``capturable`` and ``fused`` optimizers belong on the device, and stay there.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from ._versions import Versions

VERSIONS = Versions("torch", "2.4")

_COUNTS = ("step", "mu_product")


def apply() -> None:
    """Make the optimizers create and keep their counts on the host."""
    for kind in vars(torch.optim).values():
        create = vars(kind).get("_init_group") if isinstance(kind, type) else None
        if create is not None and kind is not torch.optim.ASGD:  # it computes with its counts
            kind._init_group = _on_the_host(create)


def _on_the_host(create: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(create)
    def init_group(self: Any, group: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        if group.get("capturable") or group.get("fused"):
            return create(self, group, *args, **kwargs)
        _fetch_counts(self.state, group["params"])
        if not (_is_the_default() and _lacks_state(self.state, group["params"])):
            return create(self, group, *args, **kwargs)
        with torch.device("cpu"):
            return create(self, group, *args, **kwargs)

    return init_group


def _is_the_default() -> bool:
    """Return True if tensors are created on the XLA device by default."""
    try:
        return torch.get_default_device().type == "xla"
    except AttributeError:  # of torch 2.9 after `set_default_device(None)`
        return False


def _lacks_state(state: Any, parameters: list[torch.Tensor]) -> bool:
    """Return True if one of `parameters` takes its first step."""
    return any(p not in state or not state[p] for p in parameters if p.grad is not None)


def _fetch_counts(state: Any, parameters: list[torch.Tensor]) -> None:
    """Move step counts to the host if the first parameter with a state has its count on the device."""
    first: dict[str, Any] = next((state[p] for p in parameters if p in state), {})
    if not any(_is_on_the_device(first.get(name)) for name in _COUNTS):
        return
    for parameter in parameters:
        own = state.get(parameter, {})
        own.update({k: own[k].cpu() for k in _COUNTS if _is_on_the_device(own.get(k))})


def _is_on_the_device(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.device.type == "xla"
