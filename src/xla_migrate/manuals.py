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
    """What the command says of itself, without a rule: its name, a sentence, and the manual as Markdown."""

    name: str
    summary: str
    text: str


OURS = {
    CANNOT_PARSE: Ours(
        "cannot-parse",
        "A file that cannot be judged.",
        """\
A file that cannot be judged: it cannot be decoded, or is not Python, or not of the Python that runs xla-migrate.

It is left as it is, and the run ends with 2. To leave such files out, exclude them:

```toml
[tool.xla-migrate]
extend-exclude = ["legacy/python2/"]
```""",
    ),
    UNUSED_SUPPRESSION: Ours(
        "unused-suppression",
        "A comment that suppresses nothing.",
        """\
A comment that suppresses nothing: `# xla-migrate: ignore[CODE]` on a line without such a finding.

Remove it, or the part of it that is named: it would hide the next finding of that kind.""",
    ),
    **{code: Ours(row.name, row.summary, row.text) for code, row in OF_LAUNCH_FILES.items()},
}


def rule_of(code: str) -> tuple[Rule, Manual]:
    """The rule with this code or name, and its manual.

    Raises:
        KeyError: there is none.
    """
    if code in (wrappers.RULE.code, wrappers.RULE.name):
        text = inspect.cleandoc(wrappers.__doc__ or "")
        return wrappers.RULE, Manual(text.partition("\n")[0], text, ())
    for rule in every_rule():
        if code in (rule.code, rule.name):
            return rule, manual(rule)
    raise KeyError(code)


def names() -> tuple[str, ...]:
    """The names of all rules, and of what the command says of itself."""
    ours = (page.name for page in OURS.values())
    return (*ours, wrappers.RULE.name, *(rule.name for rule in every_rule()))


def code_of(name: str) -> str | None:
    """The code of the rule with this name, if there is one."""
    for code, page in OURS.items():
        if page.name == name:
            return code
    return next((rule.code for rule in (wrappers.RULE, *every_rule()) if rule.name == name), None)
