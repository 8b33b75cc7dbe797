"""Checkpoint files that load anywhere, and copies of weights in memory."""

from __future__ import annotations

import contextlib
import copy
import os
import pickle
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any, TypeAlias, TypeVar

import torch
from torch import nn

from ._backend import backend, uses_torch_xla
from .deferred.reading import flush
from .devices import DeviceSpec, parse_spec, xla_device
from .loading.batches import tensors_in
from .loading.placing import Placer
from .processes import is_master, local_rank
from .resuming import explaining
from .saving import replaced, written

File: TypeAlias = "str | os.PathLike[str] | IO[bytes]"
T = TypeVar("T")

# What plain torch can read anywhere, with map_location="cpu" at the most.
_PORTABLE = ("cpu", "cuda", "meta")


def settled() -> None:
    """Before weights are written: what was shown before is there, the training goes on, and steps are launched."""
    flush()
    backend().settle()


def save(
    obj: Any,
    f: File,
    *,
    master_only: bool = True,
    each_host: bool = False,
    pickle_module: Any = pickle,
    **kwargs: Any,
) -> None:
    """``torch.save``, such that plain PyTorch can load the file.

    XLA tensors are written as CPU tensors wherever they are: in state dicts, Parameters, whole
    modules and optimizers (``xm.save`` misses the last three: fact 1.42). Containers keep
    their types, and a state dict its ``_metadata``.

    Call it on every replica: each launches its pending work, which may wait for the others (1.41),
    and the master alone writes to a path. A replica that loads the path afterwards waits for the
    master. A file that the caller has opened is written by each that calls, who would otherwise
    have emptied it. Called by the master alone, under ``if rank == 0:``, it does no harm
    if the step has been marked before. If averaged gradients have not been launched yet, it
    raises after a while instead of hanging the job. A path changes at once when the file is
    complete, so that a killed job leaves the old file or the new one.

    Args:
        obj: What to save.
        f: The path or the file, as for ``torch.save``.
        master_only: False writes on every replica that calls it, each its own path.
        each_host: The first replica of every host writes, as with ``xm.save``.
        pickle_module: As for ``torch.save``.
        kwargs: More arguments for ``torch.save``.

    Raises:
        RuntimeError: if the other replicas would have to come and do not.

    Example:
        >>> xla.save({"model": model.state_dict()}, folder / "step_1.pt")
        >>> torch.load(folder / "step_1.pt")["model"]["weight"].device
        device(type='cpu')
    """
    if replaced.is_running("save", obj):
        return replaced.torch_save(obj, f, pickle_module=pickle_module, **kwargs)
    settled()
    if isinstance(f, str | os.PathLike) and master_only and not _is_writer(each_host):
        written.skipped(f)
        return
    kwargs["pickle_module"] = _PortablePickle(pickle_module, _fetched(obj))
    with replaced.running("save", obj):
        if isinstance(f, str | os.PathLike):
            with _replacing(f) as part:
                torch.save(obj, part, **kwargs)
            if master_only and is_master():
                written.written(f)
        else:
            torch.save(obj, f, **kwargs)


def _is_writer(each_host: bool) -> bool:
    return local_rank() == 0 if each_host else is_master()


def load(f: File, map_location: Any = None, **kwargs: Any) -> Any:
    """``torch.load`` for files that were saved from CUDA, XLA or the CPU.

    On CUDA everything goes where ``torch.load`` would put it. Elsewhere:

    - States that ``load_state_dict`` takes, of modules and of optimizers, are on the CPU, wherever
      they are in the file. ``load_state_dict`` copies them to the parameters' device, and leaves an
      optimizer's ``step`` on the CPU, where reading it costs no host sync (fact 3.28). They cannot
      come to share a buffer with the weights that are trained from them (fact 3.12).
    - Other tensors, such as a data set, are where ``map_location`` says; without one, on the CPU.
    - A whole ``nn.Module`` is on the accelerator, unless ``map_location`` says CPU.

    Args:
        f: The path or the file, as for ``torch.load``.
        map_location: As for ``torch.load``, in the old CUDA spellings too: a string, a device, a
            dict, a callable or None. XLA itself takes none of them (1.44).
        kwargs: More arguments for ``torch.load``: ``weights_only``, ``mmap``...

    Returns:
        What was saved.

    Raises:
        CheckpointError: a RuntimeError, for a file that is truncated or no checkpoint.

    Example:
        >>> xla.save(model.state_dict(), folder / "model.pt")
        >>> state = xla.load(folder / "model.pt", map_location="cuda")
        >>> model.load_state_dict(state)
        <All keys matched successfully>
    """
    if replaced.is_running("load", f):
        return replaced.torch_load(f, map_location=map_location, **kwargs)
    if isinstance(f, str | os.PathLike):
        written.wait_for(f)
    with explaining(f), replaced.running("load", f):
        return _load(f, map_location, kwargs)


