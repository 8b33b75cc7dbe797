"""Values that the script reads: there are none, so each read is answered by a constant, and told.

The answers are given below Python, at the point through which torch passes every tensor from the device to the host:
`item`, `print`, `torch.save` and operations that torch_xla runs on the CPU.
"""

from __future__ import annotations

import sys
import warnings
from collections import Counter
from collections.abc import Sequence
from typing import Any

import torch

from ....verify.observe.process import where
from . import records

_FEW = 1 << 16  # elements up to which an answer is ones; beyond, zeros, which take no memory
_FIRST = 0.9995  # of a number: exactly 1 would become part of the graphs that use it (fact 3.25)

_true: set[int] = set()  # numbers of tensors that say whether something is finite
_library: list[Any] = []  # registrations end with the object


def install(torch_xla: Any, tracer: Any, execute: bool) -> None:
    """Answer every read of a value from now on; where graphs are executed, only take the graph of what is read."""
    answers = _Takes(tracer) if execute else _Answers(torch_xla._XLAC, tracer)
    library: Any = torch.library.Library("aten", "IMPL")  # type: ignore[no-untyped-call]
    _library.append(library)
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore"
        )  # that kernels of torch_xla are overridden is what is wanted
        for name, function in (
            ("_to_cpu", answers.to_cpu),
            ("_to_copy", answers.to_copy),
            ("copy_", answers.copy),
        ):
            kernel = torch.library.get_kernel(f"aten::{name}", "XLA")
            library.impl(name, _with(kernel, function), "XLA", with_keyset=True)
    if not execute:
        torch_xla._XLAC._xla_get_cpu_tensors = answers.to_cpu
        _expect_finite(torch_xla._XLAC)


def _expect_finite(library: Any) -> None:
    """Let `isfinite`, and `all` of it, be true: else a script that guards against overflow ends here."""

    def noting(function: Any, only_of_true: bool) -> Any:
        def noted(*args: Any, **kwargs: Any) -> Any:
            result = function(*args, **kwargs)
            if result.device.type == "xla" and (not only_of_true or _is_true(library, args[0])):
                _true.add(library._xla_get_tensor_id(result))
            return result

        return noted

    for owner in (torch, torch.Tensor):
        setattr(owner, "isfinite", noting(getattr(owner, "isfinite"), False))  # noqa: B009, B010
        setattr(owner, "all", noting(getattr(owner, "all"), True))  # noqa: B009, B010


def _is_true(library: Any, tensor: torch.Tensor) -> bool:
    return tensor.device.type == "xla" and library._xla_get_tensor_id(tensor) in _true


def _with(kernel: Any, function: Any) -> Any:
    def called(keys: Any, *args: Any, **kwargs: Any) -> Any:
        answer = function(*args, **kwargs)
        return kernel.call_boxed(keys, *args, **kwargs) if answer is None else answer

    return called


class _Takes:
    """Notes what is read, and leaves the reading to torch_xla."""

    def __init__(self, tracer: Any) -> None:
        self._tracer = tracer

    def to_cpu(self, tensors: Sequence[torch.Tensor]) -> None:
        self._tracer.take(tensors, "read")

    def to_copy(self, tensor: torch.Tensor, **options: Any) -> None:
        device = options.get("device")
        if device is not None and torch.device(device).type == "cpu":
            self._tracer.take([tensor], "read")

    def copy(self, target: torch.Tensor, source: torch.Tensor, non_blocking: bool = False) -> None:
        if target.device.type != "xla":
            self._tracer.take([source], "read")


class _Answers:
    def __init__(self, library: Any, tracer: Any) -> None:
        self._library = library
        self._tracer = tracer
        self._fetch = library._xla_get_cpu_tensors
        self._times: Counter[str] = Counter()  # reads that were answered, by place

    def to_cpu(self, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Answer tensors that one graph computes, such as the operands of an operation without a kernel."""
        self._tracer.take(tensors, "read")
        return [self._answer(tensor) for tensor in tensors]

    def to_copy(self, tensor: torch.Tensor, **options: Any) -> torch.Tensor | None:
        device = options.get("device")
        if tensor.device.type != "xla" or device is None or torch.device(device).type != "cpu":
            return None
        [answer] = self.to_cpu([tensor])
        return answer.to(options["dtype"]) if options.get("dtype") is not None else answer

    def copy(
        self, target: torch.Tensor, source: torch.Tensor, non_blocking: bool = False
    ) -> torch.Tensor | None:
        if source.device.type != "xla" or target.device.type == "xla":
            return None
        return target.copy_(self.to_cpu([source])[0])

    def _answer(self, tensor: torch.Tensor) -> torch.Tensor:
        if tensor.device.type != "xla":
            return tensor
        known = self._known(tensor)
        if known is not None:
            return known
        place = where.caller()
        value = made_up(tensor, _in_scaler(), self._times[place])
        if _is_true(self._library, tensor):
            value = torch.ones_like(value)
        self._times[place] += 1
        records.write("read", place=place, answer=_shown(value))
        return value

    def _known(self, tensor: torch.Tensor) -> torch.Tensor | None:
        """Return the value if it exists or follows from known values."""
        pending = self._library._check_tensor_need_materialization([tensor])[0]
        kept: torch.Tensor | None = self._tracer.values.get(
            self._library._xla_get_tensor_id(tensor)
        )
        if kept is not None and not pending:
            return kept
        if pending and not self._tracer.is_known(tensor):
            return None
        if not pending and self._library._is_placecholder(tensor):
            return None
        value: torch.Tensor = self._fetch([tensor])[0]
        return value


def made_up(tensor: torch.Tensor, in_scaler: bool, times: int) -> torch.Tensor:
    """Ones of its shape; false; for GradScaler, that no gradient overflowed.

    A floating-point number falls a little from read to read, so that what waits for a better loss (or for any score
    above zero) gets it: most often the checkpoint. All are on the host, whatever the script's default device is: on the
    device they would be graphs that a real run does not have.
    """
    kind: dict[str, Any] = {"dtype": tensor.dtype, "device": "cpu"}
    if tensor.dtype == torch.bool or in_scaler or tensor.numel() > _FEW:
        return torch.zeros(tensor.shape, **kind)
    if tensor.dim() == 0 and tensor.dtype.is_floating_point:
        return torch.tensor(max(_FIRST - times / 1000, 0.5), **kind)
    return torch.ones(tensor.shape, **kind)


def _in_scaler() -> bool:
    frame = sys._getframe(2)
    while frame is not None:
        if frame.f_code.co_filename.endswith("grad_scaler.py"):
            return True
        frame = frame.f_back  # type: ignore[assignment]
    return False


def _shown(value: torch.Tensor) -> str:
    if value.numel() == 0:
        return "nothing"
    first = value.reshape(-1)[0].item()
    return f"{first}" if value.dim() == 0 else f"{tuple(value.shape)} of {first}"
