"""Every rule, in the order of its code. A module in a topic's folder that has a `RULE` is one.

`RULES` are made from the index of what rules listen to (`_listening`, written by docs/generate.py). The module of a rule
is imported when one of its checks first runs: a file needs few of them, and importing all takes longer than checking it.
"""

from __future__ import annotations

import ast
import functools
import os
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from typing import Any

from ..listened import LISTENED
from ..rule import Rule
from ._listening import LISTENING

# Topics whose rules rewrite what was written for another library, called as the library: for torch_xla, by hand
# (`--from torch_xla`), or for the runtime (`--style native`). They are imported on demand.
ORIGINS = ("torch_xla", "xla_migrate")


class _Checks(dict[Any, Any]):
    """A table of a rule, whose module is imported when one of the checks is needed; the keys are known before."""

    def __init__(self, module: str, table: str, keys: Iterable[Any]) -> None:
        super().__init__()
        self._module, self._table = module, table
        self._keys = dict.fromkeys(keys)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)

    def __contains__(self, key: object) -> bool:
        return key in self._keys

    def __missing__(self, key: Any) -> Any:
        check = self[key] = getattr(import_module(self._module).RULE, self._table)[key]
        return check


def _listed(module: str, given: dict[str, Any], listens: str) -> Rule:
    """Return the rule of `module` as the index describes it."""
    rule = Rule(**given)
    rule.module = f"{__name__}.{module}"
    parts = [part.partition(": ") for part in listens.split("; ") if part]
    keys = {table: _names(groups) for table, _, groups in parts}
    both = keys.pop("both", [])
    if both:
        keys["calls"] = both + keys.get("calls", [])
        keys["references"] = both + keys.get("references", [])
    LISTENED.update(keys.get("calls", ()), keys.get("references", ()))
    for table, names in keys.items():
        to_key = _KEYS.get(table)
        checks = _Checks(rule.module, table, map(to_key, names) if to_key else names)
        setattr(rule, table, checks)
    return rule


def _names(groups: str) -> list[str]:
    """Return the names that `home|other{name name} home{name}` stands for."""
    found: list[str] = []
    for group in groups.split("}")[:-1]:
        homes, _, names = group.lstrip().partition("{")
        for home in homes.split("|"):
            found += [f"{home}.{name}" if home else name for name in names.split(" ")]
    return found


def _type(name: str) -> type[ast.AST]:
    kind: type[ast.AST] = getattr(ast, name)
    return kind


def _named(text: str) -> tuple[type[ast.AST], str | None]:
    kind, _, name = text.partition(".")
    return _type(kind), None if name == "**" else name


_KEYS: dict[str, Callable[[str], Any]] = {"nodes": _type, "named": _named}


def _imported(topic: str) -> Iterator[Rule]:
    # The folder is listed here: `pkgutil` would import `inspect`, which a check can do without.
    of_all = getattr(import_module(f"{__name__}.{topic}"), "BEHIND", {})
    for name in _modules(os.path.join(__path__[0], topic)):
        rule: Rule = import_module(f"{__name__}.{topic}.{name}").RULE
        rule.module = f"{__name__}.{topic}.{name}"
        if not rule.changes_nothing:
            rule.behind = {**of_all, **rule.behind}
        yield rule


def _modules(folder: str) -> Iterator[str]:
    """Return the modules and packages in `folder`, except names that begin with "_"."""
    for entry in sorted(os.listdir(folder)):
        name, _, ending = entry.partition(".")
        if not name.startswith("_") and ending in ("", "py"):
            yield name


RULES: tuple[Rule, ...] = tuple(_listed(*row) for row in LISTENING)


@functools.cache
def rules_from(origin: str) -> tuple[Rule, ...]:
    """Return the rules that apply only to code written for `origin`."""
    return tuple(sorted(_imported(origin), key=lambda rule: rule.code))


@functools.cache
def every_rule() -> tuple[Rule, ...]:
    """Return all rules, those of every origin as well, with their modules imported."""
    found = (rule for topic in _modules(__path__[0]) for rule in _imported(topic))
    return tuple(sorted(found, key=lambda rule: rule.code))
