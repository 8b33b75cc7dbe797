"""For which versions of a package a patch is."""

from __future__ import annotations

import re
import sys
from typing import NamedTuple


class Versions(NamedTuple):
    """From one version up to, and without, another.

    Args:
        package: ``"torch"``, or a package that is patched if it is imported already.
        since: The first version, such as ``"2.9"``.
        before: The first version after the last, or None if the fault is not fixed in any release.
    """

    package: str
    since: str
    before: str | None = None

    def met(self) -> bool:
        """True if the version of the package that is imported is one of these."""
        module = sys.modules.get(self.package)
        if module is None:
            return False
        installed = _numbers(module.__version__)
        below = self.before is None or installed < _numbers(self.before)
        return _numbers(self.since) <= installed and below

    def __str__(self) -> str:
        end = "" if self.before is None else f", < {self.before}"
        return f"{self.package} >= {self.since}{end}"


def _numbers(version: str) -> tuple[int, ...]:
    """``"2.9.1+cu128"`` and ``"2.9.0a1"`` as numbers that compare: (2, 9, 1), (2, 9, 0)."""
    return tuple(int(part) for part in re.findall(r"(?:^|\.)(\d+)", version.split("+")[0]))
