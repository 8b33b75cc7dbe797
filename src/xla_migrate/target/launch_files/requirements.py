"""requirements.txt: a requirement or option a line; a backslash continues it, `#` begins a comment."""

from __future__ import annotations

import re
from collections.abc import Iterator

from .found import Found, Wanted, whole_line
from .packages import in_index, in_requirement

_LOGICAL = re.compile(r"(?:[^\n\\]|\\\r?\n|\\[^\r\n]|\\\r(?!\n))+")
_COMMENT = re.compile(r"(^|\s)#.*")


def check(text: str, wanted: Wanted) -> Iterator[Found]:
    """Findings in the text of a requirements file."""
    for line in _LOGICAL.finditer(text):
        begin = line.start() + len(line[0]) - len(line[0].lstrip())
        body = _COMMENT.sub("", line[0].strip()).rstrip()
        if not body:
            continue
        if body.startswith("-") and not body.startswith(("-e ", "--editable")):
            yield from in_index(body, begin)
            continue
        yield from in_requirement(body, begin, whole_line(text, line.start(), line.end()))
        yield from in_index(body, begin)
