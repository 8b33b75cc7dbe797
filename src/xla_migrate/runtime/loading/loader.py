"""The device loader: batches on the device ahead of use, and a step mark after each."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any

from torch.utils.data import DataLoader, default_collate

from .. import _tuned
from .._backend import Sender, backend
from .._host_random import AheadUnlessItDraws
from ..deferred.reading import flush
from ..devices import DeviceSpec, xla_device
from ..replicas.spmd import batches_at_once, joined, length
from .host_parts import KeepingSender, Part
from .limits import batches_ahead
from .read_ahead import Ahead, ReadAhead, ReadAheadUpTo


@dataclass(frozen=True)
class Tuning:
    """torch_xla's arguments for a device loader, and what stays on the host."""

    batchdim: int = 0
    batches_per_execution: int = 1
    loader_prefetch_size: int | None = None
    device_prefetch_size: int | None = None
    host_to_device_transfer_threads: int = 1
    input_sharding: Any = None
    host: tuple[Part, ...] = ()

    def __post_init__(self) -> None:
        least = {
            "batches_per_execution": 1,
            "host_to_device_transfer_threads": 1,
            "loader_prefetch_size": 0,
            "device_prefetch_size": 0,
        }
        for name, minimum in least.items():
            value = getattr(self, name)
            if value is not None and value < minimum:
                raise ValueError(f"MpDeviceLoader({name}={value}): must be at least {minimum}")

    @property
    def asks_for_prefetching(self) -> bool:
        """True if a prefetch size is given."""
        return (self.loader_prefetch_size, self.device_prefetch_size) != (None, None)


