"""Find the newest checkpoint to continue from, or raise a clear error. Never a silent fresh start."""

from __future__ import annotations

import contextlib
import os
import pickle
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ._backend import backend
from .processes import is_master, world_size

# What torch wrote before it wrote zip files: a pickle whose first number is this.
_OLD_FORMAT = b"\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19"


class CheckpointError(RuntimeError):
    """The file at a checkpoint's path is not a checkpoint, or not a complete one.

    Example:
        >>> try:
        ...     state = xla.load(path)
        ... except xla.CheckpointError:
        ...     print("not a whole checkpoint")
        not a whole checkpoint
    """


def latest(folder: str | os.PathLike[str], pattern: str = "*.pt") -> Path | None:
    """The newest checkpoint in ``folder``, to go on from.

    ``if path := latest("run"): state = load(path)``. The newest is the one whose name has the highest last number (``step_900.pt`` before ``step_1000.pt``); where
    names have no number, the one written last. Every replica calls it, and all get the master's
    answer: another may look while that one writes.

    Args:
        folder: Where checkpoints are saved. It need not exist.
        pattern: Of their names, as for ``Path.glob``. What a killed ``save`` left is not looked at.

    Returns:
        None if there is no such file, so that training starts afresh.

    Raises:
        CheckpointError: if the newest is truncated, or no file of ``torch.save``. To go on from an
            older one, move it away.

    Example:
        >>> if path := xla.latest(folder):
        ...     state = xla.load(path)
    """
    found: list[object] = [None, None]
    if is_master():
        try:
            found[0] = _newest(Path(folder), pattern)
        except CheckpointError as error:
            found[1] = str(error)
    if world_size() > 1:
        backend().collective("broadcast_object_list", found)
    path, problem = found
    if problem is not None:
        raise CheckpointError(problem)
    assert path is None or isinstance(path, Path)
    return path


def _newest(folder: Path, pattern: str) -> Path | None:
    files = [path for path in folder.glob(pattern) if path.is_file() and path.suffix != ".part"]
    if not files:
        return None
    newest = max(files, key=_order)
    check(newest)
    return newest


def _order(path: Path) -> tuple[int, int]:
    numbers = re.findall(r"\d+", path.stem)
    return int(numbers[-1]) if numbers else -1, path.stat().st_mtime_ns


def check(path: str | os.PathLike[str]) -> None:
    """Raise a CheckpointError unless ``path`` is a whole file of ``torch.save``.

    Its list of contents is at its end, so a truncated one has none. The contents are not read.
    """
    with open(path, "rb") as file:
        start = file.read(64)
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            if any(name.endswith("data.pkl") for name in archive.namelist()):
                return
        raise CheckpointError(f"{path}: a zip file, but not a checkpoint of torch.save")
    if _OLD_FORMAT in start:
        return
    if start.startswith(b"PK"):
        raise CheckpointError(f"{path}: truncated; its end is missing. {_ADVICE}")
    what = "empty" if not start else "not a checkpoint of torch.save"
    raise CheckpointError(f"{path}: {what}. {_ADVICE}")


@contextlib.contextmanager
def explaining(file: Any) -> Iterator[None]:
    """Explain the error if loading ``file`` fails because it is not a checkpoint."""
    try:
        yield
    except (RuntimeError, EOFError, pickle.UnpicklingError):
        if isinstance(file, str | os.PathLike) and os.path.isfile(file):
            check(file)
        raise


_ADVICE = "Move it away to continue from an older checkpoint, or to start again"
