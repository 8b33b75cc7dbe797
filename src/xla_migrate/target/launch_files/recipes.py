"""Makefiles and justfiles: the commands of recipes, and variables, whose values may be the beginning of a command."""

from __future__ import annotations

import re
from collections.abc import Iterator

from xla_codemods.analysis.commands.launchers import Word, commands

from .found import Found, Wanted
from .shell_commands import in_assignment, in_command, is_named

_ASSIGNMENT = re.compile(
    r"(?P<export>export[ \t]+)?(?:override[ \t]+)?(?P<name>[A-Za-z_]\w*)[ \t]*(?:::?:?|[?+!])?=[ \t]*(?P<value>.*)",
    re.DOTALL,
)
# What is not the shell's: make's `@`, `-` and `+`, and the indentation.
_BEFORE = re.compile(r"[ \t@+-]*")


def check(text: str, wanted: Wanted) -> Iterator[Found]:
    """Findings in the text of a Makefile or a justfile."""
    recipes = ""
    of_python = False  # a recipe of `just` that begins with `#!/usr/bin/env python`
    for start, end in _lines(text):
        line = text[start:end]
        is_recipe = line[:1] in ("\t", " ") and line.strip() != ""
        if is_recipe and (shebang := re.match(r"[ \t]+#!(.*)", line)):
            of_python = "sh" not in shebang[1].rpartition("/")[2]
        elif not is_recipe and line.strip():
            of_python = False
        if is_recipe and not of_python:
            before = _BEFORE.match(line)
            width = before.end() if before else 0
            recipes += " " * width + line[width:]
            continue
        recipes += re.sub(r"[^\n]", " ", line)
        if not is_recipe:
            yield from _assigned(text, start, end, wanted)
    for command in commands(recipes):
        yield from in_command(command, recipes, wanted)


def _lines(text: str) -> Iterator[tuple[int, int]]:
    """Return where each line begins and ends, with its line end and its continuation lines."""
    for line in re.finditer(r"(?:[^\n\\]|\\\r?\n|\\)*(?:\n|\Z)", text):
        if line[0]:
            yield line.span()


def _assigned(text: str, start: int, end: int, wanted: Wanted) -> Iterator[Found]:
    found = _ASSIGNMENT.match(text, start, end)
    if found is None:
        return
    name, first = found["name"], found.start("value")
    value = found["value"].rstrip()
    last = first + len(value)
    if value[:1] in "\"'`" and value[-1:] == value[:1] and len(value) > 1:  # as `just` writes them
        first, last, value = first + 1, last - 1, value[1:-1]
    # Written as in a shell, so that the value keeps its position.
    word = Word(f"{name}={value}", first - len(name) - 1, last)
    for one in in_assignment(word, wanted):
        place = one._replace(start=found.start("name"))
        yield place._replace(edits=()) if is_named(name) else place
    for command in commands(text, first, last):
        yield from in_command(command, text, wanted)
