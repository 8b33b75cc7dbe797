"""Running a script with other rounding than its own, without touching it: to tell rounding from faults.

"float64" computes every operation in double precision. Parameters, states and batches stay the float32
tensors that they are, so that initial weights and random draws are those of any other run; what is
computed from them is float64 until it is stored. So two runs that compute the same agree to seven digits
at every step, however badly the training's own rounding is amplified.

"plain" computes in float32 by PyTorch's plain kernels in place of oneDNN's: the same sums in another
order, an arithmetic as good as any. How far it is from float64 is what rounding does to this training.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

CHOICES = ("as it is", "float64", "plain")
_WIDE = {torch.float32: torch.float64, torch.complex64: torch.complex128}
# Written to without saying so in their schema.
_STATISTICS = ("running_mean", "running_var")
_MOVES = {"aten::_to_copy", "aten::clone", "aten::copy_", "aten::detach", "aten::alias"}
# These want their tensors in one type before they are taken apart into operations.
_STRICT = set(
    "conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d lstm gru rnn_tanh rnn_relu"
    " lstm_cell gru_cell rnn_tanh_cell rnn_relu_cell scaled_dot_product_attention bilinear".split()
)


def install(arithmetic: str) -> None:
    """Compute in one of CHOICES from now on, for good."""
    if arithmetic in ("plain", "float64"):  # oneDNN's recurrent layers know float32 alone
        torch.backends.mkldnn.set_flags(False)  # type: ignore[no-untyped-call]
    if arithmetic == "float64":
        InFloat64().__enter__()  # type: ignore[no-untyped-call]
        OneType().__enter__()  # type: ignore[no-untyped-call]
    if arithmetic not in CHOICES:
        raise ValueError(f"arithmetic must be one of {', '.join(CHOICES)}, not {arithmetic!r}")


class InFloat64(TorchDispatchMode):
    """Every operation takes its float32 tensors as float64; what it writes to is rounded once."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        with torch._C.DisableTorchFunction():  # type: ignore[no-untyped-call]
            if func._schema.name in _MOVES:
                return func(*args, **_kept_wide(func, args, kwargs))
            if not _computes(func):
                return func(*args, **kwargs)
            return _widened(func, args, kwargs)


class OneType(TorchFunctionMode):
    """Functions that would refuse a float64 batch with float32 weights get both in float64."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if getattr(func, "__name__", "") in _STRICT:
            args, kwargs = tree_map(_to_wide, (args, kwargs))
        return func(*args, **kwargs)


def _to_wide(value: Any) -> Any:
    if isinstance(value, torch.Tensor) and value.dtype in _WIDE:
        return torch._C.TensorBase.to(value, _WIDE[value.dtype])
    return value


def _computes(func: Any) -> bool:
    """Not a view, a random draw, or what fills a given tensor: those do not round."""
    if func.is_view or {torch.Tag.nondeterministic_seeded, torch.Tag.view_copy} & set(func.tags):
        return False
    return "out" not in func._overloadname


def _kept_wide(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """`x.float()` of what is float64 here only because we compute so; autograd's own casts are meant."""
    in_backward = torch._C._current_graph_task_id() != -1
    if func._schema.name == "aten::_to_copy" and args[0].dtype is torch.float64 and not in_backward:
        return {k: v for k, v in kwargs.items() if k != "dtype" or v is not torch.float32}
    return kwargs


def _widened(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    written: list[tuple[torch.Tensor, torch.Tensor]] = []
    known = func._schema.arguments
    wide = [_wide(value, _is_written(a), written) for a, value in zip(known, args, strict=False)]
    named = {a.name: a for a in known}
    more = {name: _wide(value, _is_written(named[name]), written) for name, value in kwargs.items()}
    out = func(*wide, **more)
    for narrow, result in written:
        narrow.copy_(result)
    return _narrow_again(out, written) if written else out


def _is_written(argument: Any) -> bool:
    alias = argument.alias_info
    return (alias is not None and alias.is_write) or argument.name in _STATISTICS


def _wide(value: Any, is_written: bool, written: list[tuple[torch.Tensor, torch.Tensor]]) -> Any:
    if isinstance(value, (list, tuple)):
        return [_wide(v, is_written, written) for v in value]
    if (
        not isinstance(value, torch.Tensor)
        or value.dtype not in _WIDE
        or value.layout is not torch.strided
    ):
        return value
    out = torch.ops.aten._to_copy.default(value, dtype=_WIDE[value.dtype])
    if is_written:
        written.append((value, out))
    return out


def _narrow_again(out: Any, written: list[tuple[torch.Tensor, torch.Tensor]]) -> Any:
    """What an operation in place returns is the tensor that it was called on."""
    if isinstance(out, (list, tuple)):
        return type(out)(_narrow_again(o, written) for o in out)
    return next((narrow for narrow, result in written if result is out), out)
