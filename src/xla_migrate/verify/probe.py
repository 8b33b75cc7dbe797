"""What `xla-migrate doctor` tries, in a process of its own: `python -m xla_migrate.verify.probe`.

Prints a JSON object after each step, so that a crash or a hang still tells how far it came.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from importlib import metadata
from typing import Any


def tell(**found: Any) -> None:
    """One finding, at once."""
    print(json.dumps(found), flush=True)


def versions() -> None:
    """What is installed, without importing it."""
    out: dict[str, str | None] = {"python": ".".join(map(str, sys.version_info[:3]))}
    for name in ("torch", "torch_xla", "libtpu", "torch-neuronx", "torchvision"):
        try:
            out[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            out[name] = None
    tell(versions=out)


def hardware() -> None:
    """Accelerators that the machine shows, whatever torch_xla makes of them later."""
    nodes = os.listdir("/dev") if os.path.isdir("/dev") else []
    tell(neuron_nodes=len([n for n in nodes if n.startswith("neuron") and n[6:].isdigit()]))


def import_torch_xla() -> None:
    """Where versions do not match, this is where it fails."""
    import torch_xla  # noqa: F401
    from torch_xla._internal import tpu

    tell(imported=True, tpu_chips=tpu.num_available_chips())


def device() -> None:
    """What torch_xla runs on."""
    import torch_xla
    import torch_xla.runtime as xr

    place = str(torch_xla.device())
    tell(
        device=place,
        device_type=xr.device_type(),
        local_devices=xr.addressable_runtime_device_count(),
        all_devices=xr.global_runtime_device_count(),
    )


def training_step() -> None:
    """One step of SGD with momentum and weight decay on a linear layer, whose outcome is known exactly.

    w = [[1, -2]], b = 0.5, x = [[1, 2], [3, 4]], y = 0: outputs -2.5 and -4.5, the gradient of their
    mean square is (-16, -23) for w and -7 for b. With weight decay 0.5 and lr 0.125 the new values are
    w = (1, -2) - 0.125 * (-15.5, -24) = (2.9375, 1) and b = 0.5 - 0.125 * (-6.75) = 1.34375; all are
    exact in bfloat16 inputs and float32 sums.
    """
    import torch
    import torch_xla

    place = torch_xla.device()
    start = time.perf_counter()
    model = torch.nn.Linear(2, 1)
    with torch.no_grad():
        model.weight.copy_(torch.tensor([[1.0, -2.0]]))
        model.bias.copy_(torch.tensor([0.5]))
    model.to(place)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.125, momentum=0.9, weight_decay=0.5)
    loss = model(torch.tensor([[1.0, 2.0], [3.0, 4.0]], device=place)).pow(2).mean()
    loss.backward()
    optimizer.step()
    torch_xla.sync()
    values = [loss, *model.weight.flatten(), *model.bias]
    tell(
        step=[round(float(v), 6) for v in values],
        step_seconds=time.perf_counter() - start,
    )


def _sum_of_ranks(index: int) -> None:
    import torch
    import torch_xla
    import torch_xla.core.xla_model as xm
    import torch_xla.runtime as xr

    mine = torch.tensor([float(xr.global_ordinal() + 1)], device=torch_xla.device())
    total: Any = xm.all_reduce(xm.REDUCE_SUM, mine)
    torch_xla.sync()
    if xr.global_ordinal() == 0:
        tell(reduced=float(total), replicas=xr.world_size())


def collectives() -> None:
    """The ranks' sum over all devices, each in its own replica."""
    import torch_xla

    torch_xla.launch(_sum_of_ranks)


def cache() -> None:
    """The persistent compile cache that XLA_PERSISTENT_CACHE_PATH asks for.

    One that cannot be written is not used in what follows: every compilation would fail for it.
    """
    path = os.environ.get("XLA_PERSISTENT_CACHE_PATH")
    if not path:
        tell(cache=None)
        return
    folder = os.path.abspath(path)
    existing = folder
    while not os.path.exists(existing):
        existing = os.path.dirname(existing)
    try:  # what the rights say is not all: some file systems take no files
        with tempfile.TemporaryFile(dir=existing):
            writable = True
    except OSError:
        writable = False
        del os.environ["XLA_PERSISTENT_CACHE_PATH"]
    tell(
        cache=path,
        cache_writable=writable,
        cache_entries=len(os.listdir(folder)) if os.path.isdir(folder) else 0,
    )


def main() -> None:
    """Everything in turn; the first thing that fails ends it, by name.

    With `--collectives` only those: `torch_xla.launch` wants a process that has not touched a device.
    """
    steps: list[Callable[[], None]] = [versions, hardware, cache]
    steps += [import_torch_xla, device, training_step]
    if "--collectives" in sys.argv[1:]:
        steps = [collectives]
    for step in steps:
        try:
            step()
        except BaseException as error:
            text = str(error).strip().splitlines()
            tell(failed=step.__name__, error=f"{type(error).__name__}: {text[0] if text else ''}")
            return


if __name__ == "__main__":
    main()
