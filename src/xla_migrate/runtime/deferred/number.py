"""A deferred number: arithmetic with it gives such numbers too, everything else waits for it.

So may be what is computed of numbers, as a text.
"""

from __future__ import annotations

import math
import numbers
import operator
from collections.abc import Callable
from typing import Any

import torch

from .waiting import Snapshot, queue

_THERE, _FAILED = -1, -2  # in place of the place of a number that waits


class Number:
    """A deferred number; see `reading.item`. To everything but arithmetic it is a Python number."""

    __slots__ = ("_operands", "_operation", "_place", "_source", "_value")

    def __init__(
        self,
        source: Snapshot | None,
        operation: Callable[..., Any] | None = None,
        operands: tuple[Any, ...] = (),
    ) -> None:
        self._source = source
        self._operation = operation
        self._operands = operands
        self._value: Any = None
        self._place = queue.put(self)

    @property
    def waits(self) -> bool:
        """True if its value has not come yet."""
        return self._place >= 0

    def wait(self) -> Any:
        """Its value, which comes now at the latest."""
        if self._place >= 0:
            if not queue.is_ours():
                return _read_elsewhere(self)
            queue.settle_step(self._place)
        if self._place == _FAILED:
            raise self._value
        return self._value

    def arrive(self) -> None:
        """Values of all that was made before are there."""
        place = _THERE
        if self._source is not None:
            assert self._source.host is not None
            self._value = self._source.host.item()
        else:
            assert self._operation is not None
            try:
                self._value = self._operation(*map(_known, self._operands))
            except (ArithmeticError, ValueError) as error:  # raised where the number is used
                self._value, place = error, _FAILED
        self._place = place  # before what it was made of goes, for other threads
        self._source, self._operation, self._operands = None, None, ()

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """The type of the number: `isinstance(number, float)` does not wait for a value of a tensor."""
        return _kind(self)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # protocols that numbers have not
            raise AttributeError(name)
        return getattr(self.wait(), name)

    def __reduce__(self) -> Any:
        return type(self.wait()), (self.wait(),)

    def __copy__(self) -> Number:
        return self

    def __deepcopy__(self, memo: Any) -> Number:
        return self

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        import numpy as np

        return np.asarray(self.wait(), dtype)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **more: Any) -> Any:
        """Compute with numpy's numbers later, and with its arrays at once: `array += number` changes the array itself."""
        operation = _UFUNCS.get(ufunc.__name__)
        if operation is not None and method == "__call__" and not more:
            return compute(operation, *inputs)
        return getattr(ufunc, method)(*map(_known, inputs), **more)

    @classmethod
    def __torch_function__(
        cls, function: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Let functions of torch take the number as an argument: their parser accepts only Python's own numbers."""
        named = {name: _known(value) for name, value in (kwargs or {}).items()}
        return function(*map(_known, args), **named)

    def __conform__(self, protocol: Any) -> Any:
        """Return the value, for a parameter of sqlite3."""
        return self.wait()

    def __divmod__(self, other: Any) -> Any:
        return divmod(self.wait(), _known(other))

    def __rdivmod__(self, other: Any) -> Any:
        return divmod(_known(other), self.wait())

    __hash__: Any = None  # set below, with the rest


def _read_elsewhere(number: Number) -> Any:
    """Read the value of `number` from a thread other than its owner, by reading its operands."""
    found: dict[int, Any] = {}
    work: list[Number] = [number]
    while work:
        made = work[-1]
        if id(made) in found:
            work.pop()
            continue
        source, operation, operands = made._source, made._operation, made._operands
        if made._place < 0:  # it has come; looked at last, since it is set last
            found[id(work.pop())] = made.wait()
        elif source is not None:
            found[id(work.pop())] = source.read().item()
        elif waited := [o for o in operands if type(o) is Number and id(o) not in found]:
            work += waited
        elif operation is not None:
            known = [found[id(o)] if type(o) is Number else o for o in operands]
            found[id(work.pop())] = operation(*known)
    return found[id(number)]


def _kind(number: Number) -> type:
    """`float`, of `loss.item()` and of sums and products with it; else asked of the value."""
    source, operands = number._source, number._operands
    parts = operands if number._operation in _SUMS else (number,)
    if any(type(part) is float or _is_of(part, torch.is_floating_point) for part in parts):
        return float
    if source is not None and source.device is not None and source.device.dtype in _INTEGERS:
        return int
    return type(number.wait())


def _is_of(part: Any, test: Callable[[torch.Tensor], bool]) -> bool:
    """True if `part` is read of a tensor that `test` holds for."""
    source = part._source if type(part) is Number else None
    device = source.device if source is not None else None
    return device is not None and test(device)


_SUMS = (operator.add, operator.sub, operator.mul)
_INTEGERS = (torch.int64, torch.int32, torch.uint8)


def _known(value: Any) -> Any:
    return value.wait() if type(value) is Number else value


def compute(operation: Callable[..., Any], *operands: Any) -> Any:
    """Apply `operation`: deferred if an operand is a deferred number, at once otherwise."""
    if all(isinstance(operand, _NUMBERS) for operand in operands):
        waiting = any(type(operand) is Number and operand.waits for operand in operands)
        if waiting and queue.is_ours():
            return Number(None, operation, operands)
    return operation(*map(_known, operands))


_NUMBERS = (Number, int, float, str)  # texts are joined by +
_UFUNCS = {
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
    "divide": operator.truediv,
    "floor_divide": operator.floordiv,
    "remainder": operator.mod,
    "power": operator.pow,
}
_BINARY = "add sub mul truediv floordiv mod pow".split()
_BITS = (operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift)
_UNARY = "neg pos abs".split()
_ASKED = "lt le gt ge eq ne".split()
_RESOLVING: tuple[Callable[..., Any], ...] = (
    *(bool, float, int, complex, str, repr, hash, format, round, operator.index, operator.invert),
)


def _define() -> None:
    def binary(operation: Callable[..., Any]) -> tuple[Any, Any]:
        return (
            lambda self, other: compute(operation, self, other),
            lambda self, other: compute(operation, other, self),
        )

    def resolving(function: Callable[..., Any]) -> Any:
        return lambda self, *args: function(self.wait(), *args)

    for name in _BINARY:
        there, back = binary(getattr(operator, name))
        setattr(Number, f"__{name}__", there)
        setattr(Number, f"__r{name}__", back)
    for function in _BITS:  # of integers; other types raise, as in Python
        name = function.__name__.strip("_")
        setattr(Number, f"__{name}__", lambda a, b, do=function: do(a.wait(), _known(b)))
        setattr(Number, f"__r{name}__", lambda a, b, do=function: do(_known(b), a.wait()))
    for name in _UNARY:
        function = getattr(operator, name)
        setattr(Number, f"__{name}__", lambda self, function=function: compute(function, self))
    for name in _ASKED:
        function = getattr(operator, name)
        setattr(
            Number,
            f"__{name}__",
            lambda self, other, function=function: function(self.wait(), _known(other)),
        )
    for function in _RESOLVING:
        setattr(Number, f"__{function.__name__}__", resolving(function))
    for name in ("trunc", "floor", "ceil"):
        setattr(Number, f"__{name}__", resolving(getattr(math, name)))


_define()
numbers.Real.register(Number)