class MpDeviceLoader:
    """A loader whose batches are on the device.

    In place of a loader and the ``.to(device)`` lines below it. Each turn of a loop over it is
    marked as a step, and so is the last one, also when the loop is left by ``break``.

    Batches keep their types; numpy arrays stay numpy arrays. Attributes, also those that are set,
    are the wrapped loader's (``.dataset``, ``.sampler.set_epoch``), and so is ``len``. Wrapping
    twice is wrapping once. An exception of the dataset is raised in the loop. Trainium has no
    float64: such tensors become float32 there.

    A ``DataLoader`` is read ahead in a thread, so its ``__getitem__`` runs ahead of the loop
    (fact 1.86). ``loader_prefetch_size=0``, or XLA_MIGRATE_READ_AHEAD=0 in the environment,
    reads each batch when the loop needs it, as plain PyTorch does. Unless a prefetch size is
    given, these loaders are read in the same way, so that random numbers and the order of data are
    the same as with the plain loader:

    - a loader with a sampler or batch sampler that is not PyTorch's own
    - a loader without workers whose samples draw random numbers, or an ``IterableDataset`` without workers
    - a loader that has a ``state_dict``, or whose sampler or dataset has one
    - any other iterable

    On CUDA, a loader with worker processes is read, pinned and copied on a side stream a few
    batches ahead, on native TPU and Neuron devices read and sent in threads; one without is read
    when asked. On the CPU iteration is plain.

    Args:
        loader: A DataLoader, or anything that can be iterated. None, for no loader, stays None.
        device: Where to, as for ``xla_device``; the accelerator by default.
        batchdim: Accepted as torch_xla accepts it, and without effect there too.
        batches_per_execution: Batches per step mark; with gradient accumulation over k batches,
            k makes one graph of the k (aligned with the first batch: fact 1.89).
        loader_prefetch_size: Batches read and not yet sent, at most; 16 on XLA.
        device_prefetch_size: Batches waiting on the device, at most; 8 on XLA.
        host_to_device_transfer_threads: Threads that send. The order of batches is kept.
        input_sharding: SPMD: a ShardingSpec, or a dict of them for batches that are dicts.
        host: Parts of a batch that stay on the host, as the loader has made them: indices of a tuple, keys
            of a dict, fields, attributes. A batch that lacks one is moved whole.

    Raises:
        TypeError: for any other argument.

    Example:
        >>> for batch in xla.MpDeviceLoader(loader):
        ...     model(batch).sum().backward()
        ...     xla.optimizer_step(optimizer)
    """

    _loader: Any
    _device: DeviceSpec
    _tuning: Tuning
    _latest: Callable[[], DeviceIterator | None]

    # The state is set here, and there is no __init__, which would run again on a loader that is
    # returned as it is.
    def __new__(
        cls,
        loader: Iterable[Any],
        device: DeviceSpec = None,
        *,
        batchdim: int = 0,
        batches_per_execution: int = 1,
        loader_prefetch_size: int | None = None,
        device_prefetch_size: int | None = None,
        host_to_device_transfer_threads: int = 1,
        input_sharding: Any = None,
        host: Sequence[Part] = (),
    ) -> MpDeviceLoader:
        tuning = Tuning(
            batchdim,
            batches_per_execution,
            loader_prefetch_size,
            device_prefetch_size,
            host_to_device_transfer_threads,
            input_sharding,
            tuple(host),
        )
        if loader is None:
            return None
        if issubclass(type(loader), MpDeviceLoader):
            if tuning == Tuning():
                return loader  # type: ignore[return-value]
            loader = loader._loader  # type: ignore[attr-defined]
        return _make(loader, device, tuning)

    def __iter__(self) -> Iterator[Any]:
        device = xla_device(self._device)
        if device.type == "cpu":
            return iter(self._loader)
        if getattr(self._loader, "persistent_workers", False):
            # All iterators of such a loader are one and the same, which two threads must not read.
            latest = self._latest()
            if latest is not None:
                latest.close()
        iterator = _device_iterator(self._loader, device, self._tuning)
        object.__setattr__(self, "_latest", weakref.ref(iterator))
        return iterator

    def __len__(self) -> int:
        return length(self._loader)

    def __reversed__(self) -> Iterator[Any]:
        return iter(_make(reversed(self._loader), self._device, self._tuning))

    def __bool__(self) -> bool:
        return bool(self._loader)

    def __getattr__(self, name: str) -> Any:
        # Asked only for what this object lacks. Special methods are not the loader's to lend, and
        # _loader is missing while this object is being copied.
        if name == "_loader" or (name.startswith("__") and name.endswith("__")):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self._loader, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._loader, name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self._loader, name)

    def __dir__(self) -> list[str]:
        return sorted({*object.__dir__(self), *dir(self._loader)})

    def __repr__(self) -> str:
        return f"MpDeviceLoader({self._loader!r})"

    def __reduce__(self) -> Any:
        return _make, (self._loader, self._device, self._tuning)

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        """The loader's class, so that ``isinstance(loader, DataLoader)`` stays true."""
        return self._loader.__class__


class _OneShot(MpDeviceLoader):
    """Around an iterator, such as a generator, from which scripts also take by ``next``."""

    _own: Iterator[Any] | None = None

    def __next__(self) -> Any:
        if self._own is None:
            object.__setattr__(self, "_own", iter(self))
        assert self._own is not None
        return next(self._own)


def _make(loader: Iterable[Any], device: DeviceSpec, tuning: Tuning) -> MpDeviceLoader:
    tuning = _tuned.for_loader(tuning)
    _tuned.set_workers(loader)
    made = object.__new__(_OneShot if hasattr(type(loader), "__next__") else MpDeviceLoader)
    state = {"_loader": loader, "_device": device, "_tuning": tuning, "_latest": lambda: None}
    for name, value in state.items():
        object.__setattr__(made, name, value)
    return made


class DeviceIterator:
    """One pass over a loader, on the device."""

    def __init__(
        self, pull: Callable[[], Any], close: Callable[[], None], every: int, length: Any
    ) -> None:
        self._pull = pull
        self._length = length
        self._ended = ""
        self._marks = _Marks(every)
        # Run when this iterator is dropped, as `break` does; neither holds on to it.
        self._close = weakref.finalize(self, close)
        self._mark_last = weakref.finalize(self, self._marks.last)
        self._mark_last.atexit = False

    def __iter__(self) -> DeviceIterator:
        return self

    def __len__(self) -> int:
        return len(self._length)

    def __next__(self) -> Any:
        if not self._close.alive:
            if self._ended:
                raise RuntimeError(self._ended)
            raise StopIteration
        self._marks.next()
        try:
            return self._pull()
        except StopIteration:
            self._close()
            self._mark_last()
            flush()
            raise

    def close(self) -> None:
        """End this pass before its end."""
        self._ended = "this pass over the loader was ended by a newer one (persistent_workers=True)"
        self._close()
        self._mark_last()


