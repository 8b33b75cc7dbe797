"""The form of a known error."""

from __future__ import annotations

from typing import NamedTuple


class KnownError(NamedTuple):
    """An error or symptom as it appears in a log.

    Attributes:
        name: A short name, unique.
        pattern: A regular expression that matches within one line of the log.
        cause: One or two sentences: why it happens.
        fix: What the reader does.
        see: Codes of rules (XLA101) and pages of docs (guides/ddp.md), separated by blanks.
    """

    name: str
    pattern: str
    cause: str
    fix: str
    see: str = ""
