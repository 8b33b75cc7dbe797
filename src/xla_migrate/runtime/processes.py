"""Replicas: which one this is, how they are started, and what they tell each other."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from . import _backend, _launchers


def rank() -> int:
    """The number of this replica among all, from 0. Does not initialise the device.

    Returns:
        0 if there is one replica.

    Example:
        >>> torch.manual_seed(7 + xla.rank())
        <torch._C.Generator object at ...>
    """
    return dist.get_rank() if in_group() else _backend.backend().replica()[0]


def local_rank() -> int:
    """The number of this replica on its host, from 0. Does not initialise the device.

    Returns:
        0 if there is one replica.

    Example:
        >>> xla.local_rank()
        0
    """
    return _backend.backend().replica()[1]


def world_size() -> int:
    """Return the number of replicas. Does not initialise the device.

    Returns:
        1 if there is no process group.

    Example:
        >>> batch_size = 256 // xla.world_size()
    """
    return dist.get_world_size() if in_group() else _backend.backend().replica()[2]


def is_master() -> bool:
    """True if this is the replica that writes files and logs.

    Returns:
        True or False; True if there is one replica.

    Example:
        >>> if xla.is_master():
        ...     print("epoch 1")
        epoch 1
    """
    return rank() == 0


def rendezvous(tag: str = "rendezvous") -> None:
    """Wait until every replica is here. All of them have to call it, with the same tag.

    Args:
        tag: A name for this place.

    Example:
        >>> if xla.is_master():
        ...     pass  # download the data
        >>> xla.rendezvous("downloaded")
    """
    if world_size() > 1:
        _backend.backend().rendezvous(tag)


def launch(
    fn: Callable[..., Any],
    args: Sequence[Any] = (),
    nprocs: int | None = None,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
    *,
    of_all_hosts: bool = False,
) -> Any:
    """``torch.multiprocessing.spawn`` for the devices of this host: ``fn(local_rank, *args)``.

    If there is one device ``fn`` runs in this process, and so it does under torchrun, which has
    started the processes already.

    Args:
        fn: What each process runs.
        args: Its arguments after the rank.
        nprocs: How many processes; one for each device by default.
        join: Wait for them. Otherwise the answer has a ``join`` method.
        daemon: As for ``torch.multiprocessing.spawn``.
        start_method: As for ``torch.multiprocessing.spawn``.
        of_all_hosts: As ``xmp.spawn`` does: the processes are replicas of one training, without a call of
            ``init_process_group``, and ``fn`` receives the rank among all hosts. Under torchrun it receives the rank on
            this host, as with ``torch_xla.launch``.

    Returns:
        None; with ``join=False`` an object with ``join``.

    Raises:
        ValueError: if ``nprocs`` is below 1, or not what the host has on XLA; on XLA for
            ``join=False``.

    Example:
        >>> if __name__ == "__main__":
        ...     xla.launch(main, args=("config.yaml",))
    """
    if nprocs is not None and nprocs < 1:
        raise ValueError(f"launch(nprocs={nprocs}): must be at least 1")
    if of_all_hosts and not _launchers.has_agent():
        fn = _OfAllHosts(fn)
    if world_size() > 1:
        fn(local_rank(), *args)
    else:
        count = _backend.backend().device_count() if nprocs is None else nprocs
        if count > 1:
            options: dict[str, Any] = {"nprocs": count, "join": join, "daemon": daemon}
            options["start_method"] = start_method
            if of_all_hosts and not _backend.uses_torch_xla():
                fn = _launchers.Told(fn, count)
            return _backend.backend().spawn(fn, tuple(args), options)
        with _group_ends_with_it():
            fn(0, *args)
    return None if join else Done()


class _OfAllHosts:
    """The function that a process runs if it needs its rank among all hosts."""

    def __init__(self, fn: Callable[..., Any]) -> None:
        self._fn = fn

    def __call__(self, local_rank: int, *args: Any) -> Any:
        return self._fn(rank() if world_size() > 1 else local_rank, *args)


def init_process_group(
    backend: str | None = None,
    init_method: str | None = None,
    timeout: timedelta | None = None,
    world_size: int = -1,
    rank: int = -1,
    store: Any = None,
    group_name: str = "",
    pg_options: Any = None,
    device_id: Any = None,
) -> None:
    """``torch.distributed.init_process_group`` with the backend that fits the device.

    If there is one replica, no address, port or environment variable is needed. If rank and world
    size are given, such as SLURM's or MPI's, they become this replica's from then on, also in the
    environment.

    Args:
        backend: What the CUDA script had; ``"nccl"`` means the device's own.
        init_method: As for torch; torch_xla's "xla://" is the launcher's elsewhere.
        timeout: As for torch.
        world_size: How many replicas there are.
        rank: Which of them this is.
        store: As for torch.
        group_name: As for torch.
        pg_options: As for torch, on CUDA.
        device_id: As for torch, on CUDA.

    Raises:
        ValueError: if the rank is not below the world size.
        RuntimeError: on accelerators, where torch_xla counts replicas in another way.

    Example:
        >>> xla.init_process_group("nccl")
        >>> xla.world_size()
        1
    """
    if init_method == "xla://":
        if backend == "gloo" and _backend.uses_torch_xla() and _world_size() == 1:
            # The hosts of SPMD, each of which is one replica of one to torch_xla, and to us.
            importlib.import_module("torch_xla.distributed.xla_backend")
            dist.init_process_group(backend, init_method, timeout)
            return
        init_method, backend = None, None if backend == "xla" else backend
    rank, given = _launchers.of_address(init_method, rank, world_size)
    size = given if given > 0 else _world_size()
    if rank >= size:
        raise ValueError(
            f"init_process_group: rank {rank} of {size} replicas. With ranks of SLURM or MPI, "
            "world_size is SLURM_NTASKS or OMPI_COMM_WORLD_SIZE"
        )
    options: dict[str, Any] = {"backend": backend, "timeout": timeout, "store": store}
    options |= {"group_name": group_name, "pg_options": pg_options, "device_id": device_id}
    options = {name: value for name, value in options.items() if value not in (None, "")}
    if size == 1:
        options |= {"store": dist.HashStore(), "rank": 0, "world_size": 1}  # type: ignore[attr-defined]
    else:
        if _launchers.has_agent() and (init_method or "").startswith(("tcp://", "file://")):
            init_method = "env://"
        options |= {"init_method": init_method, "rank": rank, "world_size": given}
        if rank >= 0 and given > 0:
            _launchers.tell(rank, given)
    _backend.backend().init_process_group({"backend": None, **options})


def destroy_process_group(group: Any = None) -> None:
    """``torch.distributed.destroy_process_group``, if there is one.

    Args:
        group: As for torch; all replicas by default.

    Example:
        >>> xla.destroy_process_group()
    """
    if in_group():
        _ended.extend(_groups_of_gloo())
        dist.destroy_process_group(group)


# Groups of gloo's that are destroyed: they are kept to the end of the process. Torch's
# DistributedDataParallel, dropped after them, would otherwise be what ends their threads, holding
# Python's lock, for which a thread may be waiting: the process would hang with its work done.
_ended: list[Any] = []


def _groups_of_gloo() -> list[Any]:
    known: Any = dist.distributed_c10d._world.pg_map
    return [group for group, (name, _) in known.items() if name == "gloo"]


class Done:
    """The handle of something that is over: ``torch.distributed.Work``, or launched processes.

    Args:
        result: The tensors that a collective has filled.
    """

    def __init__(self, result: Sequence[Any] = ()) -> None:
        self._result = list(result)

    def wait(self, timeout: Any = None) -> bool:
        """True."""
        return True

    def join(self, timeout: Any = None) -> bool:
        """True: the processes are over."""
        return True

    def is_completed(self) -> bool:
        """True."""
        return True

    def is_success(self) -> bool:
        """True: what fails raises at once."""
        return True

    def exception(self) -> None:
        """None: what fails raises at once."""

    def result(self) -> list[Any]:
        """The tensors that the collective has filled."""
        return self._result

    def source_rank(self) -> int:
        """0: the one replica that there is."""
        return 0

    def synchronize(self) -> None:
        """Nothing waits."""

    def block_current_stream(self) -> None:
        """Nothing waits."""

    def get_future(self) -> Any:
        """A ``torch.futures.Future`` that is done, with ``result()``."""
        future: Any = torch.futures.Future()
        future.set_result(self._result)
        return future

    def get_future_result(self) -> Any:
        """A ``torch.futures.Future`` that is done, with 0, torch's number for success."""
        future: Any = torch.futures.Future()
        future.set_result(0)
        return future

    def boxed(self) -> Any:
        """Not available: TorchScript's."""
        raise NotImplementedError(
            "Work.boxed() works only in TorchScript: call the collective outside of it"
        )

    def unbox(self, *ignored: Any) -> Any:
        """Not available: TorchScript's."""
        raise NotImplementedError(
            "Work.unbox() works only in TorchScript: call the collective outside of it"
        )


_world_size = world_size  # Which init_process_group's argument hides.


def in_group() -> bool:
    """True if there is a process group."""
    return dist.is_available() and dist.is_initialized()


@contextlib.contextmanager
def _group_ends_with_it() -> Iterator[None]:
    """End a process group that is created inside, as the end of a process would."""
    had_one = in_group()
    try:
        yield
    finally:
        if not had_one:
            destroy_process_group()
