"""Functions of torch that a script has replaced: ``torch.load = partial(torch.load, weights_only=False)``.

The migration turns this into ``partial(xla.load, ...)``, and ``xla.load`` calls ``torch.load``, which now is this
partial. To end the recursion, a call that comes back for the same object goes to torch's own function.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from typing import Any

import torch
import torch.utils.checkpoint

# As they were when the runtime was imported.
torch_save, torch_load = torch.save, torch.load
torch_checkpoint = torch.utils.checkpoint.checkpoint

_running = threading.local()


@contextlib.contextmanager
def running(function: str, subject: Any) -> Iterator[None]:
    """While torch's ``function``, ``"save"`` or ``"load"``, runs in this thread for an object, a path or a file."""
    subjects: list[tuple[str, Any]] = _running.__dict__.setdefault("subjects", [])
    subjects.append((function, subject))
    try:
        yield
    finally:
        subjects.pop()


def is_running(function: str, subject: Any) -> bool:
    """True within ``running`` of the same."""
    subjects: list[tuple[str, Any]] = _running.__dict__.get("subjects", [])
    return any(function == name and _is_same(subject, other) for name, other in subjects)


def _is_same(subject: Any, other: Any) -> bool:
    if isinstance(subject, str | os.PathLike) and isinstance(other, str | os.PathLike):
        return os.fspath(subject) == os.fspath(other)
    return subject is other
