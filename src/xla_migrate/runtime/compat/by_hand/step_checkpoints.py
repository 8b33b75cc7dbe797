"""Checkpoints of numbered steps where torch_xla is not the backend, by torch's distributed checkpoints.

Torch's own planners know every tensor that there is here. What was written with torch_xla is read; torch_xla does not read what is
written here.
"""

from __future__ import annotations

import logging
import os
import pickle
import signal
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

import fsspec  # type: ignore[import-untyped]
import torch
import torch.distributed as dist
from torch.distributed.checkpoint._fsspec_filesystem import FsspecReader, FsspecWriter
from torch.distributed.checkpoint.default_planner import DefaultLoadPlanner, DefaultSavePlanner
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save
from torch.utils._pytree import tree_map

from ...processes import in_group, is_master, world_size

Optimizer = TypeVar("Optimizer", bound=torch.optim.Optimizer)
_log = logging.getLogger("xla_migrate")
_TOLD = ".manager_metadata"


class SPMDSavePlanner(DefaultSavePlanner):
    """Torch's own."""

    def __init__(self) -> None:
        super().__init__()


class SPMDLoadPlanner(DefaultLoadPlanner):
    """Torch's own."""

    def __init__(self) -> None:
        super().__init__()


def prime_optimizer(optimizer: Optimizer) -> Optimizer:
    """A step with gradients of zero: the state that a checkpoint is then loaded into."""

    def zero(value: Any) -> None:
        if isinstance(value, torch.Tensor) and value.requires_grad:
            value.grad = torch.zeros_like(value, requires_grad=False)

    tree_map(zero, optimizer.param_groups)
    optimizer.step()
    return optimizer


@dataclass
class _Saved:
    step: int
    ts: datetime


class _Reader(pickle.Unpickler):
    """Loads a manager's notes on a checkpoint, torch_xla's or this module's."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("datetime", "datetime"):
            return datetime
        if name in ("_CheckpointMetadata", "_Saved"):
            return _Saved
        raise pickle.UnpicklingError(f"{module}.{name} in {_TOLD}")


class CheckpointManager:
    """torch_xla's, with its folders: one for each step, of which it keeps the newest."""

    def __init__(
        self,
        path: str,
        save_interval: int,
        max_to_keep: int | None = 0,
        max_pending_async: int | None = 1,
        num_of_threads: int | None = 1,
        process_group: Any = None,
        chkpt_on_preemption: bool = True,
    ) -> None:
        assert save_interval > 0, "save_interval must be positive"
        assert (max_pending_async or 0) > 0, "max_pending_async must be positive"
        assert (max_to_keep or 0) >= 0, "max_to_keep must be non-negative"
        self.base_path = os.path.join(path, "")
        self.save_interval, self.max_to_keep = save_interval, max_to_keep or 0
        self.num_of_threads, self.chkpt_on_preemption = num_of_threads or 1, chkpt_on_preemption
        self.pg = process_group or (dist.new_group() if in_group() else None)
        self._pool = ThreadPoolExecutor(max_workers=1)
        self._room = threading.Semaphore(max_pending_async or 1)
        self._pending: list[Future[None]] = []
        self._one_at_a_time = threading.Lock()
        self._saved = self._found()
        self._ends = threading.Event()
        if chkpt_on_preemption:
            self._notice_the_end()

    def _notice_the_end(self) -> None:
        """Save a checkpoint at the next step after SIGTERM. Several processes would have to agree on the step."""
        if world_size() > 1:
            _log.warning(
                "CheckpointManager: several processes do not handle SIGTERM without torch_xla: "
                "save often enough"
            )
        elif (
            threading.current_thread() is threading.main_thread()
            and signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
        ):
            signal.signal(signal.SIGTERM, lambda *_: self._ends.set())

    def _found(self) -> list[_Saved]:
        files, root = fsspec.core.url_to_fs(self.base_path)
        if not files.exists(root):
            files.makedirs(root, exist_ok=True)
        found, broken = [], []
        for path in files.ls(root, detail=False):
            try:
                with files.open(os.path.join(path, _TOLD), "rb") as told:
                    found.append(_Reader(told).load())
            except (OSError, pickle.UnpicklingError, EOFError):
                broken.append(path)
        if broken:
            _log.warning("Ignoring invalid checkpoints: %s", broken)
        return sorted(found, key=lambda saved: saved.ts)

    def _path(self, step: int) -> str:
        return os.path.join(self.base_path, str(step))

    def _delete(self, step: int) -> None:
        files, path = fsspec.core.url_to_fs(self._path(step))
        if is_master() and files.exists(path):
            files.rm(path, recursive=True)

    def _save(self, step: int, state_dict: dict[str, Any]) -> None:
        with self._one_at_a_time:
            self._delete(step)
            writer = FsspecWriter(
                self._path(step), thread_count=self.num_of_threads, per_thread_copy_ahead=0
            )
            save(state_dict, storage_writer=writer, process_group=self.pg)
            saved = _Saved(step, datetime.now())
            self._saved.append(saved)
            if is_master():
                with fsspec.open(os.path.join(self._path(step), _TOLD), "wb") as told:
                    pickle.dump(saved, told)
            while 0 < self.max_to_keep < len(self._saved):
                self._delete(self._saved.pop(0).step)

    def should_save(self, step: int) -> bool:
        ends = self.chkpt_on_preemption and self.reached_preemption(step)
        return step % self.save_interval == 0 or ends

    def save(self, step: int, state_dict: dict[str, Any], force: bool | None = False) -> bool:
        """Save at the steps of the interval; True if it did."""
        if not (self.should_save(step) or force):
            return False
        self._save(step, state_dict)
        return True

    def save_async(self, step: int, state_dict: dict[str, Any], force: bool | None = False) -> bool:
        """Copy, and write in a thread."""
        if not (self.should_save(step) or force):
            return False
        copied = tree_map(_copied, state_dict)
        self._room.acquire()
        future = self._pool.submit(self._save, step, copied)
        future.add_done_callback(lambda _: self._room.release())
        self._pending.append(future)
        return True

    def restore(self, step: int, state_dict: dict[str, Any]) -> None:
        """Fill the tensors of `state_dict` from the checkpoint of a step."""
        assert step in self.all_steps(), (
            f"Cannot restore from untracked step {step}. Valid steps are: {self.all_steps()}"
        )
        reader = FsspecReader(self._path(step))
        load(state_dict, storage_reader=reader, process_group=self.pg)

    def all_steps(self) -> list[int]:
        return sorted(saved.step for saved in self._saved)

    def join(self) -> None:
        """Wait until everything is written; raise the error of a failed write."""
        for future in self._pending:
            future.result()
        self._pending.clear()

    def reached_preemption(self, step: int) -> bool:
        assert self.chkpt_on_preemption, "Preemption detection not enabled."
        return self._ends.is_set()


def _copied(value: Any) -> Any:
    return value.detach().clone().cpu() if isinstance(value, torch.Tensor) else value
