"""Is an error of the original its own, or caused by verify's hooks? It runs once without them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ..judge.failures import Fault
from ..judge.observed import ObservedRun

_LEAST = 20.0  # seconds
_PASSED = (Fault.NO_STEP, Fault.TIMEOUT)  # nothing counts steps, and nothing stops it after some


def blame_hooks(failed: ObservedRun, without_hooks: Callable[[float], ObservedRun]) -> None:
    """Change the failure of an original that runs without hooks to one of the harness.

    Args:
        failed: the run that failed.
        without_hooks: runs the original again, for so many seconds at most.
    """
    failure = failed.failure
    if failure is None or failure.fault not in (Fault.SCRIPT, Fault.HARNESS):
        return
    again = without_hooks(max(_LEAST, 3 * failed.seconds)).failure
    if again is None or again.fault in _PASSED:
        message = (
            f"{failure.message}; without the hooks of verify the script runs: please report this"
        )
        failed.failure = replace(failure, fault=Fault.HARNESS, message=message)