class _Marks:
    """Cuts the graph before the first batch, then after every so many, then after the last."""

    def __init__(self, every: int) -> None:
        self._every = every
        self._left = 0
        self._pending = False
        self._place = _place()

    def next(self) -> None:
        if self._left == 0:
            backend().mark_step(unless_empty=True)
            self._left = self._every
        self._left -= 1
        if not self._pending:
            self._pending = True
            _tuned.pass_begins()

    def last(self) -> None:
        # The garbage collector may run this anywhere, in a forked worker too, where touching the
        # device would hang.
        if self._pending and _place() == self._place:
            self._pending = False
            _tuned.pass_ends()
            backend().mark_step(unless_empty=True)


def _place() -> tuple[int, int]:
    return os.getpid(), threading.get_ident()


def _device_iterator(loader: Any, device: Any, tuning: Tuning) -> DeviceIterator:
    sender = backend().sender(device, tuning.input_sharding, not _makes_new_batches(loader))
    if tuning.host:
        sender = KeepingSender(sender, tuning.host)
    # Made here and not in a thread: it draws the seed of the workers and starts them.
    source = joined(loader) if batches_at_once() > 1 else iter(loader)
    few = os.environ.get("XLA_MIGRATE_BATCHES_PER_LOOP")  # set by `xla-migrate precompile`
    if few:
        source = islice(source, int(few))
    read, sent = _prefetch_sizes(loader, tuning)
    if read and sent:
        threads = tuning.host_to_device_transfer_threads
        read_all = partial(ReadAhead, send=sender.send, read=read, sent=sent, senders=threads)
        most = None if tuning.asks_for_prefetching else batches_ahead(loader)

        def make(done: int) -> Ahead:
            if most is None:
                return read_all(source)
            return ReadAheadUpTo(source, sender.send, max(0, most - done), read_all)

        in_process = getattr(loader, "num_workers", None) == 0 and not tuning.asks_for_prefetching
        ahead = AheadUnlessItDraws(loader, source, sender.send, make) if in_process else make(0)
        pull, close = _received(sender, ahead.pull), ahead.close
    else:
        pull, close = _received(sender, lambda: sender.send(next(source))), _nothing_to_close
    return DeviceIterator(pull, close, tuning.batches_per_execution, loader)


def _received(sender: Sender, pull: Callable[[], Any]) -> Callable[[], Any]:
    return lambda: sender.receive(pull())


def _nothing_to_close() -> None:
    return


def _prefetch_sizes(loader: Any, tuning: Tuning) -> tuple[int, int]:
    """Return the numbers of batches to read ahead and to send ahead; zeros for none."""
    asked = (tuning.loader_prefetch_size, tuning.device_prefetch_size)
    if 0 in asked or not _tuned.reads_ahead():
        return 0, 0
    if not tuning.asks_for_prefetching and not (
        # Others may hand out a buffer again, or go on where the loop left them.
        isinstance(loader, DataLoader)
        and backend().reads_ahead(loader.num_workers)
        and not _tells_its_place(loader)
        and batches_ahead(loader) != 0
    ):
        return 0, 0
    read, sent = backend().prefetch_sizes()
    return asked[0] or read, asked[1] or sent


def _tells_its_place(loader: Any) -> bool:
    """True if checkpoints may hold how far it was read: that must not be ahead of the loop."""
    parts = [loader]
    if loader.num_workers == 0:
        parts += [loader.sampler, loader.batch_sampler, loader.dataset]
    return any(callable(getattr(part, "state_dict", None)) for part in parts)


def _makes_new_batches(loader: Any) -> bool:
    """True if no batch is a buffer that the next one overwrites while it is still being sent."""
    return isinstance(loader, DataLoader) and (
        loader.num_workers > 0
        or (loader.batch_sampler is not None and loader.collate_fn is default_collate)
    )
