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
    # float64: on the CPU a float32 norm of 30 million numbers is wrong in the third digit.
    return [torch.linalg.vector_norm(_dense(t), dtype=torch.float64).float() for t in tensors]


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
    """The parameters before a step, to measure by how much it moves them; None on XLA.

    There a copy would keep the old buffers from being donated; the reference's measure serves both.
    """
    if not parameters or real_device(parameters[0]).type == "xla":
        return None
    return [p.detach().clone() for p in parameters]


def perturb(parameters: Sequence[torch.Tensor], relative: float) -> None:
    """Random relative noise on every weight, the same in every run."""
    generator = torch._C.Generator()
    generator.manual_seed(1)
    for p in parameters:
        noise = _randn(p.shape, generator=generator, device="cpu").to(p.dtype)
        p.mul_(1 + relative * torch._C.TensorBase.to(noise, real_device(p)))


def moved(parameters: Sequence[torch.Tensor], before: Sequence[torch.Tensor]) -> torch.Tensor:
    """How far each parameter is from its copy (2-norm)."""
    steps = torch._foreach_sub([p.detach() for p in parameters], list(before))
    return torch.stack(norms(steps))
