"""The wrappers around CUDA that a user's settings map: what each name is, and what takes its place (XLA003)."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from ..finding import SAFE, UNSAFE
from ..patterns import Pattern
from .inference.values import ACCEL, DEVICE, LOADER, OPTIMIZER, Value, of

TABLES: dict[str, Value | None] = {
    "devices": of(DEVICE, ACCEL),
    "optimizers": of(OPTIMIZER),
    "loaders": of(LOADER),
    "functions": None,
}
_KEYS = ("to", "message", "safety", "examples")
_NAME = Pattern(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*")
HOLE = Pattern(r"\{(\w+)\}")


class WrapperError(Exception):
    """A mapping that cannot be used: its key in the settings, and why."""

    def __init__(self, key: str, reason: str) -> None:
        super().__init__(f"{key}: {reason}")
        self.key = key
        self.reason = reason


class Wrapper(NamedTuple):
    """One name. `to` is a name, a template with braces, or empty if the name is kept."""

    table: str
    dotted: str
    to: str
    message: str
    safety: str
    examples: tuple[tuple[str, str], ...]

    @property
    def last(self) -> str:
        """What a file must mention to be concerned with it."""
        return self.dotted.rpartition(".")[2]


def read(tables: Mapping[str, object]) -> tuple[Wrapper, ...]:
    """The mappings of the settings' tables.

    Raises:
        WrapperError: a key or value in them is wrong.
    """
    found = []
    for table, names in tables.items():
        if not isinstance(names, dict):
            raise WrapperError(table, "must be a table of names")
        for name, value in names.items():
            found.append(_read(table, name, value))
            if any(other.dotted == name for other in found[:-1]):
                raise WrapperError(f'{table}."{name}"', "is also in another table")
    return tuple(found)


def _read(table: str, name: str, value: object) -> Wrapper:
    key = f'{table}."{name}"'
    if not _NAME.fullmatch(name) or "." not in name:
        raise WrapperError(key, 'must be a dotted name, like "mylib.to_gpu"')
    entry: dict[str, Any] = value if isinstance(value, dict) else {"to": value}
    for unknown in entry.keys() - set(_KEYS):
        raise WrapperError(f"{key}.{unknown}", f"no such key; there is {', '.join(_KEYS)}")
    if "to" not in entry:
        raise WrapperError(key, "`to` is missing")
    message = entry.get("message", "")
    safety = entry.get("safety", SAFE)
    if not isinstance(message, str):
        raise WrapperError(f"{key}.message", "must be a string")
    if safety not in (SAFE, UNSAFE):
        raise WrapperError(f"{key}.safety", 'must be "safe" or "unsafe"')
    to = _target(key, table, entry["to"])
    return Wrapper(table, name, to, message, safety, _examples(key, entry.get("examples", [])))


def _target(key: str, table: str, to: object) -> str:
    if to is True and table != "functions":
        return ""
    if not isinstance(to, str) or not to:
        known = ", or true if it stays" if table != "functions" else ""
        raise WrapperError(key, f"must be a name or a text with braces{known}, not {to!r}")
    holes = [name for name in HOLE.findall(to) if name != "xla"]
    if len(set(holes)) < len(holes):
        raise WrapperError(key, "an argument can occur once, because it would be evaluated twice")
    try:
        ast.parse(HOLE.sub("_", to).strip(), mode="eval")
    except SyntaxError as error:
        raise WrapperError(key, f"{to!r} is not a Python expression: {error.msg}") from error
    if not HOLE.search(to) and not _NAME.fullmatch(to):
        raise WrapperError(key, f"{to!r} is neither a name nor a text with braces")
    return to


def _examples(key: str, examples: object) -> tuple[tuple[str, str], ...]:
    if not isinstance(examples, list):
        raise WrapperError(f"{key}.examples", "must be a list of tables with `before` and `after`")
    pairs = []
    for example in examples:
        if not isinstance(example, dict) or sorted(example) != ["after", "before"]:
            raise WrapperError(
                f"{key}.examples", "each must have `before` and `after`, and no more"
            )
        if not all(isinstance(text, str) for text in example.values()):
            raise WrapperError(f"{key}.examples", "`before` and `after` must be strings")
        pairs.append((example["before"], example["after"]))
    return tuple(pairs)


def names_of_runtime(entry: Wrapper) -> list[str]:
    """The names of the runtime that a mapping speaks of: its own, or those behind `{xla}`."""
    return [entry.to] if entry.to.isidentifier() else re.findall(r"\{xla\}\.(\w+)", entry.to)


def value(own: tuple[Wrapper, ...], dotted: str, path: str) -> Value | None:
    """What calling `dotted` returns, where a table says so."""
    entry = lookup(own, dotted, path)
    return TABLES[entry.table] if entry is not None else None


def lookup(own: tuple[Wrapper, ...], dotted: str, path: str) -> Wrapper | None:
    """The mapping of `dotted`; a relative name is that of the packages which the file at `path` lies in."""
    level = len(dotted) - len(dotted.lstrip("."))
    for entry in own:
        if entry.dotted == dotted:
            return entry
        if level and f".{_absolute(dotted, level, path)}".endswith(f".{entry.dotted}"):
            return entry
    return None


def _absolute(dotted: str, level: int, path: str) -> str:
    folders = re.split(r"[\\/]", path)[:-1]
    base = folders[: len(folders) - (level - 1)]
    return ".".join([*base, dotted[level:]])
