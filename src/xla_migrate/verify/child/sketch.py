"""Parameters and gradients of a step in a few numbers per tensor.

To compare two runs tensor by tensor, neither needs the other's tensors: for each, the norm of the
gradient, the norm of the weights, and one projection s' P t on fixed random signs. For two weights P
and Q, E[(s'(P - Q)t)^2] = |P - Q|^2, so a difference in the projections is a difference in the
tensors, of about that size; the norm is what weight decay moves most. On XLA these are a few
operations in the step's own graph: no launch, compile or transfer of their own (xla-facts 4).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from .device_values import real_device

_signs: dict[tuple[int, int, torch.device], tuple[torch.Tensor, ...]] = {}
_randn = torch.randn
_ROW = 512
_SAMPLE = 1 << 13  # elements by which a tensor's movement is measured
_randint = torch.randint  # the harness's own draws must not be the script's


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
        _signs[key] = tuple(torch._C.TensorBase.to(x, key[2]) for x in host)
    return _signs[key]


def _projection(tensor: torch.Tensor) -> torch.Tensor:
    left, right = _sign_vectors(tensor)
    x = tensor.reshape(left.numel(), right.numel()).float()
    if (
        real_device(tensor).type == "xla"
    ):  # its dot loses digits on long vectors, its reductions do not
        return ((x * right).sum(1) * left).sum()
    return torch.dot(torch.mv(x, right), left)


def norms(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """The 2-norm of each tensor, in float32."""
    if not tensors:
        return []
    if real_device(tensors[0]).type == "xla":
        return [n.float() for n in torch._foreach_norm(list(tensors))]
    return [_norm(_dense(t)) for t in tensors]


def _norm(tensor: torch.Tensor) -> torch.Tensor:
    """By rows, and those in float64: a float32 norm of 30 million numbers is wrong in the third digit.

    All of it in float64 would copy the tensor, which takes several times as long.
    """
    x = _flat(tensor)
    if x is None or x.dtype != torch.float32 or x.numel() <= _ROW:
        whole_norm: torch.Tensor = torch.linalg.vector_norm(tensor, dtype=torch.float64)
        return whole_norm.float()
    whole = x.numel() // _ROW * _ROW
    rows = torch.linalg.vector_norm(x[:whole].view(-1, _ROW), dim=1).double()
    rest = torch.linalg.vector_norm(x[whole:], dtype=torch.float64)
    return torch.hypot(torch.linalg.vector_norm(rows), rest).float()


def _flat(tensor: torch.Tensor) -> torch.Tensor | None:
    """All elements in the order of memory, without a copy; None where they do not lie together."""
    dense = tensor.is_contiguous() or tensor.is_contiguous(memory_format=torch.channels_last)
    if not dense:
        return None
    return tensor.as_strided((tensor.numel(),), (1,), tensor.storage_offset())


def _dense(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.coalesce().values() if tensor.is_sparse else tensor


def weights(parameters: Sequence[torch.Tensor]) -> torch.Tensor:
    """Norms of all parameters, then their projections: one vector of 2 n."""
    detached = [p.detach() for p in parameters]
    return torch.stack([*norms(detached), *[_projection(p) for p in detached]])


def gradients(parameters: Sequence[torch.Tensor], scale: Any = None) -> torch.Tensor | None:
    """Norms of the gradients that there are; divided by `scale` where they are still scaled."""
    found = [p.grad.detach() for p in parameters if p.grad is not None]
    if not found:
        return None
    out = torch.stack(norms(found))
    return out if scale is None else out / scale


def copies(parameters: Sequence[torch.Tensor]) -> list[torch.Tensor] | None:
    """Samples of the parameters before a step, to measure by how much it moves them; None on XLA.

    There a copy would keep the old buffers from being donated; the reference's measure serves both.
    """
    if not parameters or real_device(parameters[0]).type == "xla":
        return None
    return [_sample(p.detach()).clone() for p in parameters]


def _sample(tensor: torch.Tensor) -> torch.Tensor:
    """Elements at equal distances, `_SAMPLE` to twice as many; all where there are fewer.

    The distance is odd, so that it does not fall on one column of a matrix.
    """
    flat = _flat(tensor)
    if flat is None or flat.numel() < 3 * _SAMPLE:
        return tensor if flat is None else flat
    return flat[:: (flat.numel() // _SAMPLE - 1) | 1]


def perturb(parameters: Sequence[torch.Tensor], relative: float) -> None:
    """Random relative noise on every weight, the same in every run."""
    generator = torch._C.Generator()
    generator.manual_seed(1)
    for p in parameters:
        noise = _randn(p.shape, generator=generator, device="cpu").to(p.dtype)
        p.mul_(1 + relative * torch._C.TensorBase.to(noise, real_device(p)))


def moved(parameters: Sequence[torch.Tensor], before: Sequence[torch.Tensor]) -> torch.Tensor:
    """How far each parameter is from its copy (2-norm), by its sample."""
    steps = torch._foreach_sub([_sample(p.detach()) for p in parameters], list(before))
    shares = [p.numel() / max(s.numel(), 1) for p, s in zip(parameters, before, strict=True)]
    return torch.stack([n * share**0.5 for n, share in zip(norms(steps), shares, strict=True)])
