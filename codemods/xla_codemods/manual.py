"""A rule's docstring as its manual: summary, prose, and the examples that are its tests."""

from __future__ import annotations

import inspect
import re
import sys
from typing import NamedTuple

from .rule import Rule

_BLOCK = re.compile(r"^```(?P<kind>diff|python)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)


class Example(NamedTuple):
    """Source before and after: the same text where nothing may change. `line` is that of the docstring."""

    before: str
    after: str
    line: int


class Manual(NamedTuple):
    """The summary (first line), the whole text as Markdown, and the examples in it."""

    summary: str
    text: str
    examples: tuple[Example, ...]


def manual(rule: Rule) -> Manual:
    """The manual of `rule`, from the docstring of its module."""
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
    """A row without its mark; an empty line may have lost the mark's place."""
    return row[1:] if row[:1] in "+- " and row != "\n" else row
