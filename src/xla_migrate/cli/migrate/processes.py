"""Work spread over processes, once it has turned out to take long enough.

It begins in this process, with the largest piece. When a few hundredths of a second have gone and the rest is worth
it, the process forks: the children share all that is loaded, take batches from one queue as they get free, and hand results
back. Measured: a fork is 1-3 ms, a pool of `concurrent.futures` 40 ms of imports before it does anything.
"""

from __future__ import annotations

import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, TypeVar

    T = TypeVar("T")
    R = TypeVar("R")

_TRY = 0.02  # seconds in one process before anything is decided
_WORTH = 0.04  # seconds of remaining work that are worth forking for
_BATCHES_PER_PROCESS = 24
_MAX_BATCHES = 4000  # their numbers must fit into a pipe, 4 bytes each


def spread(
    items: Sequence[T],
    weights: Sequence[int],
    do: Callable[[T], R],
    jobs: int,
    done: Callable[[int, R], None],
    lost: Callable[[T, str], R],
) -> None:
    """Call `done(k, do(items[k]))` for every item, in any order.

    Args:
        items: what must be done.
        weights: how long each takes, in any unit.
        do: does one; what it returns must be picklable. It may not raise.
        jobs: the most processes to use.
        done: gets each result, in this process.
        lost: makes the result of an item whose process died, from the reason.
    """
    order = sorted(range(len(items)), key=lambda k: (-weights[k], k))
    total, did, start = sum(weights), 0, time.monotonic()
    for position, k in enumerate(order):
        if jobs > 1 and did and hasattr(os, "fork"):
            elapsed = time.monotonic() - start
            if elapsed > _TRY and elapsed * (total - did) / did > _WORTH:
                batches = _batches(order[position:], weights, jobs)
                _in_processes(batches, items, do, jobs, done, lost)
                return
        done(k, do(items[k]))
        did += weights[k]


def _batches(order: list[int], weights: Sequence[int], jobs: int) -> list[list[int]]:
    """Pieces of about the same weight, the heaviest items first."""
    total = sum(weights[k] for k in order)
    share = total // min(jobs * _BATCHES_PER_PROCESS, _MAX_BATCHES) + 1
    batches: list[list[int]] = []
    filled = share
    for k in order:
        if filled >= share:
            batches.append([])
            filled = 0
        batches[-1].append(k)
        filled += weights[k]
    return batches


def _in_processes(
    batches: list[list[int]],
    items: Sequence[T],
    do: Callable[[T], R],
    jobs: int,
    done: Callable[[int, R], None],
    lost: Callable[[T, str], R],
) -> None:
    missing = _collect(batches, items, do, min(jobs, len(batches)), done)
    # A process died in the middle of a batch: each of its items on its own, to see which it was.
    for k in (k for batch in missing for k in batch):
        if _collect([[k]], items, do, 1, done):
            done(k, lost(items[k], "the process that analysed it died"))


def _collect(
    batches: list[list[int]],
    items: Sequence[T],
    do: Callable[[T], R],
    jobs: int,
    done: Callable[[int, R], None],
) -> list[list[int]]:
    """Do the batches in `jobs` processes; those that were not finished."""
    import pickle
    import select

    queue, feed = os.pipe()
    os.write(feed, b"".join(number.to_bytes(4, "little") for number in range(len(batches))))
    os.close(feed)
    sys.stdout.flush()
    sys.stderr.flush()
    children: dict[int, int] = {}  # read end of its pipe -> process
    unfinished = dict(enumerate(batches))
    try:
        for _ in range(jobs):
            ours, theirs = os.pipe()
            child = os.fork()
            if child == 0:
                _child(queue, theirs, batches, items, do)
            os.close(theirs)
            children[ours] = child
        buffers = {pipe: bytearray() for pipe in children}
        while buffers:
            ready, _, _ = select.select(list(buffers), [], [])
            for pipe in ready:
                data = os.read(pipe, 1 << 20)
                if not data:
                    del buffers[pipe]
                    continue
                buffers[pipe] += data
                for message in _messages(buffers[pipe]):
                    number, results = pickle.loads(message)
                    del unfinished[number]
                    for k, result in results:
                        done(k, result)
    except BaseException:
        import signal

        for child in children.values():
            os.kill(child, signal.SIGINT)
        raise
    finally:
        os.close(queue)
        for pipe, child in children.items():
            os.close(pipe)
            os.waitpid(child, 0)
    return list(unfinished.values())


def _messages(buffer: bytearray) -> list[bytes]:
    """The complete messages at the beginning of `buffer`, taken off it."""
    found = []
    while len(buffer) >= 4:
        length = int.from_bytes(buffer[:4], "little")
        if len(buffer) < 4 + length:
            break
        found.append(bytes(buffer[4 : 4 + length]))
        del buffer[: 4 + length]
    return found


def _child(
    queue: int, out: int, batches: list[list[int]], items: Sequence[Any], do: Callable[[Any], Any]
) -> None:
    """Do batches until there are none; never returns."""
    import pickle
    import signal

    # How it is ended; the jobs of a shell's background ignore it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    code = 1
    try:
        while number := os.read(queue, 4):
            index = int.from_bytes(number, "little")
            results = [(k, do(items[k])) for k in batches[index]]
            message = pickle.dumps((index, results))
            view = memoryview(len(message).to_bytes(4, "little") + message)
            while view:
                view = view[os.write(out, view) :]
        code = 0
    except (KeyboardInterrupt, BrokenPipeError):
        code = 130
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        os._exit(code)