def _load(f: File, map_location: Any, kwargs: Any) -> Any:
    if backend().loads_natively():
        return torch.load(f, map_location=_native(map_location), **kwargs)
    if map_location is not None and str(map_location) == "meta":
        return torch.load(f, map_location="meta", **kwargs)
    wanted = _names_accelerator(map_location)
    loaded = torch.load(f, map_location="cpu", **kwargs)
    if wanted is False:
        return loaded
    placer = Placer(xla_device())
    _move_modules(loaded, placer)  # before optimizers, which hold their parameters
    return placer(loaded) if wanted else loaded


def clone_state(state: T) -> T:
    """A copy of a state dict whose tensors are on the same device and share no memory with it.

    On XLA ``a.copy_(b)``, and so ``load_state_dict`` from tensors on the device, leaves both with
    one buffer; the next update of one takes it from the other, whose next use fails (fact
    3.12). Keep the best weights with ``best = clone_state(model.state_dict())``, and load them, or
    a target network, with ``load_state_dict(clone_state(state))``.

    Args:
        state: A state dict, or any nest of dicts, lists and tuples with tensors.

    Returns:
        A nest of the same form. Objects that are not tensors are the same objects.

    Example:
        >>> best = xla.clone_state(model.state_dict())
        >>> model.load_state_dict(xla.clone_state(best))
        <All keys matched successfully>
    """
    tensors = list({id(tensor): tensor for tensor in tensors_in(state)}.values())
    clones = zip(tensors, backend().clones(tensors), strict=True)
    # deepcopy keeps the types of everything else, and takes these as copied already.
    return copy.deepcopy(state, {id(tensor): _like(tensor, clone) for tensor, clone in clones})


def move_state(optimizer: Any, device: DeviceSpec = None) -> None:
    """Move an optimizer's state to a device, as scripts do by hand that load it before they move the model.

    The step counts stay on the CPU, where ``load_state_dict`` leaves them: those on an XLA device are read back in every step,
    one for each parameter (fact 3.28). Kernels of CUDA that want them beside the weights (``fused``, ``capturable``) get them.

    Args:
        optimizer: Any of torch's, or one with their ``state`` and ``param_groups``.
        device: Where to; the accelerator by default.

    Example:
        >>> optimizer.load_state_dict(optimizer.state_dict())
        >>> xla.move_state(optimizer)
    """
    target = xla_device(device)
    counted_there = any(g.get("fused") or g.get("capturable") for g in optimizer.param_groups)
    for state in optimizer.state.values():
        for name, value in state.items():
            if isinstance(value, torch.Tensor) and (name != "step" or counted_there):
                state[name] = value.to(target)


def _like(tensor: torch.Tensor, clone: torch.Tensor) -> torch.Tensor:
    if isinstance(tensor, nn.Parameter):
        return nn.Parameter(clone, tensor.requires_grad)
    return clone.requires_grad_(tensor.requires_grad)


# What is fetched in one transfer: the host holds it twice meanwhile.
_AT_ONCE = 1 << 30  # bytes


def _fetched(obj: Any) -> dict[int, torch.Tensor]:
    """The XLA tensors of `obj` on the host, by their ids: in few transfers, which each wait for the device."""
    if not uses_torch_xla():
        return {}
    held = {id(t): t for t in _tensors_of(obj, set()) if t.device.type == "xla"}
    found: dict[int, torch.Tensor] = {}
    batch: list[torch.Tensor] = []
    size = 0
    for tensor in held.values():
        if batch and size + tensor.nbytes > _AT_ONCE:
            found |= _in_one_transfer(batch)
            batch, size = [], 0
        batch.append(tensor)
        size += tensor.nbytes
    return found | _in_one_transfer(batch)


def _in_one_transfer(tensors: list[torch.Tensor]) -> dict[int, torch.Tensor]:
    if not tensors:
        return {}
    from .torch_xla import transfers as _xla_transfers

    copies = _xla_transfers.fetch([tensor.detach() for tensor in tensors])
    return {id(tensor): copy for tensor, copy in zip(tensors, copies, strict=True)}


