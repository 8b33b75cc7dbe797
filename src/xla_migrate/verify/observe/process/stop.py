"""Ending the script after so many optimizer steps."""

from __future__ import annotations


class TrainingStopped(SystemExit):
    """Ends the script as `sys.exit(0)` does: `finally` and `with` run, `except Exception` does not see it."""

    def __init__(self) -> None:
        super().__init__(0)
