"""Batches that are read and sent to the device ahead of use, in separate threads.

One thread reads the source, others send what was read, in order. An exception of the source is
handed to whoever waits for that batch (torch_xla's loader ends the epoch instead, silently:
fact 1.82), a batch that is None is a batch (1.83), and ``close`` ends every thread (1.85).
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from functools import partial
from itertools import islice
from typing import Any, Generic, Protocol, TypeVar

import torch

T = TypeVar("T")

# A source that is blocked cannot be interrupted. Its daemon thread ends when it returns.
_CLOSE_SECONDS = 5.0


class Ended(Exception):
    """Nothing more comes through this channel."""


class Channel(Generic[T]):
    """A bounded queue that either side can end."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._items: deque[T] = deque()
        self._changed = threading.Condition()
        self._finished = False

    def put(self, item: T) -> None:
        """Wait for room; raises Ended once the channel is closed."""
        with self._changed:
            while len(self._items) >= self._capacity and not self._finished:
                self._changed.wait()
            if self._finished:
                raise Ended
            self._items.append(item)
            self._changed.notify_all()

    def get(self) -> T:
        """Wait for an item; raises Ended once there will be none."""
        with self._changed:
            while not self._items:
                if self._finished:
                    raise Ended
                self._changed.wait()
            item = self._items.popleft()
            self._changed.notify_all()
            return item

    def finish(self) -> None:
        """Nothing will be put any more; what is inside can still be taken."""
        with self._changed:
            self._finished = True
            self._changed.notify_all()

    def close(self) -> None:
        """Drop what is inside and release everyone who waits."""
        with self._changed:
            self._items.clear()
        self.finish()


class Ahead(Protocol):
    """A reader of batches ahead of the loop."""

    def start(self) -> None:
        """Begin to read."""

    def pull(self) -> Any:
        """The next item, sent."""

    def close(self) -> None:
        """End the threads and drop what they hold."""


class ReadAheadUpTo:
    """Reads some items ahead, and the rest of the source on request."""

    def __init__(
        self,
        source: Iterator[Any],
        send: Callable[[Any], Any],
        count: int,
        make: Callable[[Iterator[Any]], Ahead],
    ) -> None:
        """Read ``count`` items of ``source`` by what ``make`` makes for them."""
        self._source, self._send = source, send
        self._ahead: Ahead | None = make(islice(source, count))

    def start(self) -> None:
        """Begin to read."""
        if self._ahead is not None:
            self._ahead.start()

    def pull(self) -> Any:
        """The next item, sent. Raises what the source or ``send`` raised, or StopIteration."""
        if self._ahead is not None:
            try:
                return self._ahead.pull()
            except StopIteration:
                self.close()
        return self._send(next(self._source))

    def close(self) -> None:
        """End the threads and drop what they hold."""
        if self._ahead is not None:
            self._ahead.close()
            self._ahead = None


class ReadAhead:
    """Runs ``send`` over the items of a source, some items ahead of ``pull``."""

    def __init__(
        self,
        source: Iterator[Any],
        send: Callable[[Any], Any],
        *,
        read: int,
        sent: int,
        senders: int,
    ) -> None:
        """Nothing runs before ``start``, or the first ``pull``.

        Args:
            source: Read in one thread, to its end.
            send: Called in the sending threads.
            read: How many items may wait to be sent.
            sent: How many may wait on the device.
            senders: How many threads send.
        """
        self._read: Channel[Future[Any]] = Channel(read)
        self._sent: Channel[Future[Any]] = Channel(sent)
        in_order = threading.Lock()
        grad_mode = torch.is_grad_enabled()
        work: list[Callable[[], None]] = [partial(_read, source, self._read, grad_mode)]
        work += [partial(_send, self._read, self._sent, in_order, send)] * senders
        self._threads = [
            threading.Thread(target=target, name="xla-migrate loader", daemon=True)
            for target in work
        ]
        self._started = False

    def start(self) -> None:
        """Begin to read."""
        if not self._started:
            self._started = True
            for thread in self._threads:
                thread.start()

    def pull(self) -> Any:
        """The next item, sent. Raises what the source or ``send`` raised, or StopIteration."""
        self.start()
        try:
            future = self._sent.get()
        except Ended:
            raise StopIteration from None
        return future.result()

    def close(self) -> None:
        """End the threads and drop what they hold."""
        self._read.close()
        self._sent.close()
        if self._started:
            for thread in self._threads:
                if thread is not threading.current_thread():
                    thread.join(_CLOSE_SECONDS)
        self._threads.clear()


def _read(source: Iterator[Any], read: Channel[Future[Any]], grad_mode: bool) -> None:
    """Read the source to its end. After an exception it is read again, as the user's loop might do."""
    torch.set_grad_enabled(grad_mode)
    try:
        while True:
            item: Future[Any] = Future()
            try:
                item.set_result(next(source))
            except StopIteration:
                return
            except BaseException as error:
                item.set_exception(error)
            read.put(item)
            del item  # While waiting, hold no batch beyond those asked for.
    except Ended:
        return
    finally:
        read.finish()


def _send(
    read: Channel[Future[Any]],
    sent: Channel[Future[Any]],
    in_order: threading.Lock,
    send: Callable[[Any], Any],
) -> None:
    """Send the items that were read. Each keeps its place in ``sent`` while several are being sent."""
    try:
        while True:
            place: Future[Any] = Future()
            with in_order:
                item = read.get()
                sent.put(place)
            try:
                place.set_result(send(item.result()))
            except BaseException as error:
                place.set_exception(error)
            del item, place
    except Ended:
        sent.finish()
