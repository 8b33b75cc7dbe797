"""The first difference of two runs: the step, the quantity, the tensor, and the likely cause."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum

from .tolerances import (
    CANCELLED,
    FIRST_GRADIENT_FACTOR,
    FLOOR,
    GRADIENT_FACTOR,
    INITIAL_ROUNDING,
    NOISE_GRADIENT,
    NORM_PATH_SHARE,
    PATH_SHARE,
    SECOND_GRADIENT_FACTOR,
    TENSOR_GRADIENT_FACTOR,
    relative,
)
from .trace import Optimizer, OptimizerStep, Parameter, Trace

_OPTIONS = "the gradients agree, the step does not: the optimizer or one of its options"
_PASSES = "number of backward passes"
_ZERO_LOSS = 1e-5  # what stands for a saturated loss, which is 0 by rounding
_ONLY_ROUNDING = (
    "both are rounding, because the loss hardly depends on the weights with this data: nothing is proven, use"
    " data whose samples differ"
)


class Quantity(str, Enum):
    """The quantity that differs first."""

    INITIAL_WEIGHTS = "initial weights"
    PARAMETERS = "parameters"
    LOSS = "loss"
    GRADIENT = "gradient"
    NO_GRADIENT = "gradient that is rounding"
    WEIGHTS = "weights"
    OPTION = "option"
    ROUNDING = "rounding"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True)
class Divergence:
    """The first difference beyond tolerance.

    Attributes:
        event: 0-based number of the step among all optimizers' steps; -1 before the first.
        step: 1-based number of the step of its optimizer.
        optimizer: which one, by order of first use.
        quantity: what differs.
        tensor: the tensor's name, or None if the loss itself differs.
        reference, target: the values (norms, if there is a tensor).
        where: the line in the migrated script.
        hint: the usual cause of such a difference.
        of: of OPTION the option's name, of ROUNDING the quantity that is rounded, of LOSS what differs if not its value.
    """

    event: int
    step: int
    optimizer: int
    quantity: Quantity
    tensor: str | None
    reference: float
    target: float
    where: str
    hint: str
    of: str = ""

    @property
    def name(self) -> str:
        """Return the name of the difference: "option lr", "rounding of the loss"."""
        if self.quantity is Quantity.OPTION:
            return f"option {self.of}"
        if self.quantity is Quantity.ROUNDING:
            return f"rounding of the {self.of}"
        return str(self.quantity)

    def __str__(self) -> str:
        at = "before the first step" if self.event < 0 else f"step {self.step}"
        if self.quantity is Quantity.OPTION or self.of == _PASSES:
            return f"{at}: {self.hint}"  # which has the values
        of = f" of {self.tensor}" if self.tensor else ""
        values = f"{self.reference:.7g} in the original, {self.target:.7g} in the migrated script"
        return f"{at}: {self.name}{of}: {values}; {self.hint}"


def first_divergence(
    reference: Trace,
    target: Trace,
    allowed: float,
    *,
    followed: bool = False,
    exact: bool = False,
) -> Divergence | None:
    """The first difference between two processes' traces, or None.

    Args:
        reference: the trace to compare with.
        target: the trace that is compared.
        allowed: the relative tolerance of losses.
        followed: the target took each step from the reference's weights. What its weights are off
            after a step is that step's alone then, and the steps' are summed up: so a small error
            that is always the same one is found, as it is between runs that are left alone.
        exact: both computed in float64, from the same weights: gradients are held to the tolerance.
    """
    for found in _differences(reference, target, allowed, followed, exact):
        return found
    return None


def at_the_start(reference: Trace, target: Trace, allowed: float) -> Divergence | None:
    """Return the first difference of what the optimizers step on, before their first steps, or None."""
    for optimizer in sorted(reference.parameters):
        for found in _structure(reference, target, optimizer):
            return found
        for found in _initial(reference, target, optimizer, allowed):
            return found
    return None


def _differences(
    reference: Trace, target: Trace, allowed: float, followed: bool, exact: bool
) -> Iterator[Divergence]:
    for optimizer in sorted(reference.parameters):
        yield from _structure(reference, target, optimizer)
        yield from _initial(reference, target, optimizer, allowed)
    scale = max((abs(s.loss) for s in reference.steps if s.loss is not None), default=0.0)
    steepest = max((s.gradient_norm or 0.0 for s in reference.steps), default=0.0)
    paths: dict[int, list[float]] = {}
    off: dict[int, list[tuple[float, float]]] = {}
    for a, b in zip(reference.steps, target.steps, strict=False):
        parameters = reference.parameters.get(a.optimizer, [])
        yield from _loss(a, b, allowed, exact_scale(a, scale) if exact else scale)
        built = _built(target, b.optimizer) or b.where
        yield from _gradients(a, b, allowed, steepest, parameters, built, exact)
        path = paths.setdefault(a.optimizer, [0.0] * len(parameters))
        for i, distance in enumerate(a.moved):
            path[i] += distance
        start = target.initial.get(b.optimizer, ([], []))
        kinds = [t.optimizers.get(s.optimizer) for t, s in ((reference, a), (target, b))]
        option = _option(a, b, kinds)
        if option is not None and kinds[0] and kinds[1] and kinds[0].kind == kinds[1].kind:
            yield option
        before = off.get(a.optimizer, []) if followed else []
        off[a.optimizer] = _off(a, b, before)
        for found in _weights(a, b, allowed, path, off[a.optimizer], parameters, start):
            if option is not None and found.hint.startswith(_OPTIONS):
                yield replace(found, hint=option.hint, where=option.where)
            else:
                yield found


def _option(a: OptimizerStep, b: OptimizerStep, kinds: list[Optimizer | None]) -> Divergence | None:
    """An option that both optimizers have, with another value."""
    where = (kinds[1] and kinds[1].built) or b.where
    for number, (x, y) in enumerate(zip(a.options or [], b.options or [], strict=False)):
        for name in (name for name in x if name in y):
            pairs = list(zip(_listed(x[name]), _listed(y[name]), strict=False))
            off = [(p, q) for p, q in pairs if relative(p, q, abs(p)) > 1e-9]
            if off:
                group = f" of group {number}" if len(a.options or []) > 1 else ""
                hint = f"the optimizer's {name}{group} is {off[0][0]:g} in the original, {off[0][1]:g} here"
                return Divergence(
                    a.event, a.step, a.optimizer, Quantity.OPTION, None, *off[0], where, hint, name
                )
    return None


def _listed(value: float | list[float]) -> list[float]:
    return value if isinstance(value, list) else [value]


def _structure(reference: Trace, target: Trace, optimizer: int) -> Iterator[Divergence]:
    ours = target.parameters.get(optimizer, [])
    theirs = reference.parameters[optimizer]
    if [p.shape for p in ours] == [p.shape for p in theirs]:
        return
    missing = _without(theirs, ours)
    more = _without(ours, theirs)
    tensor = (more or missing or [p.name for p in theirs])[0]
    yield Divergence(
        -1,
        0,
        optimizer,
        Quantity.PARAMETERS,
        tensor,
        len(theirs),
        len(ours),
        _built(target, optimizer),
        "the optimizer updates other tensors: check whether the move to the device untied, froze or"
        " added weights",
    )


def _without(these: list[Parameter], those: list[Parameter]) -> list[str]:
    known = {p.name for p in those}
    return [p.name for p in these if p.name not in known]


def _initial(
    reference: Trace, target: Trace, optimizer: int, allowed: float
) -> Iterator[Divergence]:
    if optimizer not in reference.initial or optimizer not in target.initial:
        return
    norms = reference.initial[optimizer][0], target.initial[optimizer][0]
    projections = reference.initial[optimizer][1], target.initial[optimizer][1]
    for i, parameter in enumerate(reference.parameters[optimizer][: len(norms[1])]):
        off = max(abs(norms[0][i] - norms[1][i]), abs(projections[0][i] - projections[1][i]))
        rounding = INITIAL_ROUNDING * math.sqrt(math.prod(parameter.shape))
        if off > max(allowed * norms[0][i], rounding):
            hint = "other initial weights: another order of random draws, or of loading"
            where = _built(target, optimizer)
            yield Divergence(
                -1,
                0,
                optimizer,
                Quantity.INITIAL_WEIGHTS,
                parameter.name,
                norms[0][i],
                norms[1][i],
                where,
                hint,
            )


def _built(target: Trace, optimizer: int) -> str:
    """Return the line at which the target creates the optimizer, which holds the tensors from then on."""
    known = target.optimizers.get(optimizer)
    return known.built if known is not None else ""


def _line(step: OptimizerStep) -> str:
    return step.backwards[-1] if step.backwards else step.where


def exact_scale(step: OptimizerStep, scale: float) -> float:
    """Return the size of losses in float64: where terms cancel, that of the gradient counts."""
    return max(scale, CANCELLED * (step.gradient_norm or 0.0))


def _loss(a: OptimizerStep, b: OptimizerStep, allowed: float, scale: float) -> Iterator[Divergence]:
    if a.loss is None and b.loss is None:
        return
    x, y = (math.nan if s.loss is None else s.loss for s in (a, b))
    if len(a.losses) == len(b.losses) and relative(x, y, scale) <= allowed:
        return
    of = ""
    if len(a.losses) != len(b.losses):
        of = _PASSES
        hint = f"the number of backward passes is {len(a.losses)} in the original, {len(b.losses)} here"
    elif a.step == 1:
        hint = "the weights are still equal: the batch, the labels or the forward pass differ"
    else:
        hint = (
            "this batch differs, or code that changes weights between steps (averaging, clamping), or the"
            " step before differs too little to be detected"
        )
    yield Divergence(a.event, a.step, a.optimizer, Quantity.LOSS, None, x, y, _line(b), hint, of)


def _gradients(
    a: OptimizerStep,
    b: OptimizerStep,
    allowed: float,
    steepest: float,
    parameters: list[Parameter],
    built: str,
    exact: bool,
) -> Iterator[Divergence]:
    for i, parameter in enumerate(parameters[: min(len(a.with_gradient), len(b.with_gradient))]):
        if a.with_gradient[i] != b.with_gradient[i]:
            yield Divergence(
                a.event,
                a.step,
                a.optimizer,
                Quantity.GRADIENT,
                parameter.name,
                a.gradient_of(i) or 0.0,
                b.gradient_of(i) or 0.0,
                built,
                "only one of them has a gradient: an optimizer that holds stale tensors (built before"
                " the model moved), weights that are no longer tied, or a result that is detached",
            )
    x, y = a.gradient_norm, b.gradient_norm
    if x is None or y is None or not parameters:
        return
    of_norm, of_tensors = _factors(a, exact)
    by_norm = relative(x, y, steepest) / of_norm
    by_tensor = _apart(a, b, steepest) / of_tensors
    if max(by_norm, by_tensor) <= allowed:
        return
    worst = max(
        range(len(parameters)), key=lambda i: abs((a.gradient_of(i) or 0) - (b.gradient_of(i) or 0))
    )
    hint = (
        f"{_norms(x, y, by_tensor * of_tensors)}:"
        " clipping, scaling, accumulation or reduction differ, or their order"
    )
    only_rounding = _is_rounding(a, allowed) and _is_rounding(b, allowed)
    yield Divergence(
        a.event,
        a.step,
        a.optimizer,
        Quantity.NO_GRADIENT if only_rounding else Quantity.GRADIENT,
        parameters[worst].name,
        a.gradient_of(worst) or 0.0,
        b.gradient_of(worst) or 0.0,
        b.where,
        _ONLY_ROUNDING if only_rounding else hint,
    )


def _norms(x: float, y: float, apart: float) -> str:
    """Return a sentence about the norm of all gradients in the original and in the target."""
    if f"{x:.4g}" == f"{y:.4g}":
        return (
            f"the norm of all gradients is {x:.4g} in both, but the gradients of single tensors"
            f" differ by {apart:.1e} of it"
        )
    times = f" ({y / x:.4g} times)" if x else ""
    return f"the norm of all gradients is {x:.6g} in the original, {y:.6g} here{times}"


def _is_rounding(step: OptimizerStep, allowed: float) -> bool:
    """Return True if a change of all weights by their own size would change the loss by no more than `allowed`."""
    if step.loss is None or step.gradient_norm is None or not step.norms:
        return False
    size = abs(step.loss) or _ZERO_LOSS
    return step.gradient_norm * math.hypot(*step.norms) <= allowed * size


def _factors(a: OptimizerStep, exact: bool) -> tuple[float, float]:
    """Return the limits for gradients, in tolerances: (the norm of all, tensor by tensor)."""
    if exact or a.event == 0:
        return FIRST_GRADIENT_FACTOR, FIRST_GRADIENT_FACTOR
    if a.step == 1:
        return SECOND_GRADIENT_FACTOR, SECOND_GRADIENT_FACTOR
    return GRADIENT_FACTOR, TENSOR_GRADIENT_FACTOR


def _apart(a: OptimizerStep, b: OptimizerStep, steepest: float) -> float:
    """Distance of the tensors' gradient norms, relative to that of all: no less than that of the totals.

    Two gradients that were clipped to one norm differ by it where they differ.
    """
    x, y = a.gradient_norm or 0.0, b.gradient_norm or 0.0
    if len(a.gradients) != len(b.gradients) or not (math.isfinite(x) and math.isfinite(y)):
        return relative(x, y, steepest)
    distance = math.dist(a.gradients, b.gradients)
    return distance / max(x, FLOOR * steepest) if distance else 0.0


def _off(
    a: OptimizerStep, b: OptimizerStep, before: list[tuple[float, float]]
) -> list[tuple[float, float]]:
    """By how much each weight's norm and projection are off, with what they were `before`."""
    pairs = zip(a.norms, b.norms, a.projections, b.projections, strict=False)
    now = [(y - x, q - p) for x, y, p, q in pairs]
    if len(before) != len(now):
        return now
    return [(n + m, p + q) for (n, p), (m, q) in zip(now, before, strict=True)]


