"""A profile of a training: a trace for Perfetto and TensorBoard, and a summary by kind and line."""

from __future__ import annotations

import gc
import linecache
import os
import threading
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch.profiler import record_function

from .. import processes
from ..devices import device_type
from .meter import KINDS, Account, Meter, shown

_LINES = 10  # of the script, in a summary
_open: profile | None = None


class profile:  # noqa: N801  # a context, as torch.profiler.profile
    """Record a trace of what runs in this context, and account for its time.

    ``with xla.profile("profile") as run: train()``, then ``print(run.summary())``. On torch_xla the
    trace has a step marker per training step, the script's own ranges (``record_function``,
    ``range_push``) and a track of the script's lines beside torch_xla's events; xprof, TensorBoard
    and Perfetto open it. Elsewhere it is torch.profiler's.

    A step ends with the first step mark after an optimizer has stepped, so that
    accumulated batches are one step, and evaluation is none. With several replicas each profiles
    itself, into a separate folder (``rank0``, ...).

    Args:
        folder: Where the trace is written; made if it does not exist.
        skip: Training steps to leave out of the trace, at the start: the steps that compile. They are
            reported separately.
        steps: Steps to trace; the profile ends after them, though the context goes on. None: all.
        finished: Called when the profile has ended.

    Attributes:
        startup: The account of the steps that were skipped, or None.
        traced: The account of those in the trace.

    Raises:
        RuntimeError: for a profile inside of another.
        ValueError: if ``skip`` is below 0, or ``steps`` below 1.

    Example:
        >>> with xla.profile(folder / "trace") as run:
        ...     model(x).sum().backward()
        ...     xla.optimizer_step(optimizer)
        ...     xla.mark_step()
    """

    def __init__(
        self,
        folder: str | os.PathLike[str] = "profile",
        *,
        skip: int = 0,
        steps: int | None = None,
        finished: Callable[[], None] | None = None,
    ) -> None:
        if skip < 0 or (steps is not None and steps < 1):
            raise ValueError(
                f"profile(skip={skip}, steps={steps}): skip must be at least 0, steps at least 1"
            )
        self.folder = os.fspath(folder)
        self.startup: Account | None = None
        self.traced: Account | None = None
        self._skip, self._steps = skip, steps
        self._finished = finished
        self._stepped = self._backward = False
        self._done = 0
        self._running = False
        self._primary: int | None = None

    def __enter__(self) -> profile:
        global _open
        if _open is not None:
            raise RuntimeError("a profile is already running: torch_xla records one at a time")
        if processes.world_size() > 1:
            self.folder = os.path.join(self.folder, f"rank{processes.rank()}")
        self._recorder: Any = _recorder()
        self._meter = Meter(self._recorder.span, self._recorder.spent_inside)
        self._thread = threading.get_ident()
        self._recorder.attach(self._meter, self._marked)
        self._meter.on_optimizer_step(self._optimizer_step)
        self._meter.on_backward(self._backward_pass)
        self._meter.start()
        self._executed = self._recorder.executing()
        self._running, _open = True, self
        if not self._skip:
            self._recorder.start(self.folder)
        return self

    def __exit__(self, *error: Any) -> None:
        self._end()

    def summary(self) -> str:
        """The account for a terminal; empty before the profile has ended."""
        if self.traced is None:
            return ""
        parts = [("start", self.startup)] if self.startup is not None else []
        return "\n".join([*_table([*parts, ("traced", self.traced)]), *_by_line(self.traced)])

    def _backward_pass(self) -> None:
        if threading.get_ident() == self._thread:
            self._backward = True

    def _optimizer_step(self, optimizer: Any) -> None:
        self._stepped = True
        if device_type() != "xla":  # there a mark ends the step
            self._primary = self._primary or id(optimizer)
            if self._primary == id(optimizer):
                self._close(training=True)

    def _marked(self, launched: bool) -> None:
        """A step mark is over."""
        if not self._running or threading.get_ident() != self._thread:
            return
        if self._stepped:
            self._close(training=True)
        elif self._backward:
            if not _has_optimizer():  # the script updates its weights itself
                self._close(training=True)
        elif launched:
            self._close(training=False)

    def _close(self, training: bool) -> None:
        self._stepped = self._backward = False
        number = self._done - self._skip
        self._recorder.close_step(number if training else None)
        if training:
            self._done += 1
            self._meter.account.steps += 1
            if self._done == self._skip:
                self.startup = self._closed(self._meter.next_account)
                self._recorder.start(self.folder)
                return
            if self._steps is not None and self._done == self._skip + self._steps:
                self._end()
                return
        self._recorder.open_step()

    def _closed(self, close: Callable[[], Account]) -> Account:
        self._recorder.wait()
        account, executed = close(), self._recorder.executing()
        if executed is not None:
            account.executing = executed - (self._executed or 0.0)
        self._executed = executed
        return account

    def _end(self) -> None:
        global _open
        if not self._running:
            return
        self._running, _open = False, None
        if self._stepped:  # the last step, which nothing has marked
            self._recorder.close_step(self._done - self._skip)
            self._meter.account.steps += 1
        account = self._closed(self._stop)
        if self._skip and self.startup is None:
            self.startup, account = account, Account()  # it ended before the trace began
        else:
            self._recorder.stop()
        self.traced = account
        if self._finished is not None:
            self._finished()

    def _stop(self) -> Account:
        self._meter.stop()
        return self._meter.account


