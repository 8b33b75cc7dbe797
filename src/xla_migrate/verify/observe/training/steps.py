"""Records of optimizer steps: an event with losses, gradients, weights, counts and times.

torch calls global hooks around the `step` of every `torch.optim.Optimizer`, wrapped or subclassed.
Three kinds of steps they do not see are made events too: a step that a loss scaler skipped, the
steps of a script without an optimizer (it updates `p.data` itself: then a backward pass ends the
step before), and steps inside steps count as one.
"""

from __future__ import annotations

import functools
import os
import platform
import sys
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.optim import optimizer as optimizer_module

from ..device import counters, device_values, reads
from ..process import clock, records, where
from ..process.patching import Patches
from ..process.stop import TrainingStopped
from . import fingerprints, left_steps, losses, names, options, untracked_state, weights


class Tap:
    """The state of one process's training."""

    def __init__(
        self,
        steps: int | None,
        finish: Callable[[], None],
        *,
        keep: str | None = None,
        follow: str | None = None,
        shake: int = 0,
        redirected: bool = False,
    ) -> None:
        self.limit = steps
        self.finish = finish
        self.keep = keep
        self.follow = follow
        self.shake = shake
        self.redirected = redirected
        self.events = 0
        self.done: dict[int, int] = {}  # optimizer -> steps
        self.order: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self.live: weakref.WeakSet[Any] = weakref.WeakSet()
        self.running: list[Any] = []  # optimizers inside their step
        self.gradients: torch.Tensor | None = None
        self.before: torch.Tensor | None = None
        self.parameters: dict[int, list[torch.Tensor]] = {}
        self.built: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()
        self.options: dict[int, list[options.Group]] = {}  # as last written
        self.used: list[options.Group] | None = None  # in the step that is running
        self.last = clock.now()
        self.counted: dict[str, float] = {}
        self.is_left = False  # the step that is called now, which the device does not take
        self.scale: torch.Tensor | None = None  # of the loss scaler whose step is running
        self.left = 0  # backward passes of such steps since the last one
        self.stopped = False
        self.before_steps: list[Callable[[Any, int], None]] = []  # (optimizer, number of the event)
        self.after_steps: list[Callable[[Any, int], None]] = []
        self.at_end: list[Callable[[], None]] = []
        self.at_events: list[Callable[[int], None]] = []  # steps that are skipped count, too

    # optimizers

    def pre_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        """A step is about to run."""
        if self.is_left:
            return
        if self.running and self.running[-1] is not optimizer:
            self.running.append(optimizer)  # a wrapper's inner step
            return
        if self.running and _is_within_a_step_of(optimizer):
            # What its class does before `super().step()`, such as to average them, is done to the gradients now.
            self.running.append(optimizer)
            if self.gradients is not None:
                with clock.harness():
                    self.gradients = self._gradients_of(optimizer)
            return
        self.running = [optimizer]  # also after a step that raised
        with clock.harness():
            number = self._number(optimizer)
            if self.limit is not None and self.done.get(number, 0) >= self.limit:
                self._stop()
            parameters = self._known(number, _parameters(optimizer), optimizer)
            self.used = options.of(optimizer)
            closure = kwargs.get("closure") or (args[0] if args else None)
            self.gradients = None if callable(closure) else self._gradients_of(optimizer)
            self.before = _off_mode(fingerprints.copies, fingerprints.weighed(parameters))
            _off_mode(untracked_state.begin, {id(p) for o in self.live for p in _parameters(o)})
            for listener in self.before_steps:
                _off_mode(listener, optimizer, self.events)

    def _gradients_of(self, optimizer: Any) -> torch.Tensor:
        scale = getattr(optimizer, "grad_scale", None)
        found: torch.Tensor = _off_mode(fingerprints.gradients, _parameters(optimizer), scale)
        return found

    def post_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        """A step has run."""
        if self.is_left or (self.running and self.running[-1] is not optimizer):
            return
        self.running.pop()
        if self.running:
            return
        with clock.harness():
            number = self._number(optimizer)
            parameters = self.parameters[number]
            if self.gradients is None:  # a closure computed them inside
                self.gradients = _off_mode(fingerprints.gradients, parameters)
            for listener in self.after_steps:
                _off_mode(listener, optimizer, self.events)
            self.event(number, parameters)
            if self.shake and self.done[number] == 1:
                _off_mode(fingerprints.shake, parameters, self.shake)
            self.exchange(parameters)
            if self._enough(number):
                self._stop()

    def exchange(self, parameters: Sequence[torch.Tensor]) -> None:
        """Keep the weights after the step that was recorded last, or take the original's."""
        if self.keep is not None:
            _off_mode(weights.keep, self.keep, self.events - 1, parameters)
        if self.follow is not None:
            _off_mode(weights.take, self.follow, self.events - 1, parameters)

    def _enough(self, number: int) -> bool:
        """With several optimizers, each gets its steps: the first to want one more ends the run."""
        return self.limit is not None and self.done[number] >= self.limit and len(self.live) <= 1

    def _number(self, optimizer: Any) -> int:
        if optimizer not in self.order:  # numbered by first step
            self.order[optimizer] = len(self.parameters)
        return self.order[optimizer]

    def _known(
        self, number: int, parameters: list[torch.Tensor], optimizer: Any = None
    ) -> list[torch.Tensor]:
        known = self.parameters.get(number)
        if known is None or len(known) != len(parameters):
            self._introduce(number, parameters, optimizer)
        self.parameters[number] = parameters
        return parameters

    def _introduce(self, number: int, parameters: list[torch.Tensor], optimizer: Any) -> None:
        records.write(
            "parameters",
            optimizer=number,
            kind_of_optimizer="" if optimizer is None else type(optimizer).__name__,
            built="" if optimizer is None else self.built.get(optimizer, ""),
            names=names.of(parameters),
            shapes=[list(device_values.local(p).shape) for p in parameters],
            trains=[p.requires_grad for p in parameters],
            devices=sorted({str(p.device.type) for p in parameters}),
            redirected=self.redirected,
            about=_about(self.redirected),
        )
        start = _off_mode(fingerprints.weights, parameters)
        device_values.later(
            [start],
            lambda v: records.write("initial", optimizer=number, weights=records.numbers(v[0])),
        )

    # events

    def event(self, number: int, parameters: Sequence[torch.Tensor], skipped: bool = False) -> None:
        """Record a step that is over."""
        self.done[number] = self.done.get(number, 0) + 1
        event, self.events = self.events, self.events + 1
        for listener in self.at_events:
            _off_mode(listener, event)
        now, total = clock.now(), counters.sample()
        backwards = list(losses.since_step)
        losses.since_step.clear()
        left, self.left = self.left, 0
        records.write(
            "step",
            event=event,
            optimizer=number,
            step=self.done[number],
            skipped=skipped,
            where=where.caller(),
            backwards=[place for _, place in backwards],
            left=left,
            with_gradient=[p.grad is not None for p in parameters],
            seconds=now[0] - self.last[0],
            harness=now[1] - self.last[1],
            counts=counters.difference(total, self.counted) if total else {},
            reads=reads.take(),
            options=self._changed_options(number),
        )
        self.last, self.counted = now, total
        self._values(event, [value for value, _ in backwards], parameters)
        if not counters.active():
            device_values.after_mark()

    def _changed_options(self, number: int) -> list[options.Group] | None:
        """Return the options of the finished step, if they differ from the step before."""
        used, self.used = self.used, None
        if used is None or used == self.options.get(number):
            return None
        self.options[number] = used
        return used

    def _values(
        self, event: int, values: list[torch.Tensor], parameters: Sequence[torch.Tensor]
    ) -> None:
        fields: dict[str, torch.Tensor] = {}
        with torch.no_grad(), torch._C.DisableTorchFunction():  # type: ignore[no-untyped-call]
            if values:
                fields["losses"] = fingerprints.stacked(
                    [v if v.dtype == torch.float64 else v.float() for v in values]
                )
            if self.gradients is not None:
                fields["gradients"] = self.gradients
            if weighed := fingerprints.weighed(parameters):
                fields["weights"] = _off_mode(fingerprints.weights, weighed)
            if self.before is not None:
                fields["moved"] = _off_mode(fingerprints.moved, weighed, self.before)
            if self.scale is not None:
                fields["scale"] = self.scale
        self.gradients = self.before = self.scale = None
        keys = list(fields)

        def write(found: list[list[float]]) -> None:
            rounded = {k: records.numbers(v) for k, v in zip(keys, found, strict=True)}
            records.write("values", event=event, **rounded)

        if fields:
            device_values.later(list(fields.values()), write)

    def skipped(self, optimizer: Any) -> None:
        """A loss scaler kept the optimizer from stepping."""
        with clock.harness():
            number = self._number(optimizer)
            parameters = self._known(number, _parameters(optimizer), optimizer)
            self.event(number, parameters, skipped=True)

    def _stop(self) -> None:
        self.stopped = True
        self.finish()
        raise TrainingStopped


