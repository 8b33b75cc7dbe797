"""Pass a command's standard error on, and keep its end: a failure is explained from it."""

from __future__ import annotations

import contextlib
import os
import threading

_KEPT = 1 << 16  # bytes
_STDERR = 2
_PATIENCE = 2.0  # seconds for the last bytes, after all processes of the command have ended


class StderrCopy:
    """Copies what is written to `write_end` to our standard error.

    A terminal stays a terminal for the command, so its progress bars look the same.

    Attributes:
        write_end: the file descriptor for the command; `start` closes it in this process.
    """

    def __init__(self) -> None:
        self._read_end, self.write_end = _terminal() if os.isatty(_STDERR) else os.pipe()
        self._kept = b""
        self._thread = threading.Thread(target=self._copy, daemon=True)

    def start(self) -> None:
        """Begin to copy; the command has been started, or could not be."""
        os.close(self.write_end)
        self._thread.start()

    def end(self) -> str:
        """Return the end of what the command wrote."""
        self._thread.join(_PATIENCE)
        return self._kept.decode(errors="replace")

    def _copy(self) -> None:
        with contextlib.suppress(OSError):  # a terminal ends with an error, EIO
            while chunk := os.read(self._read_end, _KEPT):
                self._kept = (self._kept + chunk)[-_KEPT:]
                with contextlib.suppress(OSError):  # ours may be closed: the command goes on
                    _write(chunk)
        os.close(self._read_end)


def _write(chunk: bytes) -> None:
    while chunk:
        chunk = chunk[os.write(_STDERR, chunk) :]


def _terminal() -> tuple[int, int]:
    """Return a new terminal as large as the current one."""
    import fcntl
    import pty
    import termios
    import tty

    ours, theirs = pty.openpty()
    tty.setraw(theirs)  # our terminal translates line ends
    size = fcntl.ioctl(_STDERR, termios.TIOCGWINSZ, b"\0" * 8)
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, size)
    return ours, theirs
