"""Operations without a kernel, as lines and as plain data."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from xla_codemods.catalog.alternatives import alternative

from .targets import KernelTarget

Place = Callable[[str], str]


@dataclass
class Missing:
    """An operation without a kernel, at one line and in one module of a traced script.

    Attributes:
        operation: with its namespace and overload: "aten::median".
        place: `file:line` in the traced script; in a backward pass, the line that starts it.
        module: path and class of the innermost module, such as "encoder.pool (Pool)", or "".
        is_backward: it belongs to a backward pass.
        count: how often it ran.
    """

    operation: str
    place: str
    module: str
    is_backward: bool
    count: int


@dataclass
class LookUp:
    """The operations that were looked up for a traced script.

    Attributes:
        operations: on the device, with a kernel or without.
        missing: those without a kernel, or their parts, in the order of the script.
        unknown: those that are made of others, which are not known without values.
    """

    operations: set[str] = field(default_factory=set)
    missing: list[Missing] = field(default_factory=list)
    unknown: set[str] = field(default_factory=set)


def lines(found: LookUp, target: KernelTarget, steps: int, place: Place) -> Iterator[str]:
    """Yield the report.

    Args:
        found: of the script.
        target: of `--ops`.
        steps: optimizer steps that were traced.
        place: of the script as the user has it, for a `file:line` of the traced one.
    """
    source = f"{target.source}; {steps} optimizer steps traced"
    missing = {one.operation for one in found.missing}
    if not found.operations:
        yield f"{target.name}: the script ran no operation on the device"
    elif missing:
        have = "operation has" if len(missing) == 1 else "operations have"
        yield f"{target.name}: {len(missing)} {have} no kernel ({source})"
    else:
        known = len(found.operations - found.unknown)
        yield f"{target.name}: no operation without a kernel among {known} ({source})"
    for (operation, where, is_backward), group in _by_line(found.missing).items():
        phase = ", backward pass" if is_backward else ""
        count = sum(one.count for one in group)
        yield (
            f"    {place(where)}: {operation}{_inside(group)}{phase}: {target.consequence}; "
            f"{_frequency(count, steps)}"
        )
        yield f"        instead: {alternative(operation) or _ON_THE_HOST}"
    if found.unknown:
        yield f"    unknown, because their parts need values: {', '.join(sorted(found.unknown))}"


_ON_THE_HOST = "other operations, or this one on the host (`x.cpu()`) and outside the step"


def _by_line(found: Sequence[Missing]) -> dict[tuple[str, str, bool], list[Missing]]:
    groups: dict[tuple[str, str, bool], list[Missing]] = {}
    for one in found:
        groups.setdefault((one.operation, one.place, one.is_backward), []).append(one)
    return groups


def _inside(group: Sequence[Missing]) -> str:
    """The modules that share a line: the first two, and how many more."""
    names = [one.module for one in group if one.module]
    more = f" and {len(names) - 2} more" if len(names) > 2 else ""
    return f" in {', '.join(names[:2])}{more}" if names else ""


def _frequency(count: int, steps: int) -> str:
    if steps and count >= steps:
        return f"{count / steps:.3g} per step"
    return "once" if count == 1 else f"{count} times"


def plain(found: LookUp, target: KernelTarget, steps: int, place: Place) -> dict[str, Any]:
    """Return the same for JSON."""
    return {
        "target": target.name,
        "source": target.source,
        "optimizer_steps": steps,
        "looked_up": len(found.operations),
        "unknown": sorted(found.unknown),
        "missing": [
            {
                "operation": one.operation,
                "place": place(one.place),
                "module": one.module or None,
                "backward": one.is_backward,
                "count": one.count,
                "consequence": target.consequence,
                "alternative": alternative(one.operation) or None,
            }
            for one in found.missing
        ],
    }
