"""``torch.distributions`` checks its arguments after the step, so the step does not wait for the device.

The fault: by default each distribution that is made, and each ``log_prob``, asks the device whether all parameters and
values are allowed (``validate_args``): a launch and a wait each time, several in a step of a policy or of a VAE. Here
the answer is read with the other deferred values (``xla.item``), and the ``ValueError`` is raised at one of the next step
marks. Values that are not on an XLA device, or are needed at once, are checked at once.

To see it: ``xla.metrics()["host_reads"]`` of ``torch.distributions.Normal(mean, deviation)``.
It can go when this fails: test_torch_asks_the_device_for_each_distribution.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch.distributions import Distribution

from ._versions import Versions

VERSIONS = Versions("torch", "2.9")

# The distributions that are being made, or asked for a probability.
_checking: list[Distribution] = []


def apply() -> None:
    """Wrap the two methods that check, and the question that they ask."""
    asked: Any = torch._is_all_true

    @functools.wraps(asked)
    def is_all_true(valid: torch.Tensor) -> Any:
        if not _checking:
            return asked(valid)
        from ..deferred.checks import checked_later

        return checked_later(valid, _message(_checking[-1])) or asked(valid)

    setattr(torch, asked.__name__, is_all_true)
    for name in ("__init__", "_validate_sample"):
        setattr(Distribution, name, _noted(getattr(Distribution, name)))


def _noted(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def noted(self: Distribution, *args: Any, **kwargs: Any) -> Any:
        if torch.compiler.is_compiling():
            return method(self, *args, **kwargs)
        _checking.append(self)
        try:
            return method(self, *args, **kwargs)
        finally:
            _checking.pop()

    return noted


def _message(checked: Distribution) -> str:
    return (
        f"Expected the parameters of {type(checked).__name__}, and the values passed to it, to satisfy its "
        "constraints, but found invalid ones in one of the last steps (on XLA they are checked after the step)"
    )
