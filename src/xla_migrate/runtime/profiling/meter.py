"""The time of a training by kind and by line of the script, while a profile is open.

What a call of torch or torch_xla costs is measured around the call, without what is measured inside
of it. All other time of the training thread is Python's, and torch's recording of operations; a
thread that looks at the training thread's stack a hundred times a second tells which lines had it.
"""

from __future__ import annotations

import functools
import os
import sys
import sysconfig
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from types import FrameType
from typing import Any

import torch
from torch.autograd.profiler import record_function
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.utils.data.dataloader import _BaseDataLoaderIter

from ..loading import loader

# The kinds of time, as the summary shows them.
TRACING, LAUNCHING, COMPILING = "tracing", "launching", "compiling"
WAITING, READING, LOADING = "waiting for the device", "reading values", "waiting for data"
KINDS = (TRACING, LAUNCHING, COMPILING, WAITING, READING, LOADING)

_INTERVAL = 0.01  # seconds between two looks at the stack
_READS = "item tolist cpu numpy __bool__ __float__ __int__ __index__ __complex__".split()
_LIBRARIES = tuple(
    {
        os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep,
        os.path.dirname(torch.__file__) + os.sep,
        *(sysconfig.get_path(name) + os.sep for name in ("stdlib", "purelib", "platlib")),
        "<",
    }
)

Place = tuple[str, int]
NOWHERE: Place = ("", 0)


def place(frame: FrameType | None) -> Place:
    """The innermost line of the user's own code: no library's, not ours."""
    while frame is not None:
        if not frame.f_code.co_filename.startswith(_LIBRARIES):
            return frame.f_code.co_filename, frame.f_lineno
        frame = frame.f_back
    return NOWHERE


class Account:
    """Seconds by kind and line, and how many training steps they are of."""

    def __init__(self) -> None:
        self.start = time.perf_counter()
        self.seconds = 0.0
        self.steps = 0
        self.executing: float | None = None  # of the device, beside the rest; None: not measured
        self.measured: dict[tuple[str, Place], float] = defaultdict(float)
        self.sampled: dict[Place, float] = defaultdict(float)

    def close(self) -> None:
        """No more is added."""
        self.seconds = time.perf_counter() - self.start

    def kinds(self) -> dict[str, float]:
        """Seconds by kind; together they are the account's."""
        out = dict.fromkeys(KINDS, 0.0)
        for (kind, _), seconds in self.measured.items():
            out[kind] += seconds
        out[TRACING] = max(self.seconds - sum(out.values()), 0.0)
        return out

    def lines(self) -> list[tuple[Place, dict[str, float]]]:
        """Seconds of each line by kind, the dearest line first."""
        out: dict[Place, dict[str, float]] = defaultdict(lambda: dict.fromkeys(KINDS, 0.0))
        for (kind, where), seconds in self.measured.items():
            out[where][kind] += seconds
        seen = sum(self.sampled.values())
        share = self.kinds()[TRACING] / seen if seen else 0.0
        for where, seconds in self.sampled.items():
            out[where][TRACING] += seconds * share
        return sorted(out.items(), key=lambda item: -sum(item[1].values()))


