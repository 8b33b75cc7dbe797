"""The largest value of a script's option with which all graphs fit."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass


class FitError(ValueError):
    """A range that cannot be read: one line."""


@dataclass(frozen=True)
class Range:
    """The values to try: `batch-size=8..512` doubles from 8; `batch-size=8..512:8` has every multiple in between."""

    option: str
    values: tuple[int, ...]


@dataclass
class Fitted:
    """The largest value that fits (None: not even the smallest), and the next that does not (None: all fit)."""

    option: str
    largest: int | None
    too_large: int | None
    tried: dict[int, bool]


def parse(text: str) -> Range:
    """From the command line.

    Raises:
        FitError: it is no range.
    """
    found = re.fullmatch(r"-*([\w-]+)=(\d+)\.\.(\d+)(?::(\d+))?", text)
    if not found:
        raise FitError(
            f"--fit {text}: write a range such as batch-size=8..512 or batch-size=8..512:8"
        )
    option, low, high, step = (
        found.group(1),
        int(found.group(2)),
        int(found.group(3)),
        found.group(4),
    )
    if low < 1 or high < low or step == "0":
        raise FitError(f"--fit {text}: the range must start at 1 or more and must not decrease")
    if step:
        return Range(option, tuple(range(low, high + 1, int(step))))
    values = [low]
    while values[-1] * 2 <= high:
        values.append(values[-1] * 2)
    return Range(option, tuple(values))


def largest(
    values: Sequence[int], fits: Callable[[int], bool]
) -> tuple[int | None, dict[int, bool]]:
    """The last of ascending values for which `fits`, by bisection, and what was tried.

    Where one fits, all smaller ones are taken to fit.
    """
    tried: dict[int, bool] = {}
    low, high = 0, len(values)  # those before low fit, those from high on do not
    while low < high:
        middle = (low + high) // 2
        tried[values[middle]] = fits(values[middle])
        if tried[values[middle]]:
            low = middle + 1
        else:
            high = middle
    return (values[low - 1] if low else None), tried


def with_option(args: Sequence[str], option: str, value: int) -> list[str]:
    """The script's arguments with the option set: where it stands already, else at the end, as `--option=value`."""
    wanted = option.replace("_", "-")
    out = list(args)
    for i, word in enumerate(out):
        name, equals, _ = word.partition("=")
        if name.startswith("-") and name.lstrip("-").replace("_", "-") == wanted:
            if equals:
                out[i] = f"{name}={value}"
            elif i + 1 < len(out):
                out[i + 1] = str(value)
            return out
    return [*out, f"--{option}={value}"]


def search(asked: Range, fits: Callable[[int], bool]) -> Fitted:
    """Find it."""
    best, tried = largest(asked.values, fits)
    after = [value for value in asked.values if best is None or value > best]
    return Fitted(asked.option, best, after[0] if after else None, tried)
