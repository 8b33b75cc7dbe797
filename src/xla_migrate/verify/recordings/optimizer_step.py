"""The optimizer's step computed again: does it make of the gradients what the original's optimizer makes of them?

From the recorded parameters, gradients, state and options follows what the step has to make of them. So lost
weight decay or another learning rate is an exact finding at the first step, however little it changes a loss.
"""

from __future__ import annotations

import inspect
import math
import statistics
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

from ..judge.details import ParameterUpdate, Update
from ..judge.record_format import OptionGroup
from .first_wrong_module import difference

_KNOWN = (
    "torch.optim.",
    "xla_migrate.",
)  # a recording names the class: no other module is imported
_OF_UPDATE = 2e-5  # of an element's change: the order of operations, ...
_OF_LARGEST = 2e-6  # ... of the largest change of the tensor
_OF_VALUE = 3e-7  # of a parameter: float32
_ALIKE = 1e-4  # of gradients that are equal except for a factor
Options = Sequence[OptionGroup]


def judge(
    reference: Update,
    target: Update,
    theirs: Options,
    ours: Options,
    names: Sequence[str],
    processes: int = 1,
) -> tuple[str, int]:
    """Return (how the target's step differs or "", how many tensors were computed again).

    Args:
        reference: the original's step.
        target: the migrated script's.
        theirs: the options of the original's step, by group.
        ours: the options of the migrated script's.
        names: of the parameters, in the order of the optimizer.
        processes: how many train.
    """
    found = _factor(reference, target, processes) or _options(reference, target, theirs, ours)
    if found:
        return found, 0
    kind = _class(reference.kind) or _class(target.kind)
    if kind is None:
        return "", 0
    sound, expected = _computed(kind, reference, theirs), _computed(kind, target, theirs)
    count = 0
    for name, x, should, y, must in zip(
        names, reference.parameters, sound, target.parameters, expected, strict=False
    ):
        if x is None or should is None or not _near(should, x):
            continue  # an optimizer that treats elements together, of a large tensor
        if y is None or must is None:
            continue
        count += 1
        if not _near(must, y):
            return _moved(name, must, y), count
    return "", count


def _factor(reference: Update, target: Update, processes: int) -> str:
    """Return a sentence if each gradient is the original's times one number."""
    factors = []
    for x, y in zip(reference.parameters, target.parameters, strict=False):
        if x is None or y is None or not x.gradient_summary[0]:
            continue
        factor = y.gradient_summary[0] / x.gradient_summary[0]
        if difference(x.gradient_summary, y.gradient_summary, factor) > _ALIKE:
            return ""
        factors.append(factor)
    if not factors:
        return ""
    factor = statistics.median(factors)
    if abs(factor - 1) < _ALIKE or any(abs(f / factor - 1) > _ALIKE for f in factors):
        return ""
    why = "clipping, accumulation, or a loss scale that is not divided out"
    if processes > 1 and math.isclose(factor, processes, rel_tol=_ALIKE):
        why = f"the average over {processes} processes is missing"
    elif processes > 1 and math.isclose(factor, 1 / processes, rel_tol=_ALIKE):
        why = f"the average over {processes} processes is taken twice, or clipping differs"
    elif factor > 1:
        why = f"{why} (the original may clip before the step, and this script does not)"
    return f"every gradient is {factor:.6g} times the original's when the optimizer steps: {why}"


def _options(reference: Update, target: Update, theirs: Options, ours: Options) -> str:
    if len(theirs) != len(ours):
        return f"the original's optimizer has {len(theirs)} groups, {len(ours)} here"
    for number, (x, y) in enumerate(zip(theirs, ours, strict=True)):
        for name in sorted(x.keys() & y.keys()):
            if not _same(x[name], y[name]):
                group = f" of group {number}" if len(theirs) > 1 else ""
                return f"the optimizer's {name}{group} is {_shown(x[name])} in the original, {_shown(y[name])} here"
    a, b = (kind.rpartition(".")[2] for kind in (reference.kind, target.kind))
    if a != b and {a, b} == {"Adam", "AdamW"}:
        return f"the optimizer is {a} in the original, {b} here: weight decay works differently"
    return ""


def _same(x: float | list[float], y: float | list[float]) -> bool:
    """Return True for equal options; one of them may be held in float32."""
    one, other = (v if isinstance(v, list) else [v] for v in (x, y))
    pairs = zip(one, other, strict=False)
    return len(one) == len(other) and all(math.isclose(a, b, rel_tol=_OF_VALUE) for a, b in pairs)


