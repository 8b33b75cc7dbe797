"""The index of what rules listen to, from which a check learns which rules it needs to import."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Iterable

from xla_codemods.rule import Rule
from xla_codemods.rules import ORIGINS

HEAD = '''"""What each rule listens to. Written by docs/generate.py: edit the rule, not this module."""

from __future__ import annotations

from typing import Any

# fmt: off
# Module, arguments of `Rule`, and names by table: `home|other{name}` stands for `home.name other.name`.
LISTENING: tuple[tuple[str, dict[str, Any], str], ...] = (
'''
_IN_ORDER = (
    "nodes",
    "file_checks",
    "fallback_checks",
)  # of names from sets, the order is by chance
_TABLES = ("methods", "subclasses", "named", "nodes", "file_checks", "fallback_checks")


def module(rules: Iterable[Rule]) -> str:
    """Return the text of `xla_codemods/rules/_listening.py`."""
    rows = [_row(rule) for rule in rules if rule.module.split(".")[-2] not in ORIGINS]
    return f"{HEAD}{''.join(rows)})\n"


def _row(rule: Rule) -> str:
    defaults = inspect.signature(Rule).parameters
    given = {
        name: getattr(rule, name)
        for name, parameter in defaults.items()
        if name != "behind" and getattr(rule, name) != parameter.default
    }
    both = sorted(rule.calls.keys() & rule.references)
    tables = {
        "both": _grouped(both),
        "calls": _grouped(sorted(rule.calls.keys() - both)),
        "references": _grouped(sorted(rule.references.keys() - both)),
        **{table: _grouped(_keys(rule, table)) for table in _TABLES},
    }
    _, _, place = rule.module.partition("rules.")
    listens = "; ".join(f"{table}: {names}" for table, names in tables.items() if names)
    lines = textwrap.wrap(listens, 97, drop_whitespace=False, break_on_hyphens=False)
    text = "\n".join(f'"{line}"' for line in lines) or '""'
    return f'("{place}", {given},\n{text}),\n'


def _keys(rule: Rule, table: str) -> Iterable[str]:
    keys = getattr(rule, table)
    if table == "named":
        return sorted(f"{k.__name__}.{'**' if name is None else name}" for k, name in keys)
    if table in _IN_ORDER:
        return (key if isinstance(key, str) else key.__name__ for key in keys)
    return sorted(keys)


def _grouped(names: Iterable[str]) -> str:
    homes: dict[str, list[str]] = {}
    for name in names:
        home, _, last = name.rpartition(".")
        homes.setdefault(home, []).append(last)
    same: dict[str, list[str]] = {}  # the homes of the same names
    for home, lasts in homes.items():
        same.setdefault(" ".join(lasts), []).append(home)
    return " ".join(f"{'|'.join(alike)}{{{lasts}}}" for lasts, alike in same.items())
