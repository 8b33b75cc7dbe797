"""Kernels that torch asks a PrivateUse1 device for by name, with no CPU kernel of that name to fall back on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

_kept: list[Any] = []


def register(host: Callable[[torch.Tensor], torch.Tensor]) -> None:
    """``host`` gives a tensor's memory as a CPU tensor."""
    library = torch.library.Library("aten", "IMPL")
    _kept.append(library)

    def on_host(given: Any) -> Any:
        return host(given) if isinstance(given, torch.Tensor) else given

    def convolution(x: torch.Tensor, weight: Any, bias: Any, *options: Any) -> torch.Tensor:
        out = torch.ops.aten.convolution(host(x), host(weight), on_host(bias), *options)
        return _with_layout(out, x.device)

    def convolution_backward(
        gradient: torch.Tensor,
        x: torch.Tensor,
        weight: torch.Tensor,
        stride: Any,
        padding: Any,
        dilation: Any,
        transposed: bool,
        output_padding: Any,
        groups: int,
        mask: list[bool],
    ) -> Any:
        sizes = [weight.shape[1] * groups if transposed else weight.shape[0]]
        made = torch.ops.aten.convolution_backward(
            *(host(t) for t in (gradient, x, weight)),
            sizes,
            *(stride, padding, dilation, transposed, output_padding, groups, mask),
        )
        return tuple(None if t is None else _with_layout(t, x.device) for t in made)

    library.impl("convolution_overrideable", convolution, "PrivateUse1")
    library.impl("convolution_backward_overrideable", convolution_backward, "PrivateUse1")
    library.impl("_thnn_fused_lstm_cell", _lstm_cell, "PrivateUse1")
    library.impl("_thnn_fused_lstm_cell_backward_impl", _lstm_cell_backward, "PrivateUse1")


def _with_layout(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    out = torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype, device=device)
    return out.copy_(tensor)


def _lstm_cell(
    from_input: Any, from_hidden: Any, cell: Any, bias: Any = None, bias_h: Any = None
) -> Any:
    gates = from_input + from_hidden
    for added in (bias, bias_h):
        gates = gates if added is None else gates + added
    i, f, g, o = gates.chunk(4, 1)
    i, f, g, o = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
    new_cell = f * cell + i * g
    return o * new_cell.tanh(), new_cell, torch.cat([i, f, g, o], 1)


def _lstm_cell_backward(
    from_hidden: Any, from_cell: Any, cell: Any, new_cell: Any, gates: Any, has_bias: bool
) -> Any:
    if from_hidden is None and from_cell is None:
        return None, None, None
    i, f, g, o = gates.chunk(4, 1)
    tanh = new_cell.tanh()
    hidden = torch.zeros_like(new_cell) if from_hidden is None else from_hidden
    total = hidden * o * (1 - tanh * tanh)
    if from_cell is not None:
        total = total + from_cell
    of_gates = torch.cat(
        [
            total * g * i * (1 - i),
            total * cell * f * (1 - f),
            total * i * (1 - g * g),
            hidden * tanh * o * (1 - o),
        ],
        1,
    )
    return of_gates, total * f, of_gates.sum(0) if has_bias else None
