"""Line magics that run Python: `%time train(model)`, `%timeit -n 10 x.cuda()`. Their code is judged like any other.

In the program such a line begins with `0e0;`, padded to the length of what stands before the code, so that columns
stay what they are.
"""

from __future__ import annotations

import re

MARK = "0e0"
# Magic -> its options that take a value.
_VALUED = {"lprun": "fmsuTD", "memit": "rt", "mprun": "fT", "prun": "lsTD", "time": "", "timeit": "nrp"}  # fmt: skip
_START = re.compile(rf"\s*%({'|'.join(_VALUED)})\s+")
_OPTION = re.compile(r"(?:--[\w-]+|-(\w)(\w*))\s+")
_WORD = re.compile(r"\S+\s+")
_MARKED = re.compile(rf"^(?P<space>[ \t]*){MARK}(?:; *(?P<code>.*)| *)$", re.MULTILINE)


def opened(line: str) -> tuple[str, str] | None:
    """Return the text before the code of `line`, and the line as Python; None if it is no such magic, or runs more than
    simple statements.
    """
    from xla_codemods.source import SourceError, parse

    match = _START.match(line)
    if match is None or line.endswith("\\"):
        return None
    at = match.end()
    if not line[at:].strip():
        return None
    while (option := _OPTION.match(line, at)) is not None:
        at = option.end()
        if option[1] and option[1] in _VALUED[match[1]] and not option[2]:
            value = _WORD.match(line, at)
            at = value.end() if value else at
    indentation = line[: len(line) - len(line.lstrip())]
    try:
        parse(f"{MARK}; {line[at:]}")
    except SourceError:
        return None
    return line[len(indentation) : at], f"{indentation}{MARK};".ljust(at) + line[at:]


def closed(text: str, before: list[str]) -> tuple[str, int]:
    """`text` with what stood `before` the code of each such line (taken from the front), and how many they were."""

    def original(match: re.Match[str]) -> str:
        magic = before.pop(0) if before else MARK
        return match["space"] + magic + (match["code"] or "pass")

    return _MARKED.subn(original, text)
