"""Parameters and gradients of a step in a few numbers per tensor.

To compare two runs tensor by tensor, neither needs the other's tensors: for each, the norm of the
gradient, the norm of the weights, and one projection s' P t on fixed random signs. For two weights P
and Q, E[(s'(P - Q)t)^2] = |P - Q|^2, so a difference in the projections is a difference in the
tensors, of about that size; the norm is what weight decay moves most. On XLA these are a few
operations in the step's graph: no additional launch, compilation or transfer.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Sequence
from typing import Any

import torch

from ..device.device_values import local, real_device

_signs: dict[tuple[int, int, torch.device], tuple[torch.Tensor, ...]] = {}
_ROW = 512  # elements whose norm float32 sums up to seven digits
_SHORT = 1 << 13  # elements whose product with signs XLA:CPU sums up to seven digits
_XLA_CPU = os.environ.get("PJRT_DEVICE") == "CPU"
_SMALL = 1 << 15  # elements that are copied, to be computed with others
_SAMPLE = 1 << 13  # elements by which a tensor's movement is measured
_randint = torch.randint  # the harness's own draws must not be the script's
_tensor = torch.tensor
_randn = torch.randn
_BF16_UNIT = 2.0**-7


def _shape(tensor: torch.Tensor) -> tuple[int, int]:
    if tensor.dim() < 2 or tensor.numel() == 0:
        return 1, tensor.numel()
    return tensor.size(0), tensor.numel() // tensor.size(0)


def _sign_vectors(tensor: torch.Tensor) -> tuple[torch.Tensor, ...]:
    rows, columns = _shape(tensor)
    key = (rows, columns, real_device(tensor))
    if key not in _signs:
        generator = torch._C.Generator()
        generator.manual_seed(rows * 1_000_003 + columns)
        host = [
            _randint(0, 2, (n,), generator=generator, device="cpu").float() * 2 - 1
            for n in (rows, columns)
        ]
        _signs[key] = tuple(_moved_to(x, key[2]) for x in host)
    return _signs[key]


def _projections(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    wide = [_wide(t) for t in tensors]
    if {real_device(x).type for x in wide} == {"xla"}:
        return _by_shape(wide, _projected)
    return stacked([_projection(x) for x in wide])


def _projection(x: torch.Tensor) -> torch.Tensor:
    left, right = _sign_vectors(x)
    if real_device(x).type == "xla":
        return _projected(x.unsqueeze(0))[0]
    return torch.dot(torch.mv(x.reshape(left.numel(), right.numel()).float(), right), left)


def _projected(together: torch.Tensor) -> torch.Tensor:
    """Return the projection of each tensor of a stack, on XLA.

    A dot product on XLA loses digits on long vectors, and on a TPU it rounds to bfloat16. A
    reduction does not. On the CPU the product with a short vector takes half the time of one.
    """
    left, right = _sign_vectors(together[0])
    x = together.reshape(len(together), left.numel(), right.numel())
    if _XLA_CPU and right.numel() <= _SHORT:
        return (torch.matmul(x, right) * left).sum(1)
    return ((x * left.unsqueeze(1)).sum(1) * right).sum(1)


def _squares(together: torch.Tensor) -> torch.Tensor:
    x = together.reshape(len(together), together[0].numel())
    return (x * x).sum(1).float()


def _by_shape(
    tensors: Sequence[torch.Tensor], summed: Callable[[torch.Tensor], torch.Tensor]
) -> torch.Tensor:
    """Return one number per tensor, computed for all small tensors of a shape at once.

    XLA compiles a kernel per operation, and a model has many small tensors of few shapes.
    """
    groups: dict[Any, list[int]] = {}
    for i, x in enumerate(tensors):
        groups.setdefault((x.shape, x.dtype) if x.numel() <= _SMALL else i, []).append(i)
    numbers = [summed(torch.stack([tensors[i] for i in g])) for g in groups.values()]
    order = tuple(i for group in groups.values() for i in group)
    return torch.cat(numbers)[_places(order, real_device(tensors[0]))]


@functools.lru_cache(maxsize=64)
def _places(order: tuple[int, ...], device: torch.device) -> torch.Tensor:
    return _moved_to(_tensor(order, device="cpu").argsort(), device)


def stacked(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    """Tensors of one shape as rows of one tensor, on the device of the first."""
    return torch.stack(_together(tensors))


def norms(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    """The 2-norm of each tensor: one vector, in float32, on the device of the first."""
    places = {real_device(t) for t in tensors}
    if len(places) > 1:  # parts of a model on several devices
        return stacked([_norms([t])[0] for t in tensors])
    return _norms(tensors) if tensors else torch.zeros(0)


def _norms(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    wide = [_wide(t) for t in tensors]
    kind = real_device(wide[0]).type
    if kind == "xla":  # norm() there takes twice as long
        return _by_shape(wide, _squares).sqrt()
    if kind != "cpu":  # a GPU sums in parts, and each further kernel costs the host time
        return torch.stack(torch._foreach_norm(wide)).float()
    short: list[torch.Tensor] = []  # whole tensors, and what is left over of long ones
    rows: list[torch.Tensor] = []  # norms of a long tensor's rows
    short_of, rows_of = [], []
    for i, x in enumerate(map(_flat, wide)):
        whole = x.numel() // _ROW * _ROW if x.numel() > _ROW else 0
        if whole:
            rows.append(torch.linalg.vector_norm(x[:whole].view(-1, _ROW), dim=1))
            rows_of.append(i)
        if whole < x.numel() or not whole:
            short.append(x[whole:] if whole else x)
            short_of.append(i)
    parts = [torch.stack(torch._foreach_norm(short))] if short else []
    found = torch.cat([*parts, *rows]).double()
    lengths = _tensor([1] * len(short) + [len(r) for r in rows], device="cpu")
    owners = torch.repeat_interleave(
        _tensor(short_of + rows_of, device="cpu"), lengths, output_size=len(found)
    )
    squares = torch.zeros(len(tensors), dtype=torch.float64, device="cpu")
    return squares.index_add_(0, owners, found.square_()).sqrt_().float()


def _together(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    place = real_device(tensors[0])
    return [t if real_device(t) == place else _moved_to(t, place) for t in tensors]


def _moved_to(tensor: torch.Tensor, place: torch.device) -> torch.Tensor:
    return torch._C.TensorBase.to(tensor, place)


def _wide(tensor: torch.Tensor) -> torch.Tensor:
    """Dense, real, in float32 (in float64 it would be copied, which takes several times as long)."""
    dense = tensor.coalesce().values() if tensor.is_sparse else tensor
    if dense.is_complex():
        dense = torch.view_as_real(dense)
    return dense if dense.dtype in (torch.float32, torch.float64) else dense.float()


def _flat(tensor: torch.Tensor) -> torch.Tensor:
    """Return all elements in memory order; copy only if they are not contiguous."""
    if tensor.is_contiguous():
        return tensor.view(-1)
    if tensor.is_contiguous(memory_format=torch.channels_last):
        return tensor.as_strided((tensor.numel(),), (1,), tensor.storage_offset())
    return tensor.reshape(-1)


def weighed(parameters: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """The parameters that are compared at every step: not biases and scales (see `tolerances`)."""
    return [p for p in parameters if p.dim() >= 2]


def weights(parameters: Sequence[torch.Tensor]) -> torch.Tensor:
    """Norms of all parameters, then their projections: one vector of 2 n."""
    detached = [local(p.detach()) for p in parameters]
    if not detached:
        return torch.zeros(0)
    return torch.cat([norms(detached), _projections(detached)])


def gradients(parameters: Sequence[torch.Tensor], scale: Any = None) -> torch.Tensor | None:
    """Return the norms of existing gradients, divided by `scale` if they are still scaled."""
    found = [local(p.grad.detach()) for p in parameters if p.grad is not None]
    if not found:
        return None
    out = norms(found)
    return out if scale is None else out / scale


def copies(parameters: Sequence[torch.Tensor]) -> torch.Tensor | None:
    """Samples of the parameters before a step, one after the other, to measure by how much it moves them; None on XLA.

    There a copy would keep the old buffers from being donated; the reference's measure serves both.
    """
    if not parameters or real_device(parameters[0]).type == "xla":
        return None
    return torch.cat(_together([_sample(local(p.detach())) for p in parameters]))


def _sample(tensor: torch.Tensor) -> torch.Tensor:
    """Elements at equal distances, `_SAMPLE` to twice as many; all if there are fewer.

    The distance is odd, so that it does not fall on one column of a matrix.
    """
    flat = _flat(tensor)
    if flat.numel() < 3 * _SAMPLE:
        return flat
    return flat[:: (flat.numel() // _SAMPLE - 1) | 1]


def shake(parameters: Sequence[torch.Tensor], seed: int) -> None:
    """Random noise of about a unit in bfloat16's last place on every weight, the same in every run."""
    generator = torch._C.Generator()
    generator.manual_seed(seed)
    for p in map(local, parameters):
        noise = _randn(p.shape, generator=generator, device="cpu").mul_(_BF16_UNIT).add_(1)
        p.mul_(_moved_to(noise.to(p.dtype), real_device(p)))


def moved(parameters: Sequence[torch.Tensor], before: torch.Tensor) -> torch.Tensor:
    """Return the distance of each parameter from its copy (2-norm), by its sample."""
    own = [local(p.detach()) for p in parameters]
    now = list(map(_sample, own))
    sizes = [x.numel() for x in now]
    shares = [p.numel() / max(size, 1) for p, size in zip(own, sizes, strict=True)]
    found = norms(torch.split_with_sizes(torch.cat(_together(now)) - before, sizes))
    return found * _roots(tuple(shares), real_device(found))


@functools.lru_cache(maxsize=64)  # on a GPU, each copy of the numbers would wait for it
def _roots(shares: tuple[float, ...], place: torch.device) -> torch.Tensor:
    return _moved_to(_tensor(shares, device="cpu").sqrt_(), place)
