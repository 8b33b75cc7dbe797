"""Activation checkpointing on XLA.

Torch's non-reentrant checkpoint does the work: it needs no input with gradients, takes keyword
arguments and nests. It cannot be called on XLA tensors as it is, for want of a ``torch.xla`` module
(fact 1.101), so the arguments reach it inside a closure, and what it would do for the device
is done here:

- the device's random numbers, autocast and the CPU's generator are put back for the recomputation.
  A made-up ``torch.xla`` would leave the random numbers out, and gradients through dropout would be
  wrong silently (1.102);
- the recomputation works on inputs behind an optimization barrier together with the incoming
  gradients. Else XLA would find the forward pass computed already and keep its activations, which
  is what checkpointing was to avoid. The graph is that of ``torch_xla.utils.checkpoint``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack, nullcontext
from typing import Any

import torch
from torch.utils._pytree import tree_map_only

from ..loading.batches import tensors_in
from ..saving.replaced import torch_checkpoint
from .modules import xm


def checkpoint(
    function: Callable[..., Any], args: Any, kwargs: Any, options: Mapping[str, Any]
) -> Any:
    return _Segment(function, args, kwargs, options).run()


class _Segment:
    """One checkpointed call, from its forward pass to its recomputation."""

    def __init__(
        self, function: Callable[..., Any], args: Any, kwargs: Any, options: Mapping[str, Any]
    ) -> None:
        self._function = function
        self._inputs = self._current = (args, kwargs)
        self._options = {
            name: options[name] for name in ("determinism_check", "debug") if name in options
        }
        self._user_contexts = options.get("context_fn")
        self.rng: tuple[int, torch.Tensor] | None = None
        if options.get("preserve_rng_state", True):
            self.rng = xm.get_rng_state(), torch.get_rng_state()
        self.autocast: dict[str, Any] = {
            "device_type": "xla",
            "enabled": torch.is_autocast_enabled("xla"),
            "dtype": torch.get_autocast_dtype("xla"),
            "cache_enabled": torch.is_autocast_cache_enabled(),
        }
        self._gradients: list[torch.Tensor] = []

    def run(self) -> Any:
        output = torch_checkpoint(
            self._call,
            use_reentrant=False,
            preserve_rng_state=False,
            context_fn=self._contexts,
            **self._options,
        )
        for tensor in tensors_in(output):
            if tensor.grad_fn is not None:
                tensor.register_hook(self._gradients.append)  # type: ignore[no-untyped-call]
        return output

    def _call(self) -> Any:
        args, kwargs = self._current
        return self._function(*args, **kwargs)

    def _contexts(self) -> tuple[Any, Any]:
        forward, again = self._user_contexts() if self._user_contexts else (nullcontext(),) * 2
        return forward, _Recomputation(self, again)

    def renew_inputs(self) -> None:
        """Recompute from inputs of which nothing is known before the gradients are there."""
        fresh: list[torch.Tensor] = []

        def renewed(tensor: torch.Tensor) -> torch.Tensor:
            if tensor.device.type != "xla":
                return tensor
            fresh.append(tensor.detach())
            return fresh[-1].requires_grad_(tensor.requires_grad)

        self._current = tree_map_only(torch.Tensor, renewed, self._inputs)
        arrived = [gradient for gradient in self._gradients if gradient.device.type == "xla"]
        self._gradients.clear()
        if fresh:
            xm.optimization_barrier_(fresh + arrived)

    def restore_inputs(self) -> None:
        """Let go of them."""
        self._current = self._inputs


class _Recomputation:
    """The context of the recomputation; entered once for each backward pass."""

    def __init__(self, segment: _Segment, user_context: Any) -> None:
        self._segment = segment
        self._user_context = user_context

    def __enter__(self) -> None:
        segment = self._segment
        segment.renew_inputs()
        with ExitStack() as stack:
            stack.callback(segment.restore_inputs)
            if segment.rng is not None:
                stack.enter_context(torch.random.fork_rng(devices=[]))
                stack.enter_context(xm.fork_rng())
                on_device, on_cpu = segment.rng
                xm.set_rng_state(on_device)
                torch.set_rng_state(on_cpu)
            stack.enter_context(torch.autocast(**segment.autocast))
            stack.enter_context(self._user_context)
            self._exit = stack.pop_all()

    def __exit__(self, *error: Any) -> bool | None:
        return self._exit.__exit__(*error)
