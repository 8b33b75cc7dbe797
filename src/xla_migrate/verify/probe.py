"""The checks of `xla-migrate doctor`, in a separate process: `python -m xla_migrate.verify.probe`.

Prints a JSON object after each step, so that a crash or a hang still tells how far it came.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from importlib import metadata
from typing import Any


def tell(**found: Any) -> None:
    """One finding, at once."""
    print(json.dumps(found), flush=True)


def versions() -> None:
    """Report the installed versions, without importing the packages."""
    out: dict[str, str | None] = {"python": ".".join(map(str, sys.version_info[:3]))}
    for name in ("torch", "torch_xla", "torch_tpu", "libtpu", "torch-neuronx", "torchvision"):
        try:
            out[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            out[name] = None
    tell(versions=out)


def hardware() -> None:
    """Accelerators that the machine shows, whatever torch_xla makes of them later."""
    nodes = os.listdir("/dev") if os.path.isdir("/dev") else []
    tell(neuron_nodes=len([n for n in nodes if n.startswith("neuron") and n[6:].isdigit()]))
    tell(instance=_instance())


def _instance(file: str = "/sys/devices/virtual/dmi/id/product_name") -> str:
    """Return the type of an EC2 instance, such as trn1.32xlarge; of another machine, its maker's name of it."""
    try:
        with open(file, encoding="utf-8") as name:
            return name.read().strip()
    except OSError:
        return ""


_taken: dict[str, Any] = {}


def backend() -> None:
    """Which backend scripts get here, and why."""
    from xla_migrate.runtime import _choice
    from xla_migrate.runtime.eager import native

    choice = _choice.choice()
    _taken.update(
        asdict(choice), native=choice.backend == "eager" and native.is_native(choice.device)
    )
    if not _choice.count_of("tpu"):  # libtpu would ask a metadata server for minutes
        os.environ.setdefault("TPU_SKIP_MDS_QUERY", "1")
    tell(tpu_nodes=_choice.count_of("tpu"))
    tell(backend=_taken)


def native_device() -> None:
    """The device of a native backend."""
    from xla_migrate import runtime as xla

    place, count = xla.xla_device(), xla.device_count()
    tell(imported=True, device=str(place), device_type=place.type)
    tell(local_devices=count, all_devices=count)


def native_training_step() -> None:
    """`training_step` on it."""
    from xla_migrate import runtime as xla

    _train(xla.xla_device(), xla.synchronize)


def import_torch_xla() -> None:
    """Import torch_xla. This fails if versions do not match."""
    import torch_xla  # noqa: F401
    from torch_xla._internal import tpu

    tell(imported=True, tpu_chips=tpu.num_available_chips())


def device() -> None:
    """Report the devices of torch_xla."""
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
    import torch_xla

    _train(torch_xla.device(), torch_xla.sync)


def _train(place: Any, finish: Callable[[], None]) -> None:
    import torch

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
    finish()
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
    """Check the persistent compile cache that XLA_PERSISTENT_CACHE_PATH enables.

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
        cache_bytes=sum(e.stat().st_size for e in os.scandir(folder) if e.is_file())
        if os.path.isdir(folder)
        else 0,
        cache_file_system=file_system(os.path.realpath(existing)),
    )


def _steps() -> Iterator[Callable[[], None]]:
    yield from (versions, hardware, cache, backend)
    if _taken["native"]:
        yield from (native_device, native_training_step)
    else:
        yield from (import_torch_xla, device, training_step)


def file_system(path: str) -> str:
    """The type of the file system that `path` lies on, by the mount nearest above it; empty where nothing tells."""
    try:
        with open("/proc/self/mounts") as file:
            mounts = [line.split()[1:3] for line in file]
    except OSError:
        return ""
    above = [
        (place, kind)
        for place, kind in mounts
        if path == place or path.startswith(place.rstrip("/") + "/")
    ]
    return max(above, key=lambda mount: len(mount[0]), default=("", ""))[1]


def main() -> None:
    """Everything in turn; the first thing that fails ends it, by name.

    With `--collectives` only those: `torch_xla.launch` wants a process that has not touched a device.
    """
    for step in [collectives] if "--collectives" in sys.argv[1:] else _steps():
        try:
            step()
        except BaseException as error:
            text = str(error).strip().splitlines()
            tell(failed=step.__name__, error=f"{type(error).__name__}: {text[0] if text else ''}")
            return


if __name__ == "__main__":
    main()
