"""Values of options, and messages for wrong values."""

from __future__ import annotations

import sys

from ..settings import SettingsError, codes_of, nearest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn


def one_of(known: tuple[str, ...]) -> Callable[[str], str]:
    """A type for argparse: one of these words."""

    def read(value: str) -> str:
        if value not in known:
            from argparse import ArgumentTypeError

            raise ArgumentTypeError(f"no such choice: {value}{nearest(value, known)}")
        return value

    return read


def codes(value: str) -> tuple[str, ...]:
    """A type for argparse: codes, their beginnings, or names of rules, with commas between them."""
    from argparse import ArgumentTypeError

    words = [part.strip() for part in value.split(",") if part.strip()]
    if not words:
        raise ArgumentTypeError(f"{value!r} is not a code")
    try:
        return codes_of(words)
    except SettingsError as error:
        raise ArgumentTypeError(str(error)) from error


def count(value: str) -> int:
    """A type for argparse: a number from 1."""
    if not value.isdigit() or int(value) < 1:
        from argparse import ArgumentTypeError

        raise ArgumentTypeError(f"must be a number from 1, not {value!r}")
    return int(value)


def fail(message: str) -> NoReturn:
    """Wrong usage: one line, and out with 2."""
    print(f"xla-migrate: {message}", file=sys.stderr)
    raise SystemExit(2)
