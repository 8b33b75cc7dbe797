"""A rule and its manual, by code or name."""

from __future__ import annotations

import inspect

from xla_codemods import own
from xla_codemods.manual import Manual, manual
from xla_codemods.rule import Rule
from xla_codemods.rules import RULES


def rule_of(code: str) -> tuple[Rule, Manual]:
    """The rule with this code or name, and its manual.

    Raises:
        KeyError: there is none.
    """
    if code in (own.RULE.code, own.RULE.name):
        text = inspect.cleandoc(own.__doc__ or "")
        return own.RULE, Manual(text.partition("\n")[0], text, ())
    for rule in RULES:
        if code in (rule.code, rule.name):
            return rule, manual(rule)
    raise KeyError(code)
