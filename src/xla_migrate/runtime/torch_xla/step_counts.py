"""Numbers that an optimizer computes from its step count, before the host knows how many steps were skipped.

Adam's bias corrections are numbers of Python's, in double precision, made of a count that stands on the host. Where the
device decides whether a step is taken, the count is one of a few: `Count` is all of them, and so is what is computed of it.
Where it meets a tensor of the device, the device picks the one that holds.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import torch
from torch.overrides import TorchFunctionMode


class Unknown(Exception):
    """The code needs the exact number of steps, which is not known yet."""


class Undecided(Unknown):
    """A comparison whose result differs between the possible numbers. It may be decided once more is known."""


class Count(float):
    """One of several numbers: `values[k]` where `k` steps have been skipped of those that are not known of.

    To C it is not a number: whatever computes with it past these methods is found by that.
    """

    values: tuple[float, ...]

    def __new__(cls, values: tuple[float, ...]) -> Count:
        self = float.__new__(cls, "nan")
        self.values = values
        return self


def count(values: tuple[float, ...]) -> float:
    """Return a count that is one of `values`; a plain number if all are equal."""
    if all(value == values[0] for value in values):
        return values[0]
    return Count(values)


def _applied(operation: Callable[..., Any], *operands: Any) -> Any:
    """`operation` of each of the numbers that `operands` may be."""
    if not all(isinstance(operand, (int, float)) for operand in operands):
        return NotImplemented  # a tensor's method, which the mode sees
    return _of_each(operation, *(o.values if type(o) is Count else o for o in operands))


@functools.lru_cache(maxsize=64, typed=True)  # each parameter repeats the call
def _of_each(operation: Callable[..., Any], *operands: Any) -> Any:
    size = next(len(o) for o in operands if type(o) is tuple)
    each = zip(*(o if type(o) is tuple else (o,) * size for o in operands), strict=True)
    try:
        return count(tuple(operation(*numbers) for numbers in each))
    except ArithmeticError:  # of one that may not be the one that holds
        raise Undecided from None


def _asked(operation: Callable[..., Any], *operands: Any) -> Any:
    """Return the result of `operation` if it is the same for all of the numbers."""
    found = _applied(operation, *operands)
    if type(found) is Count:
        raise Undecided
    return found


def _refused(self: Count, *ignored: Any) -> Any:
    raise Unknown


def _define() -> None:
    def methods(operation: Callable[..., Any]) -> tuple[Any, Any]:
        return (
            lambda self, other: _applied(operation, self, other),
            lambda self, other: _applied(operation, other, self),
        )

    for name in "add sub mul truediv floordiv mod pow".split():
        there, back = methods(getattr(operator, name))
        setattr(Count, f"__{name}__", there)
        setattr(Count, f"__r{name}__", back)
    for name in "neg pos abs".split():
        function = getattr(operator, name)
        setattr(Count, f"__{name}__", lambda self, function=function: _applied(function, self))
    for name in "lt le gt ge eq ne".split():
        function = getattr(operator, name)
        setattr(
            Count,
            f"__{name}__",
            lambda self, other, function=function: _asked(function, self, other),
        )
    for name, function in {"bool": operator.truth}.items():
        setattr(Count, f"__{name}__", lambda self, function=function: _asked(function, self))
    for name in "float int trunc floor ceil round divmod rdivmod hash".split():
        setattr(Count, f"__{name}__", _refused)


_define()


class Counting(TorchFunctionMode):
    """While an optimizer steps: its counts are read as `Count`, and the device picks what is made of them.

    Args:
        counts: The tensors on the host that count steps.
        missed: How many of the steps that they count may have been skipped.
        pick: Gives the one of several numbers that holds, as a tensor of this type.
    """

    def __init__(
        self,
        counts: Mapping[int, torch.Tensor],
        missed: int,
        pick: Callable[[tuple[float, ...], torch.dtype], torch.Tensor],
    ) -> None:
        super().__init__()
        self._counts = counts
        self._missed = missed
        self._pick = pick
        self.counted: list[torch.Tensor] = []  # those that were added to

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        given = (*args, *kwargs.values())
        for part in given:  # most calls have to do with no count
            kind = type(part)
            if (kind not in _PLAIN or id(part) in self._counts) and not (
                kind is float and part == part
            ):
                break
        else:
            return func(*args, **kwargs)
        if self._reads_a_count(func, args):
            number = func(*args)
            return count(tuple(number - k for k in range(self._missed + 1)))
        if not any(map(_is_unknown, _flat(given))):
            return func(*args, **kwargs)
        if any(isinstance(part, (list, tuple, dict)) for part in given):
            raise Unknown  # of many tensors at once
        return self._picked(func, args, kwargs)

    def _reads_a_count(self, func: Any, args: Any) -> bool:
        """True for `count.item()`; a count that is added to stays what it is."""
        mine = [part for part in _flat(args) if id(part) in self._counts]
        if not mine:
            return False
        name = _name(func)
        if name in _READS:
            return True
        if name in _CHANGES:
            self.counted += mine
        elif name != "__get__":  # of an attribute
            raise Unknown
        return False

    def _picked(self, func: Any, args: Any, kwargs: Mapping[str, Any]) -> Any:
        """`func` with tensors of the device in the place of counts."""
        target = next((a for a in args if isinstance(a, torch.Tensor)), None)
        if target is None or target.device.type != "xla" or not target.is_floating_point():
            raise Unknown

        def tensor(value: Any) -> Any:
            if type(value) is Count:
                return self._pick(value.values, target.dtype)
            if _is_unknown(value):
                raise Unknown
            return value

        scaled = _SCALED.get(_name(func))
        if scaled is not None and kwargs.keys() == {scaled.scale} and len(args) == scaled.given:
            first, *others = args
            of = others[0] if len(others) == 1 else scaled.joined(*others)
            return scaled.then(first, of * tensor(kwargs[scaled.scale]))
        return func(*map(tensor, args), **{name: tensor(v) for name, v in kwargs.items()})


class _Scaled(NamedTuple):
    """A function whose last argument is a number: what must be done with a tensor in its place."""

    scale: str
    then: Any
    joined: Any = None

    @property
    def given(self) -> int:
        """Return the number of tensors that the call takes."""
        return 3 if self.joined else 2


_T = torch.Tensor
_SCALED = {
    "addcdiv_": _Scaled("value", _T.add_, _T.div),
    "addcmul_": _Scaled("value", _T.add_, _T.mul),
    "add_": _Scaled("alpha", _T.add_),
    "sub_": _Scaled("alpha", _T.sub_),
}
_PLAIN = frozenset({torch.Tensor, torch.nn.Parameter, int, bool, type(None)})
_READS = frozenset({"item", "__float__"})
_CHANGES = frozenset({"add_", "__iadd__"})


def _name(func: Any) -> str:
    """By which a method is known: the functions themselves are wrapped by whoever watches them."""
    return getattr(func, "__name__", "")


def _is_unknown(value: Any) -> bool:
    """True for a count; also for what C has made of one, which is no number."""
    return isinstance(value, float) and float.__ne__(value, value) is True


def _flat(given: Any) -> Iterator[Any]:
    """`given`, and what lists in it hold."""
    for part in given:
        if isinstance(part, (list, tuple)):
            yield from _flat(part)
        else:
            yield part
