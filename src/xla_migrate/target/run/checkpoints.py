"""The last whole checkpoint of a training: written since it began, and not cut short."""

from __future__ import annotations

import glob
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

# What torch.save writes, by the names that are usual for it.
_TORCH = (".pt", ".pth", ".bin", ".ckpt", ".tar")
_UNFINISHED = (".part", ".tmp", ".partial")


@dataclass(frozen=True)
class Checkpoint:
    """A file or folder, and when it was written (seconds since the epoch)."""

    path: str
    written: float


def last_whole(patterns: Sequence[str], since: float) -> tuple[Checkpoint | None, list[str]]:
    """The checkpoint written last, and why each one that was written after it is not taken.

    Args:
        patterns: as for `glob`, with `**`.
        since: what was written before is another training's.
    """
    found = {path for pattern in patterns for path in glob.glob(pattern, recursive=True)}
    known = [Checkpoint(p, _written(p)) for p in found if not p.endswith(_UNFINISHED)]
    problems: list[str] = []
    for checkpoint in sorted(known, key=lambda c: (c.written, c.path), reverse=True):
        if checkpoint.written < since:
            break
        try:
            problem = _problem(checkpoint.path)
        except OSError as error:
            problem = f"{checkpoint.path}: {error.strerror}"
        if not problem:
            return checkpoint, problems
        problems.append(problem)
    return None, problems


def _written(path: str) -> float:
    """0 for what is gone meanwhile."""
    try:
        return max((os.path.getmtime(p) for p in _files(path)), default=os.path.getmtime(path))
    except OSError:
        return 0.0


def _files(path: str) -> Iterator[str]:
    if not os.path.isdir(path):
        yield path
        return
    for folder, _, names in os.walk(path):
        yield from (os.path.join(folder, name) for name in names)


def _problem(path: str) -> str:
    """Return why a checkpoint is incomplete; empty if it is complete."""
    files = list(_files(path))
    if not files:
        return f"{path}: an empty folder"
    for file in files:
        if file.endswith(_UNFINISHED):
            return f"{file}: not finished"
        problem = ""
        if file.endswith(".safetensors"):
            problem = _problem_of_safetensors(file)
        elif file.endswith(_TORCH) or file == path:
            problem = _problem_of_torch(file)
        if problem:
            return problem
    return ""


def _problem_of_torch(path: str) -> str:
    # Imports torch, which a successful run does not need.
    from ...runtime.resuming import CheckpointError, check

    try:
        check(path)
    except CheckpointError as error:
        return str(error).partition(". ")[0]
    return ""


def _problem_of_safetensors(path: str) -> str:
    """The header, behind its length in 8 bytes, tells where each tensor ends."""
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        text = file.read(length) if length < 100 << 20 else b""
    try:
        header = json.loads(text)
    except ValueError:
        return f"{path}: truncated, or not a safetensors file"
    ends = [entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__"]
    whole = os.path.getsize(path) == 8 + length + max(ends, default=0)
    return "" if whole else f"{path}: truncated; its end is missing"
