"""Step marks that leave the random stream alone if nothing has been drawn, and the device if nothing is recorded.

torch_xla moves its generator on with every mark, so that dropout after a restart would depend on how
often something was marked in between, such as the broadcast of DistributedDataParallel (fact
1.32). Here a graph without random numbers moves nothing: as on CUDA, the stream depends on draws.

torch_xla's mark with nothing to launch waits until what was launched last has left the device's lock: one behind another, as
a device loader's behind that of the script, keeps the host from recording the next step while the device is at this one.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from .modules import torch_xla, xm

# Without functionalization `fill_` and its like write to the tensor that there is.
_COUNTS_ALL = os.environ.get("XLA_DISABLE_FUNCTIONALIZATION", "0") in ("", "0", "false")
# How many tensors had been computed at the last mark; None if not known.
_recorded_at_mark: int | None = None
count = 0  # of marks
# The generator's state at the beginning of the graph that is being recorded; None if not known.
_at_beginning: int | None = None


def mark(*, unless_empty: bool = False) -> None:
    """``torch_xla.sync()``; with ``unless_empty`` only where something has been computed since the last one.

    Collectives that change tensors in place are nothing to torch_xla's counter; ours are launched by themselves.
    """
    global _at_beginning, _recorded_at_mark, count
    count += 1
    if unless_empty and _recorded()[1] == _recorded_at_mark:
        xm._run_step_closures()
        return
    before: int = xm.get_rng_state()
    torch_xla.sync()
    if before == _at_beginning:
        xm.set_rng_state(before)
    else:
        _at_beginning = xm.get_rng_state()
    ended, recorded = _recorded()
    # An unfinished upload may be counted as begun, but has not ended.
    _recorded_at_mark = recorded if uploads.begun == ended and _COUNTS_ALL else None


class _Uploads:
    """The tensors that device loaders have made, in threads of theirs: they are no reason for a mark."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.begun = 0
        self.ended = 0

    @contextmanager
    def one(self) -> Iterator[None]:
        """Around the upload of one tensor."""
        with self._lock:
            self.begun += 1
        ended = 0
        try:
            yield
            ended = 1
        finally:
            with self._lock:
                self.begun += ended - 1
                self.ended += ended


uploads = _Uploads()


def _recorded() -> tuple[int, int]:
    """Return the number of finished uploads and of other tensors made so far, by all threads.

    Each operation makes one, except for those that only name a tensor anew, as ``detach`` does, and those
    that read one. torch_xla counts operations, too, as a metric, which takes a quarter of a millisecond to ask.
    """
    ended = uploads.ended
    made: int = torch_xla._XLAC._xla_counter_value("CreateXlaTensor") or 0
    return ended, made - ended


@contextmanager
def forked() -> Iterator[None]:
    """Around what puts the generator back into the state that it has now."""
    global _at_beginning
    beginning = _at_beginning
    try:
        yield
    finally:
        _at_beginning = beginning


def seeded() -> None:
    """The generator has been put into a state; nothing has been drawn since."""
    global _at_beginning
    _at_beginning = xm.get_rng_state()
