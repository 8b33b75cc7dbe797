"""The first operation inside a module whose result differs, if the module is given the original's input."""

from __future__ import annotations

from difflib import SequenceMatcher

from ..judge.details import Operations
from .first_wrong_module import JUMP, SURE, difference

_MOST_NAMED = 3  # operations in one sentence


def first_wrong_operation(reference: Operations, target: Operations) -> str:
    """Return a sentence part: the module is confirmed, and its first wrong operation; or it is not.

    Args:
        reference: of the original's call.
        target: of the migrated script's, with the same input and parameters.
    """
    if not reference.results or not target.results:
        return ""
    if difference(reference.results[-1], target.results[-1]) <= SURE:
        return "given the original's input, its output agrees: something before it differs in elements that were not recorded"
    theirs, ours = ([name for name, _ in one.calls] for one in (reference, target))
    matching = SequenceMatcher(None, theirs, ours, autojunk=False).get_matching_blocks()
    agree, at = 1e-7, (0, 0)  # behind the last operations that agree
    for start, other, count in matching:
        for i, j in zip(range(start, start + count), range(other, other + count), strict=True):
            apart = difference(reference.results[i], target.results[j])
            if apart > max(SURE, JUMP * agree):
                return _sentence(reference, target, at, (i, j), apart)
            agree, at = max(agree, apart), (i + 1, j + 1)
    return "confirmed with the original's input"


def _sentence(
    reference: Operations,
    target: Operations,
    since: tuple[int, int],
    differ: tuple[int, int],
    apart: float,
) -> str:
    confirmed = "confirmed with the original's input"
    theirs = reference.calls[since[0] : differ[0]]
    ours = target.calls[since[1] : differ[1]]
    if theirs or ours:
        return (
            f"{confirmed}: the original calls {_named(theirs)}, the migrated script {_named(ours)}"
        )
    name, where = target.calls[differ[1]]
    if name == "output":
        return confirmed
    return f"{confirmed}: first in `{name}` ({where}), by {apart:.1e}"


def _named(calls: list[tuple[str, str]]) -> str:
    shown = ", ".join(f"`{name}` ({where})" for name, where in calls[:_MOST_NAMED])
    return (shown or "nothing") + (", ..." if len(calls) > _MOST_NAMED else "")
