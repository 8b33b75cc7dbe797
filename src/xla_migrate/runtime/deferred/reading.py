"""Read values from the device without blocking the step: deferred numbers, and calls that wait for them.

``loss.item()`` in every step makes the host wait for the device in every step.
Here the value stays on the device. It is fetched with the values of other steps, in one transfer,
after a step mark:

    running += xla.item(loss)                                         # instead of loss.item()
    xla.later(lambda step=step, loss=loss: print(step, loss.item()))  # instead of print(...)
    ...
    print(running / steps)                                            # waits for the value

:func:`item` returns a deferred number. Python computes with it as with any number: sums are computed
on the host, in double precision, in the order of the script. Formatting, comparing, ``float`` and
numpy wait for the value. :func:`computed` applies other functions, such as ``min`` and ``math.exp``.

:func:`later` makes a call when its values are available: at a step mark, in the thread that
requested it, and in the order of the requests. Other output to ``sys.stdout``, ``sys.stderr`` and
logs keeps its position: pending calls are made first. Pending calls are also made at the end of a
device loader, before the traceback of an exception, and when the process ends.

On eager backends, and in threads other than the first one that used this module, both act at once:
``item`` is ``tensor.item()``, and ``later`` calls.
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
    """Return a deferred number: like ``tensor.item()``, but it does not block.

    The number is the tensor's current value. Later changes in place do not affect it.

    Args:
        tensor: A tensor with one element, or anything else with ``item``.

    Returns:
        A number to compute with. :func:`arrived` returns it as a Python number. Values that are
        not on an XLA device are returned at once.

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
    """Return ``function(*numbers)``, computed when all deferred numbers are available.

    Args:
        function: ``min``, ``max``, ``math.exp`` or another function that computes a number or a text
            from numbers and has no other effect. Its exceptions are raised when the result is used.
            A function that is created in a loop binds values and tensors as defaults, as for
            :func:`later`.
        numbers: Python numbers, and results of :func:`item`.

    Returns:
        A deferred number or text, or the function's result if all numbers are available.

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
    """Call ``call()`` once the tensors bound as its default arguments are available.

    Bind current values as defaults, as for any function that is created in a loop. Tensors among the
    defaults, also in lists, tuples and dicts, become copies of their current values on the host. An
    exception of the call is raised at the step mark that makes the call.

    Args:
        call: ``lambda loss=loss, step=step: print(step, loss.item())``.
        to: The open file that the call writes to, if it is not the console: pending calls are made
            before the file is closed, or before other code writes to it. Or the logger, tracker or
            other object that the call uses: pending calls are made before other code uses it.

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
    """Raise ``error`` inside a lambda of :func:`later`, which cannot contain a statement.

    The step mark that makes the call raises it. Output of later calls is dropped.

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
    """Give the lambda `call` the name of its function, which logging shows as `%(funcName)s`."""
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
    """Assign ``array[index] = value`` when the value is available.

    Use :func:`arrived` of the array to read it before.

    Args:
        array: A numpy array, or a tensor on the host.
        index: The index of one element.
        value: A number, which may be deferred.

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
    """An element of an array whose value is pending."""

    __slots__ = ("array", "index", "value")

    def __init__(self, array: Any, index: Any, value: Any) -> None:
        self.array = array
        self.index = index
        self.value = value
        filling[id(array)] = filling.get(id(array), 0) + 1

    def arrive(self) -> None:
        """Assign the value."""
        left = filling.pop(id(self.array)) - 1
        if left:
            filling[id(self.array)] = left
        self.array[self.index] = here(self.value)


def arrived(value: T) -> T:
    """Return `value` with deferred numbers replaced by Python numbers. Waits for them.

    Args:
        value: A number, a list or dict of numbers (changed in place), a tuple, or an array of :func:`fill`.

    Returns:
        The number, the same list or dict, or a new tuple. Other values are returned unchanged.

    Example:
        >>> losses = [xla.item(model(x).sum())]
        >>> isinstance(xla.arrived(losses)[0], float)
        True
    """
    if type(value) is not Number and has_waiting(value):
        queue.settle_at_once()
    return here(value)  # type: ignore[no-any-return]


def flush() -> None:
    """Wait for all deferred values, and make all pending calls.

    Example:
        >>> for _ in range(2):
        ...     xla.later(lambda loss=model(x).sum(): print(f"{loss.numel()} value"))
        ...     xla.flush()
        1 value
        1 value
    """
    queue.settle_all()


class _Call(Cancellable):
    """A pending call with its `values`. It prints to the standard streams of the time of the request."""

    __slots__ = ("call", "streams", "values", "written")

    def __init__(self, call: Callable[..., Any], values: tuple[Any, ...]) -> None:
        super().__init__()
        self.call = call
        self.values = values
        self.streams = sys.stdout, sys.stderr
        self.written = time.time()

    def arrive(self) -> None:
        """Make the call."""
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
