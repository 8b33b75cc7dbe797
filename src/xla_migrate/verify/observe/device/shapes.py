"""The causes of compilations: the first call whose shapes or numbers differ from an earlier graph's.

torch_xla reports the line of the step mark, where all graphs are compiled. So, in a separate run
(`Plan.explain`), every torch function that the script calls on its device is recorded with the shapes it
takes and returns and the Python numbers that enter it. After a mark has compiled, the calls since the
mark before are compared with the calls of the most similar earlier graph; the first that differs is
the cause: a batch of another shape, a number that became part of the graph (fact 3.31), a tensor
that grows, a size that the data decides (3.23), or other operations.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch.overrides import TorchFunctionMode, resolve_name

from ..process import records, where
from . import branches, counters

_MADE = "_xla_migrate_made"  # on a tensor: (file:line, function) of what made it
_KEPT = 16  # graphs that a new one is compared with

Shape = tuple[int, ...]

# Numbers that enter these are inputs of the graph, not part of it (3.31), except for 0 and 1 (3.25).
_ARITHMETIC = set(
    "add sub mul div true_divide fmod remainder add_ sub_ mul_ div_ rsub eq ne lt le gt ge fill_ clamp"
    " clamp_ clamp_min clamp_max lerp lerp_ masked_fill masked_fill_ addcmul_ addcdiv_ addcmul addcdiv"
    " leaky_relu dropout maximum minimum __add__ __radd__ __sub__ __rsub__ __mul__ __rmul__ __div__"
    " __truediv__ __rtruediv__ __iadd__ __isub__ __imul__ __itruediv__ __eq__ __ne__ __lt__ __le__"
    " __gt__ __ge__ __mod__ full new_full full_like randint randint_like random_ uniform_ normal_"
    " bernoulli_".split()
)
# What these are given is data, which is sent to the device: no value of it is part of a graph.
_UPLOADS = set("tensor as_tensor asarray new_tensor".split())
# What only looks at a tensor is no part of a graph.
_LOOKS = set(
    "__get__ __set__ size dim numel stride is_contiguous element_size data_ptr __len__ __hash__"
    " requires_grad_ register_hook is_floating_point is_complex type retain_grad ndimension nelement"
    " __repr__ __format__ __str__ item tolist __bool__ __float__ __int__ cpu numpy __delete__".split()
)


@dataclass(frozen=True)
class TorchCall:
    """One call of a torch function that takes or gives a tensor on the device."""

    name: str
    where: str
    takes: tuple[Shape, ...]
    gives: tuple[Shape, ...]
    numbers: tuple[Any, ...]
    made: tuple[
        tuple[str, str] | None, ...
    ]  # who made each tensor it takes; None: came from outside
    stack: tuple[str, ...] = ()  # the script's lines that led here, the innermost first

    @property
    def fixed(self) -> tuple[Any, ...]:
        """The numbers that are part of the graph."""
        return () if self.name in _ARITHMETIC or self.name in _UPLOADS else self.numbers

    @property
    def kind(self) -> tuple[Any, ...]:
        """The properties that are equal in equal graphs."""
        return self.name, self.takes, self.gives, self.fixed


FIRST = "the first graph, which ends here"
SAME_CALLS = "the same calls as before on new tensors, such as gradients or optimizer states that did not exist yet"
UNEXPLAINED = ""  # no call of the script is part of the graph

_calls: list[TorchCall] = []
_graphs: deque[list[TorchCall]] = deque(maxlen=_KEPT)
_seen: set[tuple[str, str]] = set()  # functions, and the lines that called them
_compiled = 0
_seconds = 0.0  # of compilation, up to the graph before


@dataclass(frozen=True)
class Cause:
    """Why a graph is not one of the earlier ones.

    Attributes:
        where: `file:line`.
        cause: in words.
        new: calls of the script took part that had not run before.
        branch: "if step % 4 == 0 (train.py:31)", or "" if both graphs took the same branches.
    """

    where: str
    cause: str
    new: bool
    branch: str


def install() -> None:
    """Note the calls of this process's main thread from now on."""
    _Notes().__enter__()  # type: ignore[no-untyped-call]


def after_mark() -> None:
    """A graph was cut: if it had to be compiled, tell why."""
    global _compiled, _seconds
    now, total = counters.compiles(), counters.compile_seconds()
    compiled, _compiled = now - _compiled, now
    seconds, _seconds = total - _seconds, total
    if compiled:
        # Without calls of the script it is a copy, or a random seed.
        found = cause() or Cause(where.caller(), UNEXPLAINED, False, "")
        records.write("recompile", **asdict(found), graphs=compiled, seconds=seconds)
    begin()


def begin() -> None:
    """Begin another graph."""
    if _calls:
        _seen.update((call.name, call.where) for call in _calls)
        _graphs.append(list(_calls))
        _calls.clear()


def cause() -> Cause | None:
    """Return why the graph of the calls so far is new; None without a call."""
    if not _calls:
        return None
    earlier = _most_alike(_calls, [_without_preparation(graph, _calls[0]) for graph in _graphs])
    if earlier is None:
        return Cause(where.caller(), FIRST, True, "")
    first = next((c for c in _calls if (c.name, c.where) not in _seen), None)
    taken = branches.differing([c.stack for c in _calls], [c.stack for c in earlier])
    if first is not None:
        return Cause(
            first.where, f"code that runs for the first time, from {first.name}() on", True, taken
        )
    place, text = explain(_calls, [earlier]) or (_calls[-1].where, SAME_CALLS)
    if _is_in_all_branches(_calls, earlier) and not branches.contains(taken, place):
        taken = ""
    return Cause(place, text, False, taken)


