"""Step marks that leave the random stream alone where nothing has been drawn.

torch_xla moves its generator on with every mark, so that dropout after a restart would depend on how
often something was marked in between, such as the broadcast of DistributedDataParallel (fact
1.32). Here a graph without random numbers moves nothing: as on CUDA, the stream depends on draws.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from .modules import torch_xla, xm

# The generator's state at the beginning of the graph that is being recorded; None if not known.
_at_beginning: int | None = None


def mark() -> None:
    """``torch_xla.sync()``."""
    global _at_beginning
    before: int = xm.get_rng_state()
    torch_xla.sync()
    if before == _at_beginning:
        xm.set_rng_state(before)
    else:
        _at_beginning = xm.get_rng_state()


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
