"""The queue: everything that waits for values of the device, in the order in which it was written.

Values are fetched behind a step mark, in one transfer, of all steps but the last one, which the device may still be at:
when sixteen steps wait, or half a second has passed. Several replicas do so after sixteen steps only, so that all do it
at the same marks.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Protocol

import torch

from ..processes import world_size

STEPS = 16  # that may wait
SECONDS = 0.5  # that a value may wait, if steps are slow
LIMIT = 10_000  # things that may wait
UNMARKED = 64  # values read since the last mark: where nothing marks steps, the graph would grow without end


class Waiting(Protocol):
    """An entry of the queue."""

    def arrive(self) -> None:
        """Values of all that was put before it, and its own, are there."""


class Cancellable:
    """An entry that is dropped if an earlier one raises: the program would not have reached it."""

    __slots__ = ("is_cancelled",)

    def __init__(self) -> None:
        self.is_cancelled = False


class Snapshot:
    """The value of a tensor at the time of the read; `host` is its copy there, once it has arrived."""

    __slots__ = ("device", "host")

    def __init__(self, tensor: torch.Tensor) -> None:
        self.device: torch.Tensor | None = _copied(tensor)
        self.host: torch.Tensor | None = None

    def read(self) -> torch.Tensor:
        """The copy on the host, for a thread that nothing waits in; it does not wait for the queue."""
        device = self.device  # the queue sets `host` first, and takes this away then
        if device is not None:
            return device.cpu()
        assert self.host is not None
        return self.host


def _copied(tensor: torch.Tensor) -> torch.Tensor:
    """A copy that later changes in place do not reach.

    Part of the graph that is being recorded, where one replica trains. Of several, one may read alone (behind
    `if rank == 0`), and its graph has to stay that of the others: there it is launched by itself, as `.item()` would.
    """
    if world_size() == 1:
        return tensor.detach().clone()
    from ..torch_xla import transfers as _xla_transfers

    return _xla_transfers.copied_alone(tensor)


class Queue:
    """Everything that waits; `owner` is the process and thread that it waits in, the first that asks.

    Where that thread has ended, the next one that asks.
    """

    def __init__(self) -> None:
        self.calls = 0  # among those that wait
        self.owner: tuple[int, int] | None = None
        self.written = 0.0  # when the call that is made now was written
        self._thread: threading.Thread | None = None
        self.at_first_use: list[Callable[[], None]] = []
        self._waiting: deque[Waiting] = deque()
        self._snapshots: deque[tuple[int, Snapshot]] = deque()
        self._first = 0  # the place of the first that waits
        self._since = 0.0
        self._marks: deque[int] = deque()  # the place of what came first behind each mark
        self._expects_mark = False
        self._unmarked = 0
        self._is_settling = False
        self._is_fetching = False

    @property
    def _end(self) -> int:
        return self._first + len(self._waiting)

    @property
    def is_settling(self) -> bool:
        """True while calls are made."""
        return self._is_settling

    def is_ours(self) -> bool:
        """True if this is the process and thread that everything waits in."""
        place = _here_and_now()
        if self.owner == place:
            return True
        if self.owner is None:
            self.owner, self._thread = place, threading.current_thread()
            for function in self.at_first_use:
                function()
            return True
        assert self._thread is not None
        if self.owner[0] == place[0] and not self._thread.is_alive():
            self.owner, self._thread = place, threading.current_thread()
            return True
        return False

    def snapshot(self, tensor: torch.Tensor) -> Snapshot:
        """Return the current value of `tensor`, for the next entry."""
        if self._unmarked >= UNMARKED:
            self.settle()
            self._unmarked = 0
        self._unmarked += 1
        taken = Snapshot(tensor)
        self._snapshots.append((self._end, taken))
        return taken

    def put(self, waiting: Waiting) -> int:
        """Its place."""
        if not self._waiting:
            self._since = time.monotonic()
        self._expect_mark()
        self._waiting.append(waiting)
        place = self._end - 1
        if place - self._first >= LIMIT and not self._is_settling:
            self.settle(place - 1)
        return place

    def _expect_mark(self) -> None:
        from ..torch_xla import transfers as _xla_transfers

        if not self._expects_mark:
            self._expects_mark = True
            _xla_transfers.at_next_mark(self._marked)

    def _marked(self) -> None:
        """Behind a step mark."""
        self._expects_mark = False
        self._unmarked = 0
        if not self._waiting:
            self._marks.clear()
            return
        self._expect_mark()
        if self._marks and self._marks[-1] == self._end:
            return  # a second mark of the same step
        last = self._marks[-1] if self._marks else self._first
        self._marks.append(self._end)
        while self._marks[0] <= self._first:
            self._marks.popleft()
        late = time.monotonic() - self._since > SECONDS and world_size() == 1
        if last > self._first and (late or len(self._marks) > STEPS):
            self.settle(last - 1)
            self._since = time.monotonic()

    def settle(self, last: int | None = None) -> None:
        """Everything up to place `last`; without one everything."""
        if self.owner is None or not self.is_ours() or self._is_fetching:
            return
        if last is None:
            last = self._end - 1
        self._fetch(last)
        before, self._is_settling = self._is_settling, True
        try:
            while self._waiting and self._first <= last:
                self._first += 1
                self._waiting.popleft().arrive()
        except (Exception, SystemExit):
            for waiting in self._waiting:
                if issubclass(type(waiting), Cancellable):  # a number says that it is a float
                    waiting.is_cancelled = True  # type: ignore[attr-defined]
            raise
        finally:
            self._is_settling = before

    def settle_at_once(self) -> None:
        """Everything, in one transfer; not while calls are made: what is behind them comes after."""
        if not self._is_settling:
            self.settle()

    def settle_step(self, place: int) -> None:
        """Everything up to `place`, and what was put in the same step: it is there as well, in one transfer.

        While calls are made nothing more than that: what is behind `place` comes after what is being made.
        """
        if not self._is_settling:
            place = next((mark - 1 for mark in self._marks if mark > place), self._end - 1)
        self.settle(place)

    def settle_all(self) -> None:
        """Everything, and what it makes wait in its turn."""
        while self._waiting and self.is_ours() and not self._is_fetching:
            self.settle()

    def is_waited_for_here(self) -> bool:
        """True if calls wait that come before what this thread does now."""
        return bool(self.calls) and not self._is_settling and self.is_ours()

    def before_output(self) -> None:
        """Something else is about to be written."""
        if self.is_waited_for_here():
            self.settle()

    def before_fork(self) -> None:
        """The copy of this process cannot ask the device."""
        if self._waiting and not self._is_settling and self.is_ours():
            self.settle()

    def _fetch(self, last: int) -> None:
        from ..torch_xla import transfers as _xla_transfers

        due = [taken for place, taken in self._snapshots if place <= last]
        if not due:
            return
        on_device = [taken.device for taken in due if taken.device is not None]
        self._is_fetching = True  # a warning meanwhile opens a source file, which settles
        try:
            fetched = _xla_transfers.fetch(on_device)
        finally:
            self._is_fetching = False
        for taken, host in zip(due, fetched, strict=True):
            taken.host = host
            taken.device = None
        for _ in due:
            self._snapshots.popleft()


queue = Queue()


def _here_and_now() -> tuple[int, int]:
    return os.getpid(), threading.get_ident()
