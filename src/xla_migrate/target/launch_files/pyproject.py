"""pyproject.toml: the arrays of requirements, told by what the TOML parser says is in them."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from typing import Any

from .found import Edit, Found, Wanted
from .packages import in_index, in_requirement, row_of

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_STRING = re.compile(r"\"[^\"\n\\]*\"|'[^'\n]*'")


def check(text: str, wanted: Wanted) -> Iterator[Found]:
    """Findings in the requirements of a project: dependencies, extras, dependency groups, uv's indexes."""
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return  # not ours to report: the settings' reader does, where it concerns us
    named = set(_requirements(table))
    for string in _STRING.finditer(text):
        value, begin = string[0][1:-1], string.start() + 1
        if value not in named and not _is_index(table, value):
            continue
        if _in_comment(text, string.start()):
            continue
        table_name, key = _place(text, string.start())
        if value in named and _holds_requirements(table_name, key):
            removal = _removal(text, string) if row_of(value) else None
            yield from in_requirement(value, begin, removal)
        elif table_name.startswith("tool.uv") and _is_index(table, value):
            yield from in_index(value, begin)


def _requirements(table: dict[str, Any]) -> Iterator[str]:
    project = table.get("project", {})
    groups = table.get("dependency-groups", {})
    for part in (project, groups):
        if not isinstance(part, dict):
            return
    lists = [project.get("dependencies", [])]
    lists += list(project.get("optional-dependencies", {}).values()) + list(groups.values())
    for items in lists:
        if isinstance(items, list):
            yield from (item for item in items if isinstance(item, str))


def _is_index(table: dict[str, Any], value: str) -> bool:
    uv = table.get("tool", {}).get("uv", {})
    indexes = uv.get("index", []) if isinstance(uv, dict) else []
    urls = [i.get("url") for i in indexes if isinstance(i, dict)]
    extra = uv.get("extra-index-url", []) if isinstance(uv, dict) else []
    return value in [*urls, *extra, uv.get("index-url") if isinstance(uv, dict) else None]


_HEADER = re.compile(r"^[ \t]*\[\[?[ \t]*([^\]\n]+?)[ \t]*\]", re.MULTILINE)
_KEY = re.compile(r"^[ \t]*((?:[\w.-]|\"[^\"\n]*\"|'[^'\n]*')+)[ \t]*=(?!=)", re.MULTILINE)


def _place(text: str, place: int) -> tuple[str, str]:
    """The names of the table and of the key that `place` stands in."""
    headers = [
        found
        for found in _HEADER.finditer(text, 0, place)
        if text[found.end() : found.end() + 1] in "\r\n \t#]"
    ]
    first = headers[-1].end() if headers else 0
    keys = _KEY.findall(text, first, place)
    return (headers[-1][1] if headers else ""), (keys[-1] if keys else "")


def _holds_requirements(table: str, key: str) -> bool:
    if table == "project":
        return key == "dependencies" or key.startswith("optional-dependencies.")
    return table in ("project.optional-dependencies", "dependency-groups")


def _in_comment(text: str, place: int) -> bool:
    line = text[text.rfind("\n", 0, place) + 1 : place]
    return "#" in _STRING.sub("", line)


def _removal(text: str, string: re.Match[str]) -> Edit:
    """Takes the element out of its array, and its line with it if it has one."""
    start, end = string.span()
    after = re.compile(r"[ \t]*(,?)[ \t]*(#[^\n]*)?(\r?\n)?").match(text, end)
    assert after is not None
    line = text.rfind("\n", 0, start) + 1
    if not text[line:start].strip() and after[3] is not None:
        return Edit(line, after.end(), "")
    comma = re.compile(r"[ \t]*,[ \t]*").match(text, end)
    if comma is not None:
        return Edit(start, comma.end(), "")
    before = re.compile(r",[ \t]*$").search(text, 0, start)
    return Edit(before.start(), end, "") if before else Edit(start, end, "")
