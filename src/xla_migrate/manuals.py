"""A rule and its manual, by code or name."""

from __future__ import annotations

import inspect
from typing import NamedTuple

from xla_codemods import own
from xla_codemods.manual import Manual, manual
from xla_codemods.rule import Rule
from xla_codemods.rules import RULES

from .results import CANNOT_PARSE, UNUSED_SUPPRESSION


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
}


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
