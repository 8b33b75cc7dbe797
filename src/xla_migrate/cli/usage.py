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

            raise ArgumentTypeError(f"unknown value `{value}`{nearest(value, known)}")
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


def readable(message: str) -> str:
    """Return a message of argparse in the words of this command."""
    import re

    told = re.sub(r"^argument (\S+): ", r"\1 ", message)
    told = told.replace("expected one argument", "needs a value")
    found = re.fullmatch(r"(.*) invalid choice: '(.*)' \(choose from (.*)\)", told)
    if found is None:
        return told
    known = found[3].replace("'", "").split(", ")
    return f"{found[1]}: unknown value `{found[2]}`{nearest(found[2], known)}"


def fail(message: str) -> NoReturn:
    """Wrong usage: one line, and out with 2."""
    print(f"xla-migrate: {message}", file=sys.stderr)
    raise SystemExit(2)
