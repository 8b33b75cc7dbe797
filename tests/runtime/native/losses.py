"""Loaded by torch as a backend: writes every loss that is differentiated to the file that RECORD_LOSSES names.

A line of JSON for each ``backward``: the replica's rank, where the loss was, and its value in full. With
RECORD_TIMES in its place, a line for each call whose number is in RECORD_AT: when it was, with all work before
it done. RECORD_DETERMINISTIC chooses kernels that repeat themselves.
"""

from __future__ import annotations

import functools
import json
import os
import time
from typing import Any


def load() -> None:
    """Called at the end of ``import torch``."""
    _declare_what_torchvision_wants()
    _choose_deterministic_kernels()
    note = _times if os.environ.get("RECORD_TIMES") else _losses
    if os.environ.get("RECORD_TIMES") or os.environ.get("RECORD_LOSSES"):
        _tap(note)


def _tap(note: Any) -> None:
    import torch

    plain = torch.Tensor.backward

    @functools.wraps(plain)
    def backward(self: Any, *args: Any, **kwargs: Any) -> Any:
        note(self)
        return plain(self, *args, **kwargs)

    torch.Tensor.backward = backward  # type: ignore[method-assign]


def _write(path: str, **told: Any) -> None:
    rank = int(os.environ.get("RANK") or os.environ.get("LOCAL_RANK") or 0)
    with open(f"{path}.{rank}", "a", encoding="utf-8") as out:
        out.write(json.dumps(told) + "\n")


def _losses(loss: Any) -> None:
    device = loss.device.type
    _write(
        os.environ["RECORD_LOSSES"], device=device, loss=loss.detach().cpu().double().sum().item()
    )


_calls = [0]


def _times(loss: Any) -> None:
    _calls[0] += 1
    if _calls[0] in map(int, os.environ["RECORD_AT"].split(",")):
        import torch

        if torch.cuda.is_available():
            torch.cuda.synchronize()
        _write(os.environ["RECORD_TIMES"], call=_calls[0], seconds=time.perf_counter())


_kept: list[Any] = []


def _declare_what_torchvision_wants() -> None:
    """torchvision built for CUDA loads no kernels beside torch's CPU build, and then stops for want of two names."""
    import torch

    if not os.environ.get("DECLARE_TORCHVISION"):
        return
    library = torch.library.Library("torchvision", "DEF")
    for name in ("nms", "qnms"):
        library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    _kept.append(library)


def _choose_deterministic_kernels() -> None:
    """In float32. Operations without such a kernel only warn: whether a run repeats itself is seen by repeating it."""
    import torch

    if os.environ.get("RECORD_DETERMINISTIC"):
        torch.use_deterministic_algorithms(True, warn_only=True)
        torch.backends.cudnn.deterministic = True
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