def _parameters(optimizer: Any) -> list[torch.Tensor]:
    return [p for group in optimizer.param_groups for p in group["params"]]


def _is_within_a_step_of(optimizer: Any) -> bool:
    """Return True in `super().step()` of a class that overrides `step`: torch calls the hooks around both."""
    hooked = sys._getframe(2)
    around = hooked.f_back
    while around is not None:
        if around.f_code is hooked.f_code and around.f_locals.get("self") is optimizer:
            return True
        around = around.f_back
    return False


def _about(redirected: bool) -> dict[str, str]:
    """The versions that this process runs with."""
    about = {"python": platform.python_version(), "torch": torch.__version__}
    if "torch_xla" in sys.modules:
        about["torch_xla"] = sys.modules["torch_xla"].__version__
        about["PJRT_DEVICE"] = os.environ.get("PJRT_DEVICE", "")
    elif not redirected and torch.cuda.is_available():
        about["device"] = torch.cuda.get_device_name()
        about["cuda"] = str(torch.version.cuda)
    return about


def _copy(scale: torch.Tensor | None) -> torch.Tensor | None:
    return None if scale is None else scale.detach().clone().reshape(-1)


def _off_mode(fn: Callable[..., Any], *args: Any) -> Any:
    """The harness's own arithmetic: no autograd, no autocast, no marks."""
    with torch.no_grad(), torch._C.DisableTorchFunction(), torch._C._DisableAutocast():  # type: ignore[no-untyped-call]
        return fn(*args)


