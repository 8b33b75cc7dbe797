"""Tries the devices and what goes between them: `python -m xla_migrate.target.run.health_probe FOLDER [N]`.

Each replica writes JSON lines into `FOLDER/rankR.jsonl`: a step's name when it begins, and what came out.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import Any

import torch

from ... import runtime as xla

SIZE = 256  # of the matrices; all their sums are whole numbers, exact in bfloat16 factors and float32 sums
STEPS = ("device", "matmul", "group", "all-reduce", "all-gather", "reduce-scatter")


def replica(index: int, folder: str) -> None:
    """All steps of one replica; the first that raises ends it."""
    path = os.path.join(folder, f"rank{xla.rank()}.jsonl")
    with open(path, "a", encoding="utf-8") as file:

        def tell(**found: Any) -> None:
            file.write(json.dumps(found) + "\n")
            file.flush()

        steps: dict[str, Callable[[], Any]] = {"device": device, "matmul": matmul}
        if xla.world_size() > 1:
            steps |= {"group": group, "all-reduce": all_reduce, "all-gather": all_gather}
            steps |= {"reduce-scatter": reduce_scatter}
        for name, step in steps.items():
            tell(begun=name)
            try:
                out = step()
            except Exception as error:
                text = str(error).strip().partition("\n")[0]
                tell(step=name, error=f"{type(error).__name__}: {text}")
                return
            tell(step=name, **out)
        tell(finished=True)


def device() -> dict[str, Any]:
    """Which one this replica has."""
    return {"device": f"{xla.xla_device()} ({xla.device_name()})", "replicas": xla.world_size()}


def factors() -> tuple[torch.Tensor, torch.Tensor]:
    """Two matrices of whole numbers from -3 to 3."""
    numbers = torch.arange(SIZE * SIZE).reshape(SIZE, SIZE)
    return numbers * 31 % 7 - 3, numbers * 17 % 7 - 3


def matmul() -> dict[str, Any]:
    """Return the number of elements of a product that differ from the exact ones."""
    a, b = factors()
    place = xla.xla_device()
    product = (a.float().to(place) @ b.float().to(place)).cpu()
    return {"wrong": int((product != (a @ b).float()).sum()), "of": SIZE * SIZE}


def group() -> dict[str, Any]:
    """The replicas find each other."""
    xla.init_process_group()
    return {}


def _compared(got: torch.Tensor, wanted: list[float]) -> dict[str, Any]:
    xla.mark_step()
    values = got.cpu().flatten().tolist()
    return {} if values == wanted else {"got": values, "wanted": wanted}


def all_reduce() -> dict[str, Any]:
    """The sum of rank + 1, twice that, three times that."""
    n = xla.world_size()
    mine = torch.tensor([1.0, 2.0, 3.0], device=xla.xla_device()) * (xla.rank() + 1)
    xla.all_reduce(mine)
    return _compared(mine, [k * n * (n + 1) / 2 for k in (1.0, 2.0, 3.0)])


def all_gather() -> dict[str, Any]:
    """The ranks in order."""
    n = xla.world_size()
    out = torch.zeros(n, device=xla.xla_device())
    xla.all_gather_into_tensor(out, torch.tensor([float(xla.rank())], device=xla.xla_device()))
    return _compared(out, [float(r) for r in range(n)])


def reduce_scatter() -> dict[str, Any]:
    """Rank r gets r times the sum of all rank + 1."""
    n = xla.world_size()
    out = torch.zeros(1, device=xla.xla_device())
    mine = torch.arange(n, dtype=torch.float32, device=xla.xla_device()) * (xla.rank() + 1)
    xla.reduce_scatter_tensor(out, mine)
    return _compared(out, [xla.rank() * n * (n + 1) / 2])


def main(words: list[str]) -> None:
    """Start a replica per device, or as many as the second word says."""
    count = int(words[1]) if len(words) > 1 else None
    xla.launch(replica, (words[0],), nprocs=count)


if __name__ == "__main__":
    main(sys.argv[1:])
