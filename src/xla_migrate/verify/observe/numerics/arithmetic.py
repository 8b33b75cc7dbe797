"""Running a script with other rounding than its own, without touching it: to tell rounding from faults.

"float64" computes every operation in double precision. Parameters, states and batches stay float32
tensors, so that initial weights and random draws are the same as in any other run. Results
computed from them are float64 until they are stored. So two runs that compute the same agree to seven digits
at every step, however badly the training's own rounding is amplified.

With a roughness of 1e-5 each operation's result is made up to 1e-5 of itself smaller, at random: what errors
of that size, made in every operation, do to this training.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.distributed import distributed_c10d
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map
from torch.utils.data import get_worker_info

from ..device.device_values import real_device
from ..process import clock
from ..process.dispatch_modes import enter_for_good
from ..process.patching import Patches
from . import device_random

CHOICES = ("as it is", "float64")
_WIDE = {torch.float32: torch.float64, torch.complex64: torch.complex128}
# Written to without saying so in their schema.
_STATISTICS = ("running_mean", "running_var")
_MOVES = {"aten::_to_copy", "aten::clone", "aten::copy_", "aten::detach", "aten::alias"}
# About a tensor's memory, not its numbers.
_MEMORY = set(
    "aten::set_ aten::resize_ aten::resize_as_ aten::_resize_output_ aten::_pin_memory".split()
)
# They write into tensors without saying so in their schemas.
_COLLECTIVES = {"c10d", "_c10d_functional"}
# A loss scaler's, by powers of two: nothing is rounded, and they want their factors in float32.
_UNSCALE = "aten::_amp_foreach_non_finite_check_and_unscale_"
_RESCALE = "aten::_amp_update_scale_"
# Fused optimizers refuse these arguments in float64. They are counts and powers of two.
_FLOAT32_ARGUMENTS = {"state_steps", "grad_scale", "found_inf"}
# These want their tensors in one type before they are taken apart into operations.
_STRICT = set(
    "conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d lstm gru rnn_tanh rnn_relu"
    " lstm_cell gru_cell rnn_tanh_cell rnn_relu_cell scaled_dot_product_attention bilinear".split()
)

_NO_ARITHMETIC = {torch.Tag.nondeterministic_seeded, torch.Tag.view_copy, torch.Tag.inplace_view}

Written = list[tuple[torch.Tensor, torch.Tensor]]  # (a float32 tensor, what it becomes)


def install(patches: Patches, arithmetic: str, roughness: float = 0.0) -> None:
    """Compute in one of CHOICES from now on, for good."""
    if arithmetic not in CHOICES:
        raise ValueError(f"arithmetic must be one of {', '.join(CHOICES)}, not {arithmetic!r}")
    wide = arithmetic == "float64"
    if wide or roughness:
        enter_for_good(Computing(wide, roughness))
    if wide:
        # oneDNN's recurrent layers know float32 alone.
        torch.backends.mkldnn.set_flags(False)  # type: ignore[no-untyped-call]
        OneType().__enter__()  # type: ignore[no-untyped-call]
        recurrent(patches)
        collectives(patches)


def recurrent(patches: Patches) -> None:
    """Recurrent layers look at the type of their batch themselves: they get to see the weights' own."""
    layer = torch.nn.RNNBase
    check = layer.check_input

    def of_shape(self: Any, input: torch.Tensor, batch_sizes: Any) -> None:
        kind = self._flat_weights[0].dtype
        check(self, torch.empty(input.shape, dtype=kind, device="meta"), batch_sizes)

    patches.put(layer, "check_input", of_shape)


def collectives(patches: Patches) -> None:
    """Collectives get what we made float64 beside the script's own float32: `_communicated` makes it one type."""
    patches.put(distributed_c10d, "_ensure_all_tensors_same_dtype", lambda *tensors: None)


