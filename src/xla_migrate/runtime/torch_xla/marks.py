"""Step marks that leave the random stream alone where nothing has been drawn, and the device where nothing is recorded.

torch_xla moves its generator on with every mark, so that dropout after a restart would depend on how
often something was marked in between, such as the broadcast of DistributedDataParallel (fact
1.32). Here a graph without random numbers moves nothing: as on CUDA, the stream depends on draws.

torch_xla's mark with nothing to launch waits until what was launched last has left the device's lock: one behind another, as
a device loader's behind that of the script, keeps the host from recording the next step while the device is at this one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from .modules import torch_xla, xm

# How many operations had been recorded at the last mark; -1 if not known.
_recorded_at_mark = -1
# The generator's state at the beginning of the graph that is being recorded; None if not known.
_at_beginning: int | None = None


def mark(*, unless_empty: bool = False) -> None:
    """``torch_xla.sync()``; with ``unless_empty`` only where an operation has been recorded since the last one.

    Collectives that change tensors in place are no operations to torch_xla's counter; ours are launched by themselves.
    """
    global _at_beginning, _recorded_at_mark
    recorded = _recorded()
    if unless_empty and recorded == _recorded_at_mark:
        xm._run_step_closures()
        return
    before: int = xm.get_rng_state()
    torch_xla.sync()
    if before == _at_beginning:
        xm.set_rng_state(before)
    else:
        _at_beginning = xm.get_rng_state()
    _recorded_at_mark = _recorded()


def _recorded() -> int:
    """The number of operations recorded so far, by all threads; uploads are none."""
    found = torch_xla._XLAC._xla_metric_data("LazyTracing")
    return int(found[0]) if found else 0


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