class Meter:
    """Measures the thread that makes it, from ``start`` to ``stop``.

    Args:
        span: Makes a range of a name in the trace that is being recorded.
        spent_inside: Seconds so far of (compiling, waiting), as the backend counts them.
    """

    def __init__(
        self,
        span: Callable[[str], AbstractContextManager[Any]],
        spent_inside: Callable[[], tuple[float, float]],
    ) -> None:
        self.account = Account()
        self.span = span
        self._spent_inside = spent_inside
        self._seen = (0.0, 0.0)
        self._thread = threading.get_ident()
        self._nested: list[float] = []
        self._undo: list[Callable[[], None]] = []
        self._stopped = threading.Event()
        self._sampler = threading.Thread(target=self._sample, name="xla-migrate lines", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._seen = self._spent_inside()
        for name in _READS:
            self.wrap(torch.Tensor, name, READING, lambda args: args[0].device.type != "cpu")
        self.wrap(loader.DeviceIterator, "__next__", LOADING)
        self.wrap(_BaseDataLoaderIter, "__next__", LOADING)
        self._bridge_ranges()
        self._sampler.start()

    def stop(self) -> None:
        """End: everything is as it was."""
        self._stopped.set()
        while self._undo:
            self._undo.pop()()
        self._sampler.join()
        self.account.close()

    def next_account(self) -> Account:
        """Close the account and open another; the closed one."""
        closed, self.account = self.account, Account()
        closed.close()
        return closed

    def put(self, owner: Any, name: str, value: Any) -> None:
        """Replace an attribute until the end."""
        inherited = name not in vars(owner)
        before = getattr(owner, name)

        def undo() -> None:
            if (
                getattr(owner, name) is value
            ):  # otherwise another wrapper was added since, and this one stays
                delattr(owner, name) if inherited else setattr(owner, name, before)

        setattr(owner, name, value)
        self._undo.append(undo)

    def wrap(
        self, owner: Any, name: str, kind: str, applies: Callable[[Any], bool] | None = None
    ) -> None:
        """Measure the calls of a function by this kind."""
        function = getattr(owner, name)

        @functools.wraps(function)
        def measured(*args: Any, **kwargs: Any) -> Any:
            if self._stopped.is_set() or (applies is not None and not applies(args)):
                return function(*args, **kwargs)
            return self.measure(kind, function, *args, **kwargs)

        self.put(owner, name, measured)

    def measure(self, kind: str, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call ``function``; what it takes in the training thread is of this kind."""
        if threading.get_ident() != self._thread:
            return function(*args, **kwargs)
        where = place(sys._getframe(1))
        start = time.perf_counter()
        self._nested.append(0.0)
        try:
            with self.span(f"{kind}: {shown(where)}"):
                return function(*args, **kwargs)
        finally:
            took = time.perf_counter() - start
            own = took - self._nested.pop()
            if self._nested:
                self._nested[-1] += took
            self._add(kind, where, own)

    def _add(self, kind: str, where: Place, seconds: float) -> None:
        if self._stopped.is_set():  # the call that ended the profile goes on
            return
        if kind != LOADING:
            now = self._spent_inside()
            inside = zip((COMPILING, WAITING), now, self._seen, strict=True)
            for part, total, before in inside:
                share = min(total - before, seconds) if part == COMPILING or kind != READING else 0
                if share > 0:
                    self.account.measured[part, where] += share
                    seconds -= share
            self._seen = now
        self.account.measured[kind, where] += seconds

    def _bridge_ranges(self) -> None:
        """``record_function`` tells torch's own profiler alone; the trace gets its ranges, too."""
        enter: Any = record_function.__enter__
        leave: Any = record_function.__exit__

        def entered(this: Any) -> Any:
            out = enter(this)
            this._xla_migrate_span = self.span(this.name)
            this._xla_migrate_span.__enter__()
            return out

        def left(this: Any, *error: Any) -> Any:
            span = this.__dict__.pop("_xla_migrate_span", None)
            if span is not None:
                span.__exit__(None, None, None)
            return leave(this, *error)

        self.put(record_function, "__enter__", entered)
        self.put(record_function, "__exit__", left)

    def on_optimizer_step(self, action: Callable[[Any], None]) -> None:
        """Call ``action`` with each optimizer that has stepped in the training thread."""

        def after(optimizer: Any, args: Any, kwargs: Any) -> None:
            if threading.get_ident() == self._thread:
                action(optimizer)

        self._undo.append(register_optimizer_step_post_hook(after).remove)

    def on_backward(self, action: Callable[[], None]) -> None:
        """Call ``action`` before each backward pass."""
        backward = torch.autograd.backward

        @functools.wraps(backward)
        def noted(*args: Any, **kwargs: Any) -> Any:
            action()
            return backward(*args, **kwargs)

        self.put(torch.autograd, "backward", noted)

    def _sample(self) -> None:
        _name_this_thread("script lines")
        before = time.perf_counter()
        line = NOWHERE
        span: AbstractContextManager[Any] = nullcontext()
        span.__enter__()
        while not self._stopped.wait(_INTERVAL):
            frame = sys._current_frames().get(self._thread)
            where = place(frame)
            del frame
            now = time.perf_counter()
            if not self._nested:
                self.account.sampled[where] += now - before
            before = now
            if where != line:
                span.__exit__(None, None, None)
                line, span = where, self.span(shown(where))
                span.__enter__()
        span.__exit__(None, None, None)


def shown(where: Place) -> str:
    """``file:line``, relative to the working folder where it lies there."""
    name, line = where
    if not name:
        return "no line of the script"
    here = os.getcwd() + os.sep
    return f"{name.removeprefix(here)}:{line}"


def _name_this_thread(name: str) -> None:
    """The name under which the trace shows it (Linux)."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(15, name.encode(), 0, 0, 0)  # PR_SET_NAME