def _is_in_all_branches(calls: list[TorchCall], earlier: list[TorchCall]) -> bool:
    """Return True if the first call that differs calls the same function, with another shape or number."""
    pairs = ((a, b) for a, b in zip(earlier, calls, strict=False) if a.kind != b.kind)
    return next((a.name == b.name for a, b in pairs), False)


def _without_preparation(graph: list[TorchCall], first: TorchCall) -> list[TorchCall]:
    """Return a graph from the first call of the next one: before it, models are built and moved."""
    starts = (i for i, c in enumerate(graph) if (c.name, c.where) == (first.name, first.where))
    return graph[next(starts, 0) :]


class _Notes(TorchFunctionMode):
    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        if name in _LOOKS:
            return func(*args, **kwargs)
        taken, numbers = _parts((args, kwargs))  # before: a call may change its tensors in place
        takes = tuple(tuple(t.shape) for t in taken)
        made = tuple(getattr(t, _MADE, None) for t in taken)
        out = func(*args, **kwargs)
        given, _ = _parts(out)
        if any(t.device.type == "xla" for t in (*taken, *given)):
            stack = where.stack()
            place = stack[0] if stack else where.caller()
            gives = tuple(tuple(t.shape) for t in given)
            call = TorchCall(_plain(func, name), place, takes, gives, tuple(numbers), made, stack)
            _calls.append(call)
            for tensor in given:
                if not isinstance(tensor, torch.nn.Parameter):
                    setattr(tensor, _MADE, (place, name))
        return out


def _plain(func: Any, name: str) -> str:
    return name or str(resolve_name(func) or func)


def _parts(value: Any) -> tuple[list[torch.Tensor], list[Any]]:
    """Its tensors, and its Python numbers, in order."""
    tensors: list[torch.Tensor] = []
    numbers: list[Any] = []
    for leaf in _leaves(value):
        if isinstance(leaf, torch.Tensor):
            tensors.append(leaf)
        elif isinstance(leaf, (bool, int, float, str)):
            numbers.append(leaf)
    return tensors, numbers


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        value = tuple(value.values())
    if isinstance(value, slice):
        value = (value.start, value.stop, value.step)
    if isinstance(value, (tuple, list)):
        for item in value:
            yield from _leaves(item)
    else:
        yield value


def explain(calls: list[TorchCall], graphs: Iterable[list[TorchCall]]) -> tuple[str, str] | None:
    """(file:line, cause) of the first call that differs from the most similar earlier graph.

    Args:
        calls: of the graph that was compiled.
        graphs: earlier ones, in order.

    Returns:
        None if there is no earlier graph, or no call that differs.
    """
    earlier = _most_alike(calls, list(graphs))
    if earlier is None:
        return None
    for before, now in zip(earlier, calls, strict=False):
        if before.kind != now.kind:
            return _differing(before, now)
    if len(earlier) != len(calls):
        more, word = (calls, "more") if len(calls) > len(earlier) else (earlier, "less")
        extra = more[min(len(calls), len(earlier))]
        return extra.where, f"{extra.name}() and what follows it: {word} than in the graph before"
    for before, now in zip(earlier, calls, strict=True):
        if now.name not in _UPLOADS and _special(before.numbers) != _special(now.numbers):
            what = (
                f"{now.name}() with {_shown(before.numbers)} before, with {_shown(now.numbers)} now"
            )
            return now.where, f"a number that is exactly 0 or 1 becomes part of the graph: {what}"
    return None


def _most_alike(calls: list[TorchCall], graphs: list[list[TorchCall]]) -> list[TorchCall] | None:
    """The one with the longest beginning of the same functions; of those that tie, the latest."""

    def alike(graph: list[TorchCall]) -> int:
        pairs = zip(graph, calls, strict=False)
        same = next((i for i, (a, b) in enumerate(pairs) if a.name != b.name), None)
        return min(len(graph), len(calls)) if same is None else same

    return max(reversed(graphs), key=lambda g: (alike(g), -abs(len(g) - len(calls))), default=None)


def _special(numbers: tuple[Any, ...]) -> list[Any]:
    return [n if n in (0, 1) else None for n in numbers]


def _differing(before: TorchCall, now: TorchCall) -> tuple[str, str]:
    if before.name != now.name:
        return (
            now.where,
            f"{now.name}() where the graph before had {before.name}() ({before.where})",
        )
    if len(before.takes) != len(now.takes):
        more = f"{now.name}() of {len(now.takes)} tensors, of {len(before.takes)} before"
        return now.where, f"a list of tensors that grows or shrinks: {more}"
    changed = [i for i, (a, b) in enumerate(zip(before.takes, now.takes, strict=True)) if a != b]
    if changed:
        i = changed[0]
        shapes = f"{_shown(before.takes[i])} before, {_shown(now.takes[i])} now"
        made = now.made[i]
        if made is None:
            return now.where, f"a batch of another shape, first used by {now.name}(): {shapes}"
        return made[0], f"a tensor whose shape changes, made by {made[1]}(): {shapes}"
    if before.numbers != now.numbers:  # of a factory like `full`, its shape's
        what = f"{_shown(before.numbers)} before, {_shown(now.numbers)} now"
        return now.where, f"a Python number that is part of the graph: {now.name}() with {what}"
    shapes = f"{_shown(before.gives)} before, {_shown(now.gives)} now"
    return now.where, f"a size that the data decides: {now.name}() gives {shapes}"


def _shown(values: tuple[Any, ...]) -> str:
    inner = ", ".join(_shown(v) if isinstance(v, tuple) else str(v) for v in values[:6])
    return f"({inner}{', ...' if len(values) > 6 else ''})"
