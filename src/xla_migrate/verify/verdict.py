"""One judgement of a comparison."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Verdict:
    """What was judged, how it came out, and the evidence.

    Attributes:
        name: "numbers", "static shapes" and so on.
        status: "ok", "failed", or "not judged" where the evidence is missing.
        detail: one line with the numbers behind it.
        where: `file:line` in the script, or "".
    """

    name: str
    status: Literal["ok", "failed", "not judged"]
    detail: str
    where: str = ""