def _recorder() -> Any:
    if device_type() == "xla":
        from ..torch_xla import profile as _xla_profile

        return _xla_profile.Recorder()
    from ..eager import profile as _eager_profile

    return _eager_profile.Recorder()


def _has_optimizer() -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # objects of torch that warn when their class is asked for
        return any(isinstance(known, torch.optim.Optimizer) for known in gc.get_objects())


# Ranges that are pushed and popped, by thread.
_ranges = threading.local()


def range_push(name: str) -> int:
    """Open a range of this name in whatever trace is recorded; ``range_pop`` ends the latest.

    Args:
        name: As it stands in the trace.

    Returns:
        How many ranges were open before, as ``torch.cuda.nvtx.range_push``.

    Example:
        >>> xla.range_push("forward")
        0
        >>> depth = xla.range_pop()
    """
    if not hasattr(_ranges, "open"):
        _ranges.open = []
    opened: Any = record_function(str(name))
    opened.__enter__()
    _ranges.open.append(opened)
    return len(_ranges.open) - 1


def range_pop() -> int:
    """End the range that was pushed last in this thread; none, if there is none.

    Returns:
        How many ranges are open then; -1 if none was.

    Example:
        >>> depth = xla.range_push("forward")
        >>> xla.range_pop()
        0
    """
    opened = getattr(_ranges, "open", [])
    if not opened:
        return -1
    opened.pop().__exit__(None, None, None)
    return len(opened)


def _table(accounts: list[tuple[str, Account]]) -> list[str]:
    head: list[str] = []
    rows: dict[str, list[str]] = {name: [] for name in (*KINDS, "together", "device executing")}
    for title, account in accounts:
        head.append(f"{f'{title}, {account.steps} steps':>24}")
        whole = account.seconds or 1e-9
        for name, seconds in account.kinds().items():
            rows[name].append(_cell(seconds, seconds / whole, account.steps))
        rows["together"].append(_cell(account.seconds, None, account.steps))
        if account.executing is not None:
            share = account.executing / whole
            rows["device executing"].append(_cell(account.executing, share, account.steps))
    out = [" " * 24 + "".join(head), " " * 24 + f"{'s      %  ms/step':>24}" * len(head)]
    return [*out, *(f"{name:<24}{''.join(cells)}" for name, cells in rows.items() if cells)]


def _cell(seconds: float, share: float | None, steps: int) -> str:
    percent = "" if share is None else f"{100 * share:.0f}"
    per_step = f"{1000 * seconds / steps:.1f}" if steps else ""
    return f"{seconds:>9.2f}{percent:>7}{per_step:>8}"


def _by_line(account: Account) -> list[str]:
    lines = [item for item in account.lines() if sum(item[1].values()) >= 0.001 * account.seconds]
    if not lines:
        return []
    out = ["", "by line of the script:"]
    for where, kinds in lines[:_LINES]:
        seconds = sum(kinds.values())
        parts = sorted(((s, k) for k, s in kinds.items() if s >= 0.1 * seconds), reverse=True)
        what = ", ".join(f"{k} {s:.2f}" for s, k in parts)
        text = linecache.getline(*where).strip() if where[0] else ""
        out.append(f"{seconds:>9.2f} s {100 * seconds / account.seconds:>3.0f} %  {shown(where)}")
        out.append(f"{'':>18}{what}{f' | {text}' if text else ''}")
    return out
