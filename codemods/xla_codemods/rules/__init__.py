"""Every rule, in the order of its code. A module in a topic's folder that has a `RULE` is one: nothing lists it."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator
from importlib import import_module

from ..rule import Rule

# Topics whose rules rewrite what was written for another library, called as the library: for torch_xla, by hand
# (`--from torch_xla`), or for the runtime (`--style native`). They are imported on demand.
ORIGINS = ("torch_xla", "xla_migrate")


def _discovered(*topics: str) -> Iterator[Rule]:
    # Folders are listed here: `pkgutil` would import `inspect`, which a check can do without.
    for topic in topics or (t for t in _modules(__path__[0]) if t not in ORIGINS):
        of_all = getattr(import_module(f"{__name__}.{topic}"), "BEHIND", {})
        for name in _modules(os.path.join(__path__[0], topic)):
            module = f"{__name__}.{topic}.{name}"
            rule: Rule = import_module(module).RULE
            rule.module = module
            if not rule.changes_nothing:
                rule.behind = {**of_all, **rule.behind}
            yield rule


def _modules(folder: str) -> Iterator[str]:
    """Return the modules and packages in `folder`, except names that begin with "_"."""
    for entry in sorted(os.listdir(folder)):
        name, _, ending = entry.partition(".")
        if not name.startswith("_") and ending in ("", "py"):
            yield name


RULES: tuple[Rule, ...] = tuple(sorted(_discovered(), key=lambda rule: rule.code))


@functools.cache
def rules_from(origin: str) -> tuple[Rule, ...]:
    """Return the rules that apply only to code written for `origin`."""
    return tuple(sorted(_discovered(origin), key=lambda rule: rule.code))


def every_rule() -> tuple[Rule, ...]:
    """Return the rules that always apply, and the rules of every origin."""
    found = (*RULES, *(rule for origin in ORIGINS for rule in rules_from(origin)))
    return tuple(sorted(found, key=lambda rule: rule.code))