def _tensors_of(x: Any, seen: set[int]) -> Iterator[torch.Tensor]:
    """The tensors and Parameters that pickling `x` surely comes to; others are fetched when it does."""
    if type(x) in (torch.Tensor, nn.Parameter):
        yield x
        return
    if isinstance(x, nn.Module):
        held: Any = (x._parameters, x._buffers, x._modules)
    elif isinstance(x, torch.optim.Optimizer):
        held = (x.state, x.param_groups)
    elif isinstance(x, Mapping):
        held = x.values()
    elif isinstance(x, list | tuple):
        held = x
    else:
        return
    if id(x) not in seen:
        seen.add(id(x))
        for item in held:
            yield from _tensors_of(item, seen)


class _PortablePickle:
    """A pickle module that writes tensors of other devices as CPU tensors.

    Args:
        module: What pickles everything else.
        fetched: Copies on the host that are there already, by the ids of their tensors.
    """

    def __init__(self, module: Any, fetched: Mapping[int, torch.Tensor]) -> None:
        self._module = module
        base: Any = module.Pickler

        class Pickler(base):  # type: ignore[misc]
            def reducer_override(self, obj: Any) -> Any:
                if isinstance(obj, torch.Tensor) and obj.device.type not in _PORTABLE:
                    copy = fetched.get(id(obj))
                    # A Parameter is pickled around its tensor, which is visited next.
                    if copy is not None or not isinstance(obj, nn.Parameter):
                        return _on_cpu(obj, copy).__reduce_ex__(2)  # type: ignore[no-untyped-call]
                inherited = getattr(super(), "reducer_override", None)
                return NotImplemented if inherited is None else inherited(obj)

        self.Pickler = Pickler

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)


def _on_cpu(tensor: torch.Tensor, copy: torch.Tensor | None) -> torch.Tensor:
    moved = tensor.detach().cpu() if copy is None else copy
    if isinstance(tensor, nn.Parameter):
        moved = nn.Parameter(moved, tensor.requires_grad)
    else:
        moved.requires_grad_(tensor.requires_grad)
    moved.__dict__.update(tensor.__dict__)
    return moved


@contextlib.contextmanager
def _replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A file to write in place of ``path``, which takes its name when complete."""
    target = Path(os.path.realpath(path))
    if _is_written_in_place(path):
        yield Path(path)
        return
    part = target.with_name(f"{target.name}.{os.getpid()}.part")
    try:
        yield part
        with open(part, "rb") as written:
            os.fsync(written.fileno())
        if target.exists():
            shutil.copymode(target, part)
        os.replace(part, target)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def _is_written_in_place(path: str | os.PathLike[str]) -> bool:
    """True for devices, pipes, sockets and open descriptors (``/dev/stdout``): a rename would replace them."""
    if os.path.abspath(path).startswith(("/dev/fd/", "/dev/std", "/proc/")):
        return True
    return os.path.exists(path) and not os.path.isfile(path)


def _names_accelerator(map_location: Any) -> bool | None:
    """Return True if ``map_location`` names the accelerator, None if it does not say."""
    if map_location is None:
        return None
    if isinstance(map_location, Mapping):
        targets = [_names_accelerator(target) for target in map_location.values()]
        return any(targets) if targets else None
    if callable(map_location):
        return _calls_for_accelerator(map_location)
    return parse_spec(map_location)[0] != "cpu"


def _calls_for_accelerator(map_location: Callable[[Any, str], Any]) -> bool:
    """``lambda storage, location: storage`` means the CPU; ``storage.cuda()`` fails without one."""
    try:
        placed = map_location(torch.UntypedStorage(0), "cuda:0")  # type: ignore[no-untyped-call]
    except (RuntimeError, AssertionError):
        return True
    return placed is None or placed.device.type != "cpu"


def _native(map_location: Any) -> Any:
    """``map_location`` for a machine that has the devices it names."""
    if isinstance(map_location, str | torch.device | int):
        return xla_device(map_location)
    if map_location is None or isinstance(map_location, Mapping):
        saved_from_xla = {f"xla:{index}": str(xla_device()) for index in range(16)}
        return {**saved_from_xla, **(map_location or {})}
    return map_location


def _move_modules(loaded: Any, placer: Placer) -> None:
    if isinstance(loaded, nn.Module):
        placer.module(loaded)
    elif isinstance(loaded, Mapping):
        for value in loaded.values():
            _move_modules(value, placer)
    elif isinstance(loaded, list | tuple):
        for value in loaded:
            _move_modules(value, placer)