class Computing(TorchDispatchMode):
    """Every operation takes its float32 tensors as float64 (what it writes to is rounded once), or errs."""

    def __init__(self, wide: bool, roughness: float = 0.0) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.wide = wide
        self.roughness = roughness
        self.chance = torch._C.Generator()
        self.chance.manual_seed(0)

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        with torch._C.DisableTorchFunction():  # type: ignore[no-untyped-call]
            return _writable(self._result(func, args, kwargs or {}), (args, kwargs))

    def _result(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if func._schema.name in _MOVES:
            return func(*args, **(_kept_wide(func, args, kwargs) if self.wide else kwargs))
        if func.namespace in _COLLECTIVES:
            return _communicated(func, args, kwargs)
        if func._schema.name == _UNSCALE:
            return func(args[0], args[1], _to_float32(args[2]))
        if func._schema.name == _RESCALE or not _computes(func) or _loading():
            return func(*args, **kwargs)
        return self._computed(func, args, kwargs)

    def _computed(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        written: Written = []
        if not self.wide:
            return self._rough(func(*args, **kwargs))
        known = func._schema.arguments
        named = {a.name: a for a in known}
        wide = [_argument(a, value, written) for a, value in zip(known, args, strict=False)]
        more = {name: _argument(named[name], v, written) for name, v in kwargs.items()}
        out = self._rough(func(*wide, **more))
        for narrow, result in written:
            narrow.copy_(result)
        return _narrow_again(out, written) if written else out

    def _rough(self, out: Any) -> Any:
        if self.roughness and not clock.inside():
            for result in out if isinstance(out, (list, tuple)) else [out]:
                self._roughen(result)
        return out

    def _roughen(self, value: Any) -> None:
        """Smaller, not larger: a probability has to stay one."""
        if not isinstance(value, torch.Tensor) or not value.is_floating_point():
            return
        kind = {"dtype": value.dtype, "device": torch.device("cpu")}
        errors = torch.ops.aten.rand.generator(value.shape, generator=self.chance, **kind)
        shares = errors.mul_(-self.roughness).add_(1)
        value.mul_(torch.ops.aten._to_copy.default(shares, device=real_device(value)))


def _communicated(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run a collective with the tensors themselves. Those that only we made float64 become float32 beside others."""
    kinds = {t.dtype for t in tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor)}
    if kinds >= {torch.float32, torch.float64}:
        args, kwargs = tree_map(_to_float32, (args, kwargs))
    return func(*args, **kwargs)


def _writable(out: Any, given: Any) -> Any:
    """Return `out`, wrapped if it is a new tensor of XLA: torch_xla adds no wrapper where a dispatch mode is active.

    Without it everything that is written into a view of the tensor is lost.
    """
    if not _is_of_xla(out) or any(map(_is_of_xla, tree_leaves(given))):
        return out
    return out if torch._is_functional_tensor(out) else torch._to_functional_tensor(out)


def _is_of_xla(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and real_device(value).type == "xla"


class OneType(TorchFunctionMode):
    """Functions that would refuse a float64 batch with float32 weights get both in float64."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        if name in _STRICT:
            args, kwargs = tree_map(_to_wide, (args, kwargs))
        elif (
            name == "lerp_"
        ):  # of a state and a gradient, in Adam: XLA refuses what differs in type
            between = torch.lerp(*tree_map(_to_wide, args), **tree_map(_to_wide, kwargs))
            return torch._C.TensorBase.copy_(args[0], between)
        return func(*args, **kwargs)


def _to_wide(value: Any) -> Any:
    if isinstance(value, torch.Tensor) and value.dtype in _WIDE:
        return torch._C.TensorBase.to(value, _WIDE[value.dtype])
    return value


def _loading() -> bool:
    """Batches are float32's, wherever the loader makes them: here, in a thread or in a worker."""
    return device_random.loading() or get_worker_info() is not None


def _computes(func: Any) -> bool:
    """Not a view, a random draw, a tensor like another, or what fills a given one: those do not round."""
    name = func._schema.name
    if name in _MEMORY or name.endswith("_like") or name.startswith("aten::new_"):
        return False
    if func.is_view or _NO_ARITHMETIC & set(func.tags):
        return False
    return "out" not in func._overloadname


def _kept_wide(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """`x.float()` of what is float64 here only because we compute so; autograd's own casts are meant."""
    in_backward = torch._C._current_graph_task_id() != -1
    if func._schema.name == "aten::_to_copy" and args[0].dtype is torch.float64 and not in_backward:
        return {k: v for k, v in kwargs.items() if k != "dtype" or v is not torch.float32}
    return kwargs


def _argument(argument: Any, value: Any, written: Written) -> Any:
    """Return what an operation receives for `argument`, whose value is `value`."""
    if argument.name in _FLOAT32_ARGUMENTS:
        return tree_map(_to_float32, value)
    alias = argument.alias_info
    is_written = (alias is not None and alias.is_write) or argument.name in _STATISTICS
    return _wide(value, is_written, written)


def _to_float32(value: Any) -> Any:
    if isinstance(value, torch.Tensor) and value.dtype is torch.float64:
        return torch.ops.aten._to_copy.default(value, dtype=torch.float32)
    return value


def _wide(value: Any, is_written: bool, written: Written) -> Any:
    if isinstance(value, (list, tuple)):
        return [_wide(v, is_written, written) for v in value]
    if not isinstance(value, torch.Tensor) or value.layout is not torch.strided:
        return value
    if value.dtype not in _WIDE:
        return value
    out = torch.ops.aten._to_copy.default(value, dtype=_WIDE[value.dtype])
    if is_written:
        written.append((value, out))
    return out


def _narrow_again(out: Any, written: Written) -> Any:
    """Return the tensor that an operation in place was called on."""
    if isinstance(out, (list, tuple)):
        return type(out)(_narrow_again(o, written) for o in out)
    return next((narrow for narrow, result in written if result is out), out)
