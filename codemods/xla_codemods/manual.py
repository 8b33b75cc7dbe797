"""A rule's docstring as its manual: a summary, sections with fixed headings, and the examples that are its tests."""

from __future__ import annotations

import inspect
import re
import sys
from typing import NamedTuple

from .rule import Rule

REQUIRED = ("What it reports", "Why it matters on XLA", "What to do", "Example")
HEADINGS = (*REQUIRED, "Limits", "See also")
FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)

_BLOCK = re.compile(r"^```(?P<kind>diff|python)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)


class Example(NamedTuple):
    """Source before and after, which are equal if nothing may change. `line` counts from the docstring's start."""

    before: str
    after: str
    line: int


class Manual(NamedTuple):
    """The summary (first line), the whole text as Markdown, and the examples in it."""

    summary: str
    text: str
    examples: tuple[Example, ...]

    @property
    def headings(self) -> list[str]:
        """Return the headings in the text, in order."""
        return re.findall(r"^## (.+)$", FENCED.sub("", self.text), re.MULTILINE)


def manual(rule: Rule) -> Manual:
    """Return the manual of `rule`, read from the docstring of its module."""
    text = inspect.cleandoc(sys.modules[rule.module].__doc__ or "")
    summary = text.partition("\n")[0].strip()
    examples = tuple(_example(match, text) for match in _BLOCK.finditer(text))
    return Manual(summary, text, examples)


def _example(match: re.Match[str], text: str) -> Example:
    line = text.count("\n", 0, match.start()) + 2
    body = match["text"]
    if match["kind"] == "python":
        return Example(body, body, line)
    lines = body.splitlines(keepends=True)
    before = "".join(_content(row) for row in lines if not row.startswith("+"))
    after = "".join(_content(row) for row in lines if not row.startswith("-"))
    return Example(before, after, line)


def _content(row: str) -> str:
    """Return a row without its mark. An empty line may lack the leading blank."""
    return row[1:] if row[:1] in "+- " and row != "\n" else row