def _weights(
    a: OptimizerStep,
    b: OptimizerStep,
    allowed: float,
    path: list[float],
    off: list[tuple[float, float]],
    parameters: list[Parameter],
    start: tuple[list[float], list[float]],
) -> Iterator[Divergence]:
    excess: list[tuple[float, int]] = []
    for i, parameter in enumerate(parameters):
        if i >= min(len(off), len(path)) or not _judged(a, i, parameters):
            continue
        n = math.prod(parameter.shape)
        rounding = allowed * max(a.norms[i], 1e-30)
        by_norm = abs(off[i][0]) / (rounding + NORM_PATH_SHARE * path[i] / math.sqrt(n))
        by_place = abs(off[i][1]) / (rounding + PATH_SHARE * path[i])
        excess.append((max(by_norm, by_place), i))
    worst, i = max(excess, default=(0.0, 0))
    if worst <= 1:
        return
    if not any(b.with_gradient):
        hint = "no gradient reached it"
    elif _still(a, b, i, start):
        hint = "it does not change: the optimizer updates other tensors"
    else:
        hint = f"{_OPTIONS} (weight decay, learning rate, momentum, eps) differs"
    yield Divergence(
        a.event,
        a.step,
        a.optimizer,
        Quantity.WEIGHTS,
        parameters[i].name,
        a.norms[i],
        b.norms[i],
        b.where,
        hint,
    )


def _still(
    a: OptimizerStep, b: OptimizerStep, i: int, start: tuple[list[float], list[float]]
) -> bool:
    """Return True if the target's tensor has not changed since the start but the original's has."""
    if not a.moved or not start[0]:
        return False
    away = max(abs(b.norms[i] - start[0][i]), abs(b.projections[i] - start[1][i]))
    return away < 1e-3 * a.moved[i]


def _judged(step: OptimizerStep, i: int, parameters: list[Parameter]) -> bool:
    """Weights with a gradient that is more than rounding (see `tolerances`)."""
    parameter, gradient = parameters[i], step.gradient_of(i)
    if len(parameter.shape) < 2 or not parameter.trains:
        return False
    if gradient is None or not step.gradient_norm:
        return not step.gradients
    total = sum(math.prod(p.shape) for p in parameters)
    per_element = gradient / math.sqrt(math.prod(parameter.shape))
    return per_element > NOISE_GRADIENT * step.gradient_norm / math.sqrt(total)
