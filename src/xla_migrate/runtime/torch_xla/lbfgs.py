"""``LBFGS`` for XLA: it decides on the host, and the device computes losses and gradients.

Torch's own branches on numbers several times in each iteration, and keeps a history that grows: on XLA
tensors each branch is a launch and a read, and each new pair of the history a new graph (fact 3.27).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


class LBFGS(torch.optim.LBFGS):
    """``torch.optim.LBFGS``, whose history and decisions are on the host.

    Each evaluation of the closure is one launch and one read, of the loss and all gradients together,
    and each move along a direction one upload. The vectors of the history are the host's memory: two
    of the parameters' size for each of ``history_size``. Parameters on the CPU are trained as
    torch's own does. On eager devices this is torch's own.

    Args:
        params: As for ``torch.optim.LBFGS``, as are all others.
        lr: Learning rate.
        max_iter: Iterations of a step.
        max_eval: Evaluations of a step.
        tolerance_grad: Where the largest gradient is smaller, the step ends.
        tolerance_change: Where losses or parameters change less, the step ends.
        history_size: Pairs of vectors that are kept.
        line_search_fn: None or ``"strong_wolfe"``.

    Example:
        >>> optimizer = xla.LBFGS(model.parameters(), line_search_fn="strong_wolfe")
    """

    _params: list[torch.Tensor]
    _gradient: torch.Tensor | None = None

    def step(self, closure: Callable[[], Any]) -> Any:  # type: ignore[override]
        """As torch's; the loss of the first evaluation."""
        first: list[Any] = []

        def evaluated() -> Any:
            with torch._C._EnableTorchFunction():
                loss = closure()
            first.append(loss)
            return self._read(loss)

        try:
            # What is computed on the host makes no tensor whose place a default device would say, and asking it takes
            # as long as computing: `torch.set_default_device`.
            with torch._C.DisableTorchFunction():  # type: ignore[no-untyped-call]
                super().step(evaluated)  # type: ignore[no-untyped-call]
        finally:
            self._gradient = None
        return first[0]

    @torch.no_grad()
    def _read(self, loss: Any) -> torch.Tensor:
        """The loss; it and the gradients come in one transfer."""
        flat: torch.Tensor = super()._gather_flat_grad()  # type: ignore[no-untyped-call]
        value = torch.as_tensor(loss, device=flat.device).detach().reshape(1)
        both = torch.cat([value, flat]).cpu()
        self._gradient = both[1:].to(flat.dtype)
        return both[0].to(value.dtype)

    def _gather_flat_grad(self) -> torch.Tensor:
        assert self._gradient is not None
        return self._gradient

    def _add_grad(self, step_size: Any, direction: torch.Tensor) -> None:
        if self._params[0].device.type == "cpu":
            super()._add_grad(step_size, direction)  # type: ignore[no-untyped-call]
            return
        # Multiplied on the host: a number would be a constant of the graph, and another graph each time.
        update = (direction * step_size).to(self._params[0].device)
        offset = 0
        for parameter in self._params:
            real = torch.view_as_real(parameter) if parameter.is_complex() else parameter
            count = real.numel()
            real.add_(update[offset : offset + count].view_as(real))
            offset += count

    def _set_param(self, params_data: list[torch.Tensor]) -> None:
        for parameter, kept in zip(self._params, params_data, strict=True):
            parameter.copy_(kept + 0)  # they would share a buffer (fact 3.12)

    def load_state_dict(self, state_dict: Any) -> None:
        """As torch's, which brings the history to the parameters' device; here it stays on the host."""
        super().load_state_dict(state_dict)
        for state in self.state.values():
            for name, value in state.items():
                state[name] = _on_host(value)


def _on_host(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.cpu()
    if isinstance(value, (list, tuple)):
        return type(value)(_on_host(item) for item in value)
    return value
