"""A user's choice of options: read from `[tool.xla-migrate.target]`, from words, or from keywords, and checked."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import NamedTuple

from .machines import MACHINES, machine_of
from .options import LAUNCHERS, OPTIONS, TABLE, Option, Value


class OptionError(ValueError):
    """An option that is unknown, of the wrong type, or contradicts another: one line; `key` says where."""

    def __init__(self, key: str, reason: str) -> None:
        super().__init__(f"{key}: {reason}")
        self.key = key
        self.reason = reason


class Given(NamedTuple):
    """A value and its source. `own`: set for this machine, so it must have an effect there."""

    value: Value
    origin: str
    own: bool = False


Profile = Mapping[str, Given]  # by key

FOR = "for"  # the key of the machine that is meant where the command line names none


def read(table: Mapping[str, object]) -> None:
    """Check the whole table of `pyproject.toml`, its machines' parts too.

    Raises:
        OptionError: something in it is wrong.
    """
    for key, value in table.items():
        if key == FOR:
            machine(value, FOR)
        elif key in MACHINES:
            if not isinstance(value, Mapping):
                raise OptionError(key, f"must be a table of options, not {value!r}")
            for name, part in value.items():
                _checked(name, part, f"{key}.{name}")
        else:
            _checked(key, value, key)


def of_table(table: Mapping[str, object], name: str, origin: str) -> dict[str, Given]:
    """Return the table for the machine `name`: its own part overrides the common part.

    Raises:
        OptionError: something in the table is wrong.
    """
    read(table)
    own = table.get(name, {})
    assert isinstance(own, Mapping)
    shared = {k: v for k, v in table.items() if k != FOR and k not in MACHINES}
    found = {k: Given(_checked(k, v, k), origin) for k, v in shared.items()}
    found.update((k, Given(_checked(k, v, k), f"{origin}.{name}", True)) for k, v in own.items())
    return found


def of_words(words: Mapping[str, str], origin: str) -> dict[str, Given]:
    """Options by key, each as the text that stands on a command line.

    Raises:
        OptionError: an option is unknown, or a text is no value of it.
    """
    return {key: Given(_parsed(key, text), origin, True) for key, text in words.items()}


def of_keywords(values: Mapping[str, object], origin: str) -> dict[str, Given]:
    """Options as keywords of Python: `auto_cast` is `auto-cast`.

    Raises:
        OptionError: one is unknown or of the wrong type.
    """
    found = {}
    for name, value in values.items():
        key = name.replace("_", "-")
        found[key] = Given(_checked(key, value, name), origin, True)
    return found


def machine(name: object, key: str) -> str:
    """Return the machine that `name` says.

    Raises:
        OptionError: it is not.
    """
    known = machine_of(name) if isinstance(name, str) else ""
    if known not in MACHINES:
        raise OptionError(key, f"unknown machine {name!r}{_nearest(str(name), tuple(MACHINES))}")
    return known


def option(key: str, place: str) -> Option:
    """The row of `key`.

    Raises:
        OptionError: there is none.
    """
    if key not in TABLE:
        raise OptionError(place, f"no such option{_nearest(key, (*TABLE, *MACHINES))}")
    return TABLE[key]


def _checked(key: str, value: object, place: str) -> Value:
    row = option(key, place)
    if isinstance(value, bool) != (row.type is bool) or not isinstance(value, (bool, int, str)):
        raise OptionError(place, f"must be {_named(row)}, not {value!r}")
    if not isinstance(value, row.type):
        raise OptionError(place, f"must be {_named(row)}, not {value!r}")
    allowed = known(row)
    if allowed and value not in allowed:
        raise OptionError(
            place, f"{value!r} is not a valid value; valid values: {_listed(allowed)}"
        )
    if key == "devices" and int(value) < 1:
        raise OptionError(place, f"must be at least 1, not {value}")
    if value == "":
        raise OptionError(place, "must not be empty")
    return value


def _parsed(key: str, text: str) -> Value:
    row = option(key, key)
    value: Value = text
    if row.type is bool:
        if text not in ("true", "false"):
            raise OptionError(key, f"must be true or false, not {text!r}")
        value = text == "true"
    elif row.type is int:
        try:
            value = int(text)
        except ValueError:
            raise OptionError(key, f"must be a whole number, not {text!r}") from None
    return _checked(key, value, key)


def known(row: Option) -> tuple[Value, ...]:
    """Every value that some machine takes; none where any is."""
    if row.key == "launcher":
        return LAUNCHERS
    values = [v for parts in row.becomes.values() for part in parts for v in part.values]
    return tuple(dict.fromkeys(sorted(values, key=str) if row.type is int else values))


def _named(row: Option) -> str:
    return {bool: "true or false", int: "a whole number", str: "a string"}[row.type]


def _listed(values: tuple[Value, ...]) -> str:
    return ", ".join(str(value) for value in values)


def _nearest(word: str, names: tuple[str, ...]) -> str:
    close = difflib.get_close_matches(word, names, 1, 0.6)
    return f"; did you mean {close[0]}?" if close else f"; there is {', '.join(names)}"


KEYS = tuple(row.key for row in OPTIONS)
