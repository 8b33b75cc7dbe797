"""Values read from the device without stopping the step: numbers on their way, and calls that wait for them.

``loss.item()`` in every step makes the host wait for the device in every step.
Here the value stays on the device, and is fetched with those of other steps, in one transfer,
when the device is done with it anyway:

    running += xla.item(loss)                                       # in place of loss.item()
    xla.later(lambda step=step, loss=loss: print(step, loss.item()))  # in place of print(...)
    ...
    print(running / steps)                                          # whoever needs it waits

:func:`item` gives a number that is on its way. Python computes with it as with any number: sums are
made on the host, in double precision, in the order in which they are written. Formatting, comparing,
``float`` and numpy wait for it. :func:`computed` applies other functions: ``min``, ``math.exp``.

:func:`later` makes a call once the values that it needs have come: calls in the order in which they
were made, in the thread that made them, at a step mark. Whatever else is written to
``sys.stdout`` or ``sys.stderr``, or logged, comes in its place: what waits is done before it. So it is at
the end of a device loader, before an exception's traceback, and when the process ends.

On eager backends, and in threads other than the first that used this, all do at once what they are
asked to: ``item`` is ``tensor.item()``, and ``later`` calls.
"""

from __future__ import annotations

import atexit
import sys
import time
from collections.abc import Callable, Sequence
from types import CodeType
from typing import Any, NoReturn, TypeVar

from . import libraries as _libraries  # noqa: F401 - it registers what happens at the first use
from .leaving import leaving
from .number import Number, compute
from .objects import watch_object
from .opened import watch_opened
from .output import watch, watch_file
from .values import filling, has_waiting, held, here, waits
from .waiting import Cancellable, queue

T = TypeVar("T")


def item(tensor: Any) -> Any:
    """``tensor.item()`` that does not wait: a number that is on its way from the device.

    What the tensor is now counts; changing it in place afterwards changes nothing.

    Args:
        tensor: A tensor with one element, or anything else with ``item``.

    Returns:
        A number to compute with, or to hand on to :func:`arrived`, which gives the Python number
        itself; that at once for what is not on an XLA device.

    Raises:
        RuntimeError: if the tensor has more than one element.

    Example:
        >>> loss = xla.item(model(x).sum())
        >>> average = loss / 3
    """
    if waits(tensor) and tensor.numel() == 1:
        return Number(queue.snapshot(tensor))
    return tensor.item()


def computed(function: Callable[..., Any], *numbers: Any) -> Any:
    """``function(*numbers)``, when those of the numbers have come that are on their way.

    Args:
        function: ``min``, ``max``, ``math.exp`` or another that computes a number of numbers, or a
            text, and does nothing else. What it raises is raised where the result is used. A function
            made in a loop has what it uses of now as defaults, as for :func:`later`, tensors too.
        numbers: Python numbers, and those of :func:`item`.

    Returns:
        A number or text on its way; the function's result itself where all are there already.

    Example:
        >>> largest = xla.computed(max, xla.item(model(x).sum()), 0.0)
        >>> largest >= 0
        True
        >>> text = xla.computed(lambda step=3, loss=model(x).sum(): f"step {step}: {loss.ndim}")
        >>> print(text)
        step 3: 0
    """
    values = getattr(function, "__defaults__", None) or ()
    if not any(map(has_waiting, values)) or not queue.is_ours():
        return compute(function, *numbers)
    return Number(None, lambda *given: function(*map(here, given)), (*numbers, *map(held, values)))


def later(call: Callable[..., Any], to: Any = None) -> None:
    """``call()``, when the values of the tensors that it has as defaults have come.

    What the call is to use of now is bound as a default, as for any function made in a loop.
    Tensors among the defaults, also in lists, tuples and dicts, come as copies on the host; what
    they are now counts. An exception of the call is raised at the step mark that makes it.

    Args:
        call: ``lambda loss=loss, step=step: print(step, loss.item())``.
        to: The open file that the call writes to, if that is not the console: what waits is done
            before the file is closed, or written to by others. Or the logger, tracker or other object
            that the call tells something: what waits is done before anything else is asked of it.

    Example:
        >>> for step in range(2):
        ...     xla.later(lambda step=step, loss=model(x).sum(): print(step, loss.ndim))
        ...     xla.mark_step()
        0 0
        1 0
    """
    _called_by_its_function(call, sys._getframe(1).f_code)
    values = getattr(call, "__defaults__", None) or ()
    if not (queue.calls or any(map(has_waiting, values))) or not queue.is_ours():
        call()
        return
    streams = (sys.stdout, sys.stderr)
    known = all(watch(stream, _put) for stream in streams if stream is not None)
    if not known or not (to is None or watch_file(to, _put) or watch_object(to)):
        queue.settle()
        call(*map(here, values))
        return
    _put(call, tuple(map(held, values)))


