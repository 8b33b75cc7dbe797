"""The first module whose inputs agree in two runs, and whose output or gradient does not."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from ..judge.details import ModuleCall, ModuleCalls

SURE = 3e-5  # relative: no rounding in float32 does that within one module, ...
JUMP = 30.0  # ... unless differences before it are nearly as large
_FAINT = 3e-6  # if nothing is sure
_FAINT_JUMP = 10.0
_OUTSIDE = -1  # no module: code that no module's call surrounds
Rows = Mapping[str, Sequence[float]]  # parameter -> the summary of its gradient


@dataclass(frozen=True)
class WrongModule:
    """The first difference of two runs.

    Attributes:
        name: of the module in its model; "" outside of all modules.
        kind: its class.
        where: `file:line` that made the module.
        what: "output", "gradient", ...
        agree: the largest relative difference before it.
        differ: the relative difference.
        call: the module as records name it, and the number of the call; ("", 0) outside of all modules.
    """

    name: str
    kind: str
    where: str
    what: str
    agree: float
    differ: float
    call: tuple[str, int] = ("", 0)

    @property
    def is_forward(self) -> bool:
        """True if an output differs, not a gradient."""
        return "gradient" not in self.what

    def __str__(self) -> str:
        if not self.name:
            return f"outside of all modules, {self.what} differs by {self.differ:.1e}"
        about = ", ".join(filter(None, (self.kind, self.where)))
        return (
            f"`{self.name}` ({about}): inputs agree to {self.agree:.0e}, {self.what} differs by"
            f" {self.differ:.1e}"
        )


def first_wrong_module(
    reference: ModuleCalls,
    target: ModuleCalls,
    theirs: Rows | None = None,
    ours: Rows | None = None,
) -> WrongModule | None:
    """Return the first module at fault in one step, or None if all agree.

    Args:
        reference: the calls of the original.
        target: the calls of the migrated script.
        theirs: the gradients of the original's parameters, if they are known.
        ours: the same of the migrated script.
    """
    pair = CallPair(reference, target)
    for least, jump in ((SURE, JUMP), (_FAINT, _FAINT_JUMP)):
        found = pair.forward(least, jump) or pair.backward(least, jump, theirs or {}, ours or {})
        if found is not None:
            return found
    return None


def difference(a: Sequence[float], b: Sequence[float], scale: float = 1.0) -> float:
    """Return how far `b` is from `scale` times `a`, relative: summaries of tensors."""
    if any(map(math.isnan, (*a, *b))):
        return 0.0 if [math.isnan(x) for x in a] == [math.isnan(x) for x in b] else math.inf
    size = abs(scale) * max(a[1], 1e-30)
    norm = abs(a[0] * scale - b[0]) / max(abs(scale) * a[0], 1e-30)
    largest = abs(a[1] * scale - b[1]) / size
    apart = math.sqrt(math.fsum((x * scale - y) ** 2 for x, y in zip(a[3:], b[3:], strict=True)))
    own = abs(scale) * math.sqrt(math.fsum(x * x for x in a[3:]))
    values = apart / max(own, 1e-3 * size)
    if a[0] == 0:
        return 0.0 if b[0] == 0 else math.inf
    return max(norm, largest, values)


class CallPair:
    """The calls of two runs, side by side."""

    def __init__(self, reference: ModuleCalls, target: ModuleCalls) -> None:
        self.reference, self.target = reference, target
        self.keys = keys = _keys(reference.calls)
        ours = {k: i for i, k in enumerate(_keys(target.calls))}
        self.calls = {i: ours[key] for i, key in enumerate(keys) if key in ours}
        self.uses = {(call, side, place): t for call, side, place, t in target.uses}
        self.tensors: dict[
            int, int
        ] = {}  # of the reference -> of the target, where it is used first
        for call, side, place, tensor in reference.uses:
            other = self.same_use(call, side, place)
            if other is not None:
                self.tensors.setdefault(tensor, other)
        self.gradients = {(tensor, n): row for tensor, n, row in gradients_of(target)}

    def same_use(self, call: int, side: int, place: int) -> int | None:
        """Return the tensor that the target has where the reference's call has this one."""
        return self.uses.get((self.calls.get(call, -1), side, place))

    def wrong(self, call: int, what: str, agree: float, differ: float) -> WrongModule:
        if call == _OUTSIDE:
            return WrongModule("", "", "", what, agree, differ)
        found = self.reference.calls[call]
        several = len({c.name.partition(":")[0] for c in self.reference.calls}) > 1
        root, _, path = found.name.partition(":")
        name = found.name.replace(":", ".") if several else path or root
        return WrongModule(name, found.kind, found.built, what, agree, differ, self.keys[call])

    def forward(self, least: float, jump: float) -> WrongModule | None:
        """Return the first module whose output differs, or in which an input of another one is made that differs."""
        agree, judged = 1e-7, set[tuple[int, int]]()
        calls = self.reference.calls
        for call, side, place, tensor in self.reference.uses:
            if call not in self.calls:
                around = self._around(call)
                if around in self.calls and calls[call].name:
                    what = f"the call of {calls[call].name.partition(':')[2]} is missing and its output"
                    return self.wrong(around, what, agree, math.inf)
                continue
            other = self.same_use(call, side, place)
            if other is None or (tensor, other) in judged:
                continue
            judged.add((tensor, other))
            differ = difference(self.reference.tensors[tensor], self.target.tensors[other])
            if differ <= max(least, jump * agree):
                agree = max(agree, differ)
            elif side:
                return self.wrong(call, "output", agree, differ)
            else:
                return self._input(call, agree, differ)
        return None

    def _input(self, call: int, agree: float, differ: float) -> WrongModule:
        """An input that differs was made by the code around the call."""
        around = self._around(call)
        if around == _OUTSIDE:
            return self.wrong(_OUTSIDE, "an input of the model", agree, differ)
        name = self.reference.calls[call].name.partition(":")[2]
        return self.wrong(around, f"what it passes to {name}", agree, differ)

    def _around(self, call: int) -> int:
        return self.reference.calls[call].around

    def backward(self, least: float, jump: float, theirs: Rows, ours: Rows) -> WrongModule | None:
        """Return the first module, from the loss on, that passes back another gradient."""
        scale, agree, good = self.scale(), 1e-7, set[int]()
        bad, differ = None, 0.0
        for tensor, n, gradient in self._gradients():
            mine = self.gradients.get((self.tensors[tensor], n))
            apart = math.inf if mine is None else difference(gradient, mine, scale)
            if apart > max(least, jump * agree):
                bad, differ = tensor, apart
                break
            agree = max(agree, apart)
            good.add(tensor)
        own = self._of_parameters(good, max(least, 1e-4, jump * agree), theirs, ours)
        if bad is None:
            return self._last(own, agree)
        consumers = self.consumers(bad)
        at_fault = [call for call in consumers if call in own] or (consumers and [*own][-1:])
        if at_fault and at_fault[-1] in own:
            return self._last({at_fault[-1]: own[at_fault[-1]]}, agree)
        if not consumers:
            maker = self._maker(bad)
            around = _OUTSIDE if maker is None else self._around(maker)
            return self.wrong(around, "the gradient that it passes back", agree, differ)
        return self.wrong(consumers[-1], "the gradient that it passes back", agree, differ)

    def _last(self, own: Mapping[int, tuple[str, float]], agree: float) -> WrongModule | None:
        if not own:
            return None
        call = max(own)
        name, differ = own[call]
        return self.wrong(call, f"the gradient of its {name}", agree, differ)

    def _gradients(self) -> Iterator[tuple[int, int, list[float]]]:
        for tensor, n, row in gradients_of(self.reference):
            if tensor in self.tensors:
                yield tensor, n, row

    def scale(self) -> float:
        """Return the factor between all gradients, as a loss scaler makes it: seen at the first of them."""
        for tensor, n, row in self._gradients():
            mine = self.gradients.get((self.tensors[tensor], n))
            if mine is None or not row[0] or not mine[0]:
                break
            factor = mine[0] / row[0]
            return factor if difference(row, mine, factor) < SURE else 1.0
        return 1.0

    def consumers(self, tensor: int) -> list[int]:
        """Return the innermost calls that take the tensor."""
        taking = {call for call, side, _, t in self.reference.uses if t == tensor and not side}
        return sorted(taking - {self._around(call) for call in taking})

    def _maker(self, tensor: int) -> int | None:
        made = [call for call, side, _, t in self.reference.uses if t == tensor and side]
        return (
            made[-1] if made else None
        )  # the outermost one: its result goes on to the code around it

    def _of_parameters(
        self, good: set[int], allowed: float, theirs: Rows, ours: Rows
    ) -> dict[int, tuple[str, float]]:
        """Return the calls that get the same gradient and whose parameters do not: (parameter, difference)."""
        held = {}
        for call in self.calls:
            made = [t for c, side, _, t in self.reference.uses if c == call and side]
            if made and all(t in good for t in made):
                held[call] = _parameters_of(self.reference.calls[call], theirs)
        factors = [
            ours[full][0] / theirs[full][0]
            for names in held.values()
            for full in names.values()
            if full in ours and theirs[full][0]
        ]
        factor = statistics.median(factors) if factors else 1.0
        out = {}
        for call, names in held.items():
            for name, full in names.items():
                mine = ours.get(full)
                apart = math.inf if mine is None else difference(theirs[full], mine, factor)
                if apart > allowed:
                    out[call] = name, apart
        return out


class _Gradients(Protocol):
    @property
    def backward(self) -> list[int]: ...

    @property
    def gradients(self) -> list[list[float]]: ...


def gradients_of(step: _Gradients) -> Iterator[tuple[int, int, list[float]]]:
    """Yield (tensor, how many gradients it got before, the summary): a tensor gets one in each backward pass through it."""
    times: dict[int, int] = {}
    for tensor, row in zip(step.backward, step.gradients, strict=True):
        n = times[tensor] = times.get(tensor, -1) + 1
        yield tensor, n, row


def _keys(calls: Sequence[ModuleCall]) -> list[tuple[str, int]]:
    times: dict[str, int] = {}
    out = []
    for call in calls:
        times[call.name] = times.get(call.name, 0) + 1
        out.append((call.name, times[call.name]))
    return out


def _parameters_of(call: ModuleCall, rows: Rows) -> dict[str, str]:
    """Return the parameters that the module itself holds: name -> name in the optimizer."""
    root, _, path = call.name.partition(":")
    prefixes = (f"{path}.", f"{root}.{path}.") if path else ("", f"{root}.")
    return {
        full[len(prefix) :]: full
        for prefix in prefixes
        for full in rows
        if full.startswith(prefix) and "." not in full[len(prefix) :]
    }