def install(patches: Patches, tap: Tap) -> ManualSteps:
    """Attach the tap to every optimizer and loss scaler of the process.

    Returns:
        The tap of steps without an optimizer, to be closed at the end.
    """
    for handle in (
        optimizer_module.register_optimizer_step_pre_hook(tap.pre_step),
        optimizer_module.register_optimizer_step_post_hook(tap.post_step),
    ):
        patches.on_undo(handle.remove)
    init = torch.optim.Optimizer.__init__

    @functools.wraps(init)
    def construct(self: Any, *args: Any, **kwargs: Any) -> None:
        init(self, *args, **kwargs)
        tap.live.add(self)
        tap.built[self] = where.caller()

    patches.put(torch.optim.Optimizer, "__init__", construct)
    scaler = torch.amp.grad_scaler.GradScaler
    step = scaler.step

    @functools.wraps(step)
    def scaled_step(self: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        before = tap.events
        tap.scale = _off_mode(_copy, self._scale) if self.is_enabled() else None
        out = step(self, optimizer, *args, **kwargs)
        if tap.events == before and self.is_enabled():
            tap.skipped(optimizer)
        return out

    patches.put(scaler, "step", scaled_step)
    manual = ManualSteps(tap)
    if tap.keep is not None or tap.follow is not None:
        hook = torch.nn.modules.module.register_module_forward_pre_hook(manual.before_forward)
        patches.on_undo(hook.remove)
    losses.listen(manual.before_backward, manual.after_backward)
    losses.listen(lambda: left_steps.watch(patches, tap), lambda: None)
    return manual


class ManualSteps:
    """Steps of a script that has no optimizer: each backward pass ends the step of the one before."""

    def __init__(self, tap: Tap) -> None:
        self.tap = tap
        self.parameters: list[torch.Tensor] = []
        self.open = False

    def before_backward(self) -> None:
        """Close the step of the last backward pass, if no optimizer does."""
        if not self.open or self.tap.live:
            return
        self.open = False
        with clock.harness():
            self.tap.event(0, self.parameters)
            if self.tap.limit is not None and self.tap.done[0] >= self.tap.limit:
                self.tap._stop()

    def before_forward(self, module: Any, args: Any) -> None:
        """Weights are exchanged between their update and their next use: the step ends here then."""
        if self.open and not self.tap.live:
            self.before_backward()
            with clock.harness():
                self.tap.exchange(self.parameters)

    def after_backward(self) -> None:
        """Gradients are there; the script will use them its own way."""
        if self.tap.live:
            return
        with clock.harness():
            if not self.parameters:
                self.parameters = names.all_with_gradients()
                self.tap._known(0, self.parameters)
            self.tap.gradients = _off_mode(fingerprints.gradients, self.parameters)
            self.tap.before = _off_mode(fingerprints.copies, fingerprints.weighed(self.parameters))
            self.open = True

    def close(self) -> None:
        """The end of the run ends the last step."""
        self.before_backward()
