"""A command as our child: signals passed on, and nothing of it left behind."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from types import FrameType

from .stderr_copy import StderrCopy

_ENDING = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT")
_OTHERS = ("SIGUSR1", "SIGUSR2", "SIGCONT")
_PATIENCE = 10.0  # seconds between asking a leftover to end and killing it
_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER


class Child:
    """Runs one command after the other. Created once, in the main thread.

    Attributes:
        ended_by: the signal that has asked us to end, or None.
        errors: the end of what the last command wrote to standard error.
    """

    def __init__(self) -> None:
        self.ended_by: int | None = None
        self.errors = ""
        self._process: subprocess.Popen[bytes] | None = None
        if sys.platform == "linux":  # orphans of the child become our children, to be found
            import ctypes

            ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)

    def run(self, words: Sequence[str], env: Mapping[str, str]) -> int:
        """The exit code; 128 and the signal's number where a signal ended it.

        Raises:
            OSError: it cannot be started.
        """
        if self.ended_by is not None:
            return 128 + self.ended_by
        # In a separate session: otherwise a Ctrl-C would reach it twice.
        copy = StderrCopy()
        with self._signals():
            try:
                self._process = subprocess.Popen(
                    words, env=env, start_new_session=True, stderr=copy.write_end
                )
            finally:
                copy.start()
            code = self._process.wait()
        _end_leftovers()
        self.errors = copy.end()
        return code if code >= 0 else 128 - code

    def pause(self, seconds: float) -> None:
        """Wait; a signal that ends us ends this, too."""
        end = time.monotonic() + seconds
        with self._signals():
            while self.ended_by is None and time.monotonic() < end:
                time.sleep(min(0.1, max(end - time.monotonic(), 0)))

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        names = [name for name in (*_ENDING, *_OTHERS) if hasattr(signal, name)]
        before = {name: signal.signal(getattr(signal, name), self._pass_on) for name in names}
        try:
            yield
        finally:
            for name, handler in before.items():
                signal.signal(getattr(signal, name), handler)

    def _pass_on(self, number: int, frame: FrameType | None) -> None:
        if signal.Signals(number).name in _ENDING:
            self.ended_by = number
        process = self._process
        if process is None or process.poll() is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            if number == signal.SIGINT:  # as a terminal does, to all of them
                os.killpg(process.pid, number)
            else:
                process.send_signal(number)


def _end_leftovers() -> None:
    """End what the command has left running: it would hold the device, and write into its files."""
    deadline = time.monotonic() + _PATIENCE
    number: int = signal.SIGTERM
    while True:
        left = _our_children()
        if not left:
            return
        if time.monotonic() > deadline:
            number = signal.SIGKILL
        for process in left:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(process, number)
        time.sleep(0.1)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass


def _our_children() -> list[int]:
    """Processes whose parent we are, except for the dead (Linux; elsewhere none are known)."""
    found = []
    for name in os.listdir("/proc") if sys.platform == "linux" else ():
        if name.isdigit():
            with contextlib.suppress(OSError):
                parent, state = _parent(int(name))
                if parent == os.getpid() and state != "Z":
                    found.append(int(name))
    return found


def _parent(process: int) -> tuple[int, str]:
    with open(f"/proc/{process}/stat", encoding="utf-8", errors="replace") as file:
        state, parent = file.read().rpartition(")")[2].split()[:2]
    return int(parent), state


def started(process: int) -> float:
    """Return when a process began, in seconds since the epoch; 0 if unknown."""
    try:
        with open(f"/proc/{process}/stat", encoding="utf-8", errors="replace") as file:
            ticks = int(file.read().rpartition(")")[2].split()[19])
        with open("/proc/stat", encoding="utf-8") as file:
            boot = next(int(line.split()[1]) for line in file if line.startswith("btime"))
    except (OSError, StopIteration):
        return 0.0
    return boot + ticks / os.sysconf("SC_CLK_TCK")
