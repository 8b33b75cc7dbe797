"""Weights in float32 behind those that compute in bfloat16."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn


class Masters:
    """For each parameter of an optimizer a copy in float32, which the optimizer updates in its place.

    Gradients are added up in float32, as DeepSpeed does.
    """

    def __init__(self, module: nn.Module, groups: list[dict[str, Any]], is_sharded: bool) -> None:
        exact = {p: p.detach().clone().float() for group in groups for p in group["params"]}
        module.to(torch.bfloat16)
        self._pairs: list[tuple[nn.Parameter, nn.Parameter]] = []
        for group in groups:
            group["params"] = [self._master(p, exact[p]) for p in group["params"]]
        if is_sharded:
            from ...torch_xla import spmd

            for _, master in self._pairs:
                spmd.shard(master)

    def _master(self, parameter: nn.Parameter, exact: torch.Tensor) -> nn.Parameter:
        master = nn.Parameter(exact, requires_grad=parameter.requires_grad)
        self._pairs.append((parameter, master))
        return master

    def collect(self) -> None:
        """Behind a backward pass: its gradients are added to the masters'."""
        for parameter, master in self._pairs:
            if parameter.grad is not None:
                new = parameter.grad.float()
                master.grad = new if master.grad is None else master.grad + new
                parameter.grad = None

    @torch.no_grad()
    def give_back(self) -> None:
        """Behind an update: the module's weights are the masters' in bfloat16."""
        for parameter, master in self._pairs:
            parameter.copy_(master)

    @torch.no_grad()
    def take(self) -> None:
        """Behind loaded weights: the masters are the module's."""
        for parameter, master in self._pairs:
            master.copy_(parameter)

    def state(self) -> list[torch.Tensor]:
        """The masters, in the optimizer's order."""
        return [master.detach() for _, master in self._pairs]

    @torch.no_grad()
    def load(self, state: list[torch.Tensor]) -> None:
        """Masters that were saved."""
        for (parameter, master), saved in zip(self._pairs, state, strict=True):
            master.copy_(saved)
            parameter.copy_(saved)