def stop(error: BaseException | type[BaseException]) -> NoReturn:
    """``raise error``, in the call of :func:`later`, where no statement can stand.

    The step mark that makes the call raises it, and what was to be shown after it is not shown.

    Args:
        error: An exception, or its class.

    Raises:
        BaseException: ``error``.

    Example:
        >>> for step, loss in enumerate([torch.tensor(1.0), torch.tensor(float("nan"))]):
        ...     error = ValueError(f"no loss at step {step}")
        ...     xla.later(lambda loss=loss, error=error: xla.stop(error) if torch.isnan(loss) else None)
        Traceback (most recent call last):
        ValueError: no loss at step 1
    """
    raise error


def _called_by_its_function(call: Any, outer: CodeType) -> None:
    """Have the lambda `call` named as what it stands in: logging shows it as `%(funcName)s`."""
    code = getattr(call, "__code__", None)
    if code is None or code.co_name != "<lambda>":
        return
    known = _named.get(id(code))
    if known is None:
        known = _named[id(code)] = code, code.replace(co_name=outer.co_name)
    call.__code__ = known[1]


_named: dict[int, tuple[CodeType, CodeType]] = {}  # of each lambda, which stays the same in a loop


def _put(call: Callable[..., Any], values: tuple[Any, ...] = ()) -> None:
    queue.calls += 1
    queue.put(_Call(call, values))


def fill(array: Any, index: Any, value: Any) -> None:
    """``array[index] = value``, when the value has come.

    Whoever looks at the array before asks for :func:`arrived` of it.

    Args:
        array: A numpy array, or a tensor of the host.
        index: Of one element.
        value: A number, which may be on its way.

    Example:
        >>> curve = torch.zeros(2)
        >>> xla.fill(curve, 0, xla.item(model(x).sum() * 0 + 1))
        >>> xla.arrived(curve)
        tensor([1., 0.])
    """
    if has_waiting(value) or id(array) in filling:
        queue.put(_Element(array, held(index), value))
    else:
        array[index] = value


class _Element:
    """An element of an array that waits for its value."""

    __slots__ = ("array", "index", "value")

    def __init__(self, array: Any, index: Any, value: Any) -> None:
        self.array = array
        self.index = index
        self.value = value
        filling[id(array)] = filling.get(id(array), 0) + 1

    def arrive(self) -> None:
        """The value has come."""
        left = filling.pop(id(self.array)) - 1
        if left:
            filling[id(self.array)] = left
        self.array[self.index] = here(self.value)


def arrived(value: T) -> T:
    """`value` with the numbers that are on their way come in: Python's own numbers.

    Args:
        value: A number, a list or dict of them, which is filled in, or a tuple; an array of :func:`fill`.

    Returns:
        The number, the list or dict itself, or a new tuple; anything else as it is.

    Example:
        >>> losses = [xla.item(model(x).sum())]
        >>> isinstance(xla.arrived(losses)[0], float)
        True
    """
    if type(value) is not Number and has_waiting(value):
        queue.settle_at_once()
    return here(value)  # type: ignore[no-any-return]


def flush() -> None:
    """Wait for all values that are on their way, and make all calls that wait for them.

    Example:
        >>> for _ in range(2):
        ...     xla.later(lambda loss=model(x).sum(): print(f"{loss.numel()} value"))
        ...     xla.flush()
        1 value
        1 value
    """
    queue.settle_all()


class _Call(Cancellable):
    """A call that waits for `values`, and prints to what were the standard streams when it was written."""

    __slots__ = ("call", "streams", "values", "written")

    def __init__(self, call: Callable[..., Any], values: tuple[Any, ...]) -> None:
        super().__init__()
        self.call = call
        self.values = values
        self.streams = sys.stdout, sys.stderr
        self.written = time.time()

    def arrive(self) -> None:
        """The values have come."""
        queue.calls -= 1
        if self.is_cancelled:
            return
        now, before = (sys.stdout, sys.stderr), queue.written
        sys.stdout, sys.stderr = self.streams
        queue.written = self.written
        try:
            self.call(*map(here, self.values))
        finally:
            sys.stdout, sys.stderr = now
            queue.written = before


def _flush_at_exit() -> None:
    atexit.register(leaving, flush)


queue.at_first_use += [_flush_at_exit, watch_opened]

__all__: Sequence[str] = ("arrived", "computed", "fill", "flush", "item", "later", "stop")
