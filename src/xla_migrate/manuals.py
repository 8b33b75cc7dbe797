"""A rule and its manual, by code or name."""

from __future__ import annotations

import inspect
from typing import NamedTuple

from xla_codemods import wrappers
from xla_codemods.manual import Manual, manual
from xla_codemods.rule import Rule
from xla_codemods.rules import every_rule

from .results import CANNOT_PARSE, UNUSED_SUPPRESSION
from .target.launch_files.codes import CODES as OF_LAUNCH_FILES


class Ours(NamedTuple):
    """A code without a rule: its name, its summary and its manual as Markdown."""

    name: str
    summary: str
    text: str


OURS = {
    CANNOT_PARSE: Ours(
        "cannot-parse",
        "A file that cannot be checked.",
        """\
A file that cannot be checked.

## What it reports

Files that cannot be decoded, and files that the Python version of xla-migrate cannot parse.

## Why it matters on XLA

The file may contain code that fails on XLA. It stays unchanged, and the run exits with 2.

## What to do

Fix: none.

Correct the file, or exclude it:

## Example

```toml
[tool.xla-migrate]
extend-exclude = ["legacy/python2/"]
```""",
    ),
    UNUSED_SUPPRESSION: Ours(
        "unused-suppression",
        "A comment that suppresses nothing.",
        """\
A comment that suppresses nothing.

## What it reports

`# xla-migrate: ignore[CODE]` on a line without such a finding.

## Why it matters on XLA

The comment would hide the next finding of that code.

## What to do

Fix: none.

Remove the comment, or the code that the finding names.""",
    ),
    **{code: Ours(row.name, row.summary, row.text) for code, row in OF_LAUNCH_FILES.items()},
}


def rule_of(code: str) -> tuple[Rule, Manual]:
    """Return the rule with this code or name, and its manual.

    Raises:
        KeyError: no rule has this code or name.
    """
    if code in (wrappers.RULE.code, wrappers.RULE.name):
        text = inspect.cleandoc(wrappers.__doc__ or "")
        return wrappers.RULE, Manual(text.partition("\n")[0], text, ())
    for rule in every_rule():
        if code in (rule.code, rule.name):
            return rule, manual(rule)
    raise KeyError(code)


def names() -> tuple[str, ...]:
    """Return the names of all rules and of the codes without a rule."""
    ours = (page.name for page in OURS.values())
    return (*ours, wrappers.RULE.name, *(rule.name for rule in every_rule()))


def code_of(name: str) -> str | None:
    """Return the code of the rule with this name, or None."""
    for code, page in OURS.items():
        if page.name == name:
            return code
    return next((rule.code for rule in (wrappers.RULE, *every_rule()) if rule.name == name), None)
