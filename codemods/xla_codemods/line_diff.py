"""Match the lines of two texts, in time that grows linearly with the number of lines."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TypeVar

L = TypeVar("L", str, bytes)
Code = tuple[str, int, int, int, int]

_SMALL = 1000  # lines that `difflib` compares as a whole


def opcodes(old: Sequence[L], new: Sequence[L]) -> list[Code]:
    """Return what `difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes()` returns.

    `difflib` takes quadratic time if lines repeat. Long texts are first divided at lines that
    occur once in each of them and in the same order, so that only short pieces are compared.
    """
    if max(len(old), len(new)) <= _SMALL:
        return _compared(old, new)
    codes: list[Code] = []
    start = first = 0
    for end, last in (*_anchors(old, new), (len(old), len(new))):
        for tag, a, b, c, d in _compared(old[start:end], new[first:last]):
            _append(codes, (tag, start + a, start + b, first + c, first + d))
        if end < len(old) and last < len(new):
            _append(codes, ("equal", end, end + 1, last, last + 1))
        start, first = end + 1, last + 1
    return codes


def _compared(old: Sequence[L], new: Sequence[L]) -> list[Code]:
    if old == new:
        return [("equal", 0, len(old), 0, len(new))] if old else []
    import difflib  # rarely needed, and it takes a tenth of a check to import

    return difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes()  # type: ignore[return-value]


def _append(codes: list[Code], code: Code) -> None:
    if codes and codes[-1][0] == code[0]:
        tag, start, _, first, _ = codes.pop()
        code = tag, start, code[2], first, code[4]
    codes.append(code)


def _anchors(old: Sequence[L], new: Sequence[L]) -> list[tuple[int, int]]:
    """Return the longest rising sequence of places of the lines that both texts have once."""
    once = Counter(new)
    place = {line: k for k, line in enumerate(new) if once[line] == 1}
    counted = Counter(old)
    pairs: list[tuple[int, int]] = [
        (k, place[line]) for k, line in enumerate(old) if counted[line] == 1 and line in place
    ]
    ends: list[int] = []  # the least last place of a rising sequence of each length
    tails: list[int] = []  # the pair that ends it
    before: list[int] = []
    for number, (_, at) in enumerate(pairs):
        length = bisect_left(ends, at)
        before.append(tails[length - 1] if length else -1)
        ends[length : length + 1] = [at]
        tails[length : length + 1] = [number]
    return [*reversed(list(_chain(pairs, before, tails[-1] if tails else -1)))]


def _chain(pairs: list[tuple[int, int]], before: list[int], last: int) -> Iterator[tuple[int, int]]:
    while last >= 0:
        yield pairs[last]
        last = before[last]
