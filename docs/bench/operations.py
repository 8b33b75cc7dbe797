"""What operations cost the host on XLA, with what the runtime changes in torch, and without.

    python docs/bench/operations.py

It measures in-place operations, as activations and optimizers use them; an optimizer's step over 50 parameters of 256
numbers; and a batch norm in training, next to torch_xla's, which computes another running variance. Both variants take
turns in one process. The result is the least of the rounds, in microseconds of the training thread's processor time,
which other programs on the machine disturb less than the clock.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

os.environ.setdefault("PJRT_DEVICE", "CPU")

import torch
from torch.nn import functional

from xla_migrate import runtime as xla
from xla_migrate.runtime.patches import batch_norm, equal_shapes

ROUNDS, OPERATIONS, PARAMETERS = 12, 20, 50
IN_PLACE: dict[str, Callable[..., Any]] = {
    "add_": lambda x, y, z: x.add_(y),
    "mul_ by a number": lambda x, y, z: x.mul_(0.5),
    "lerp_": lambda x, y, z: x.lerp_(y, 0.1),
    "addcmul_": lambda x, y, z: x.addcmul_(y, z, value=0.1),
    "addcdiv_": lambda x, y, z: x.addcdiv_(y, z, value=0.1),
    "sqrt_": lambda x, y, z: x.sqrt_(),
    "leaky_relu_": lambda x, y, z: functional.leaky_relu_(x, 0.2),
    "clamp_": lambda x, y, z: x.clamp_(0, 1),
    "hardtanh_ (ReLU6)": lambda x, y, z: functional.hardtanh_(x, 0.0, 6.0),
    "sigmoid_": lambda x, y, z: x.sigmoid_(),
    "silu_": lambda x, y, z: functional.silu(x, inplace=True),
    "elu_": lambda x, y, z: functional.elu_(x),
}
OPTIMIZERS: dict[str, Callable[[Any], Any]] = {
    "SGD with momentum": lambda p: torch.optim.SGD(p, 0.1, momentum=0.9),
    "Adam": torch.optim.Adam,
    "AdamW": torch.optim.AdamW,
}
FIT = equal_shapes._fit


def ones(*shape: int) -> torch.Tensor:
    return torch.ones(*shape).to(xla.xla_device())


def in_turns(kinds: dict[str, Callable[[], Callable[[], Any]]]) -> list[float]:
    """Microseconds of one call of what each kind has set up."""
    least = dict.fromkeys(kinds, float("inf"))
    for _ in range(ROUNDS):
        for kind, set_up in kinds.items():
            call = set_up()
            xla.synchronize()
            begin = time.thread_time()
            kept = call()
            least[kind] = min(least[kind], time.thread_time() - begin)
            xla.synchronize()
            del kept
    return [seconds * 1e6 for seconds in least.values()]


def with_and_without(set_up: Callable[[], Callable[[], Any]]) -> list[float]:
    """Of operations in place, worked out in Python first, and not."""

    def as_torch_does() -> Callable[[], Any]:
        equal_shapes._fit = lambda *operands: False
        return set_up()

    def as_ours() -> Callable[[], Any]:
        equal_shapes._fit = FIT
        return set_up()

    found = in_turns({"without": as_torch_does, "with": as_ours})
    equal_shapes._fit = FIT
    return found


def operation(function: Callable[..., Any]) -> Callable[[], Any]:
    operands = [(ones(8, 8), ones(8, 8), ones(8, 8)) for _ in range(OPERATIONS)]
    return lambda: [function(*each) for each in operands]


def optimizer(make: Callable[[Any], Any]) -> Callable[[], Any]:
    parameters = [torch.nn.Parameter(ones(16, 16)) for _ in range(PARAMETERS)]
    for parameter in parameters:
        parameter.grad = ones(16, 16)
    made = make(parameters)
    made.step()
    return lambda: made.step()


def norm(function: Callable[..., Any]) -> Callable[[], Any]:
    norms = [
        (torch.randn(8, 8, 4, 4).to(xla.xla_device()), ones(8), ones(8), ones(8), ones(8))
        for _ in range(OPERATIONS)
    ]
    return lambda: [function(*each, training=True, momentum=0.1) for each in norms]


def main() -> None:
    """Print a table."""
    print("| µs of the host | without | with |\n| --- | --- | --- |")
    for name, function in IN_PLACE.items():
        found = with_and_without(lambda function=function: operation(function))  # type: ignore[misc]
        print(f"| {name} |", " | ".join(f"{us / OPERATIONS:.0f}" for us in found), "|", flush=True)
    for name, make in OPTIMIZERS.items():
        found = with_and_without(lambda make=make: optimizer(make))  # type: ignore[misc]
        print(f"| {name}, a parameter |", " | ".join(f"{us / PARAMETERS:.0f}" for us in found), "|")
    kinds = (batch_norm._torch_batch_norm, batch_norm._batch_norm)
    found = in_turns({str(k): lambda f=f: norm(f) for k, f in enumerate(kinds)})  # type: ignore[misc]
    print("| batch norm in training |", " | ".join(f"{us / OPERATIONS:.0f}" for us in found), "|")


if __name__ == "__main__":
    main()
