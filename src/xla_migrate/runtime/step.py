"""The training step: where the graph ends, and how gradients become an update."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from . import _gradients, _tuned
from ._backend import backend, uses_torch_xla
from .deferred.values import waits
from .devices import device_type
from .processes import world_size


def mark_step() -> None:
    """Cut the graph: compile and launch what has been recorded since the last mark.

    Once per training step, after the optimizer, and once per evaluation batch; a loop over an
    ``MpDeviceLoader`` needs none, and a second mark does nothing (fact 1.88). On eager
    backends there is nothing to cut.

    Example:
        >>> model(x).sum().backward()
        >>> xla.optimizer_step(optimizer)
        >>> xla.mark_step()
    """
    if not _tuned.loader_marks():
        backend().mark_step()


def optimizer_step(
    optimizer: Any,
    closure: Callable[[], Any] | None = None,
    *,
    average: bool | None = None,
    where: Any = True,
    **kwargs: Any,
) -> Any:
    """Average the gradients over the replicas, then ``optimizer.step()``.

    Does not mark the step: a device loader does, or ``mark_step`` (fact 1.20).

    Args:
        optimizer: Anything with ``step``. If there are several replicas, it needs ``param_groups``, or a ``step`` that
            calls ``optimizer_step`` or ``reduce_gradients`` for the optimizer inside it.
        closure: As for ``torch.optim``. The gradients that it computes are averaged each time it
            runs, not those from before (fact 1.23).
        average: False for parameters that are each replica's own, as in model parallelism: their
            gradients stay as they are. Where the program wraps some model in
            ``DistributedDataParallel``, the wrapper says what is averaged, and all else is so only
            with True.
        where: Take the step only if this holds: `torch.isfinite(norm)`, a tensor with one element, and the
            device decides, without the host waiting for it. Of several replicas that average, all have to say so. With
            a closure, and for optimizers that are not torch.optim's or keep more than a count of steps on the host,
            the host waits for it.
        kwargs: More arguments for ``optimizer.step``.

    Returns:
        What ``optimizer.step`` returned; None for a step that the host knows is not taken.

    Raises:
        TypeError: there are several replicas, and neither `optimizer` nor its ``step`` says what to average.
        RuntimeError: at the first step, if the parameters differ between replicas, because averages would
            train them wrong; and if a ``DistributedDataParallel`` has not averaged all gradients.

    Example:
        >>> model(x).sum().backward()
        >>> xla.optimizer_step(optimizer)
    """
    _warn_of_the_host(optimizer)
    if closure is None:
        if average is None and not hasattr(optimizer, "param_groups"):
            return _step_around_another(optimizer, where, kwargs)
        reduce_unasked(optimizer, average)
        return step_if(optimizer, where, average, kwargs)
    if not where:
        return None

    def reduced_closure() -> Any:
        loss = closure()
        reduce_unasked(optimizer, average)
        return loss

    return optimizer.step(reduced_closure, **kwargs)


_reductions = 0  # how often gradients were to be averaged


def _step_around_another(optimizer: Any, where: Any, arguments: dict[str, Any]) -> Any:
    """Step an object of a user's class, whose own step averages the gradients of the optimizer inside it."""
    before = _reductions
    result = step_if(optimizer, where, None, arguments)
    if where is True and _reductions == before and world_size() > 1:
        _gradients.check_complete(optimizer)  # raises
    return result


def step_if(optimizer: Any, where: Any, average: bool | None, arguments: dict[str, Any]) -> Any:
    """``optimizer.step(**arguments)`` if `where` holds; on several replicas that average, if it holds on all."""
    if where is True:
        return optimizer.step(**arguments)
    if not waits(where):
        return optimizer.step(**arguments) if where else None
    from .torch_xla.chosen_steps import step_where

    taken = where.detach().reshape(()) != 0
    if world_size() > 1 and average is not False:
        left = (~taken).float()
        backend().total([left], 1.0)
        taken = left == 0
    return step_where(optimizer, taken, arguments)


_is_warned = False


def _warn_of_the_host(optimizer: Any) -> None:
    """Warn once: a script whose own switch has chosen the CPU trains there without a sign."""
    global _is_warned
    if _is_warned:
        return
    _is_warned = True
    groups = getattr(optimizer, "param_groups", ())  # a user's class may lack them
    kinds = {p.device.type for group in groups for p in group["params"]}
    if kinds == {"cpu"} and device_type() != "cpu":
        warnings.warn(
            f"this training runs on the CPU, not on the {device_type()!r} device of this host: "
            "look for an option or a count of GPUs that puts the model on the CPU",
            stacklevel=3,
        )


def reduce_unasked(optimizer: Any, average: bool | None = None) -> None:
    """Average gradients before a step if the script does not say whether to, or check that they are averaged."""
    global _reductions
    _reductions += 1
    if average is None and _gradients.wrapper_exists():
        if world_size() > 1:
            _gradients.check_complete(optimizer)
    elif average is not False:
        reduce_gradients(optimizer)


def reduce_gradients(optimizer: Any) -> None:
    """Average the gradients that ``optimizer`` will use over the replicas.

    For loops with something between backward and step, such as clipping, which has to see the
    averaged gradients (fact 3.8): reduce, clip, then ``optimizer.step()`` or
    ``optimizer_step``. Until the next backward, doing it again does nothing; nor does it for
    gradients that a ``DistributedDataParallel`` looks after, which averages them in backward. Every
    replica has to call it; with one replica it does nothing.

    Args:
        optimizer: Anything with ``param_groups``.

    Raises:
        RuntimeError: at the first step, where the parameters differ between replicas.

    Example:
        >>> model(x).sum().backward()
        >>> xla.reduce_gradients(optimizer)
        >>> norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        >>> optimizer.step()
    """
    global _reductions
    _reductions += 1
    if world_size() > 1:
        parameters = _gradients.to_average(optimizer)
        _gradients.check_replicated(parameters, world_size())
        _gradients.average(parameters, world_size())
        _gradients.note_averaged(parameters)


def synchronize(device: Any = None, *, mark: bool = True) -> None:
    """Cut the graph and wait until the device has done all of it, as a timing needs (1.51).

    Args:
        device: Accepted for scripts that name one; a process has one accelerator.
        mark: False waits for what has been launched, and cuts nothing: ``xm.wait_device_ops``.

    Example:
        >>> y = model(x)
        >>> xla.synchronize()  # the time is that of the work from here on
    """
    if mark or not uses_torch_xla():
        backend().synchronize()
        return
    from .torch_xla.modules import xm

    xm.wait_device_ops()