def _shown(value: float | list[float]) -> str:
    return f"{value:g}" if isinstance(value, (int, float)) else str(value)


def _class(name: str) -> Any:
    """Return the optimizer's class, if it is torch's or ours."""
    if not name.startswith(_KNOWN):
        return None
    module, _, kind = name.rpartition(".")
    try:
        return getattr(import_module(module), kind, None)
    except ImportError:
        return None


def _computed(kind: Any, update: Update, options: Options) -> list[list[float] | None]:
    """Return what a step of this class makes of the recorded elements; None for what cannot be computed."""
    out: list[list[float] | None] = [None] * len(update.parameters)
    for i, one in enumerate(update.parameters):
        if one is not None and one.group < len(options):
            out[i] = _made(kind, one, options[one.group])
    return out


def _made(kind: Any, one: ParameterUpdate, options: OptionGroup) -> list[float] | None:
    import torch

    shape = one.shape if math.prod(one.shape) == len(one.before) else (len(one.before),)
    parameter = torch.nn.Parameter(torch.tensor(one.before).reshape(shape))
    gradient = torch.tensor(one.gradient).reshape(shape)
    if kind.__name__ == "SparseAdam":
        gradient = gradient.to_sparse()
    parameter.grad = gradient
    try:
        optimizer = kind([{"params": [parameter], **_typed(kind, options)}])
        state = _state(one, shape)
        if state is None:
            return None
        if state:
            optimizer.state[parameter].update(state)
        optimizer.step()
    except (TypeError, ValueError, RuntimeError, KeyError, AttributeError):
        return None  # it needs more than was recorded: a closure, a matrix
    return [float(x) for x in parameter.detach().reshape(-1).tolist()]


def _typed(kind: Any, options: OptionGroup) -> dict[str, Any]:
    """Return the options as the class takes them: the record holds numbers alone."""
    defaults = {n: p.default for n, p in inspect.signature(kind.__init__).parameters.items()}
    out: dict[str, Any] = {}
    for name, value in options.items():
        if isinstance(value, list):
            out[name] = tuple(value)
        elif isinstance(defaults.get(name), bool):
            out[name] = bool(value)
        else:
            whole = isinstance(defaults.get(name), int) and value.is_integer()
            out[name] = int(value) if whole else value  # a default of 0 says nothing of 0.9
    return out


def _state(one: ParameterUpdate, shape: tuple[int, ...]) -> dict[str, Any] | None:
    import torch

    out: dict[str, Any] = {}
    for name, value in one.state.items():
        if not isinstance(value, tuple):
            out[name] = torch.tensor(float(value)) if name == "step" else value
            continue
        own, elements = value
        if own == one.shape:
            own = shape
        if math.prod(own) != len(elements):
            return None
        out[name] = torch.tensor(elements).reshape(own)
    return out


def _near(expected: Sequence[float], one: ParameterUpdate) -> bool:
    largest = max((abs(e - b) for e, b in zip(expected, one.before, strict=True)), default=0.0)
    return all(
        abs(e - a) <= _OF_UPDATE * abs(e - b) + _OF_LARGEST * largest + _OF_VALUE * abs(b) + 1e-12
        for e, a, b in zip(expected, one.after, one.before, strict=True)
    )


def _moved(name: str, expected: Sequence[float], one: ParameterUpdate) -> str:
    """Return how a parameter moves, and how it should."""
    wanted = [e - b for e, b in zip(expected, one.before, strict=True)]
    made = [a - b for a, b in zip(one.after, one.before, strict=True)]
    size = math.fsum(w * w for w in wanted)
    factor = math.fsum(w * m for w, m in zip(wanted, made, strict=True)) / size if size else 0.0
    rest = math.fsum((m - factor * w) ** 2 for w, m in zip(wanted, made, strict=True))
    if size and rest < 1e-6 * size:
        return f"`{name}` moves {factor:.6g} times as far as the original's optimizer moves it"
    apart = (
        math.sqrt(math.fsum((w - m) ** 2 for w, m in zip(wanted, made, strict=True)) / size)
        if size
        else math.inf
    )
    return (
        f"`{name}` changes by a different amount than the original's optimizer computes from the same gradient, state"
        f" and options: {apart:.1e} apart"
    )


def gradients(update: Update, names: Sequence[str]) -> Mapping[str, Sequence[float]]:
    """Return the summaries of the gradients by parameter."""
    return {
        name: one.gradient_summary
        for name, one in zip(names, update.parameters, strict=False)
        if one is not None
    }
