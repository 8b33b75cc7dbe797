"""Tests of rules by lines: what one line becomes in a script that trains."""

from __future__ import annotations

from ..helpers import IMPORT, findings, migrated

HEAD = "import torch\n"
TAIL = "\nloss.backward()\n"  # a script that trains is looked at whole


def line(before: str, *, unsafe: bool = False) -> str:
    """What becomes of `before` in a script that imports torch; a second run must change nothing."""
    after = migrated(f"{HEAD}{before}{TAIL}", unsafe=unsafe)
    return after.removeprefix(HEAD).removeprefix(IMPORT).removesuffix(TAIL)


def codes(source: str) -> list[str]:
    """The codes of what is found in `source`."""
    return [code for _, code in findings(f"{HEAD}{source}{TAIL}")]
