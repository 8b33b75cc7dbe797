"""Which finding most likely lies behind a verdict against the migrated script.

A finding is what the rewriting dealt with or left in the source. Its code tells what it touches (2xx
precision, 3xx the optimizer, ...), and a wrong quantity tells what computes it: of the findings that
could be behind it, those on the blamed line come first, then those left for a person, then the
nearest in the file.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .divergence import Divergence
from .verdict import Verdict

# What makes a new graph of a step.
_SHAPES = ("XLA504", "XLA506", "XLA510", "XLA519", "XLA514", "XLA307", "XLA502")

# What is wrong -> beginnings of codes, the likeliest first.
_BEHIND = {
    "initial weights": ("XLA13", "XLA12", "XLA7", "XLA1"),
    "parameters": ("XLA3", "XLA7", "XLA6", "XLA1"),
    "loss": ("XLA4", "XLA2", "XLA9", "XLA1", "XLA6", "XLA8"),
    "rounding": ("XLA2", "XLA9"),
    "gradient": ("XLA2", "XLA3", "XLA6", "XLA9", "XLA8"),
    "weights": ("XLA3", "XLA2", "XLA6"),
    "option": ("XLA3", "XLA8"),
    "bf16": ("XLA2", "XLA9", "XLA3"),
    "other state": ("XLA7", "XLA3", "XLA6", "XLA8"),
    "precision": ("XLA2",),
    "metric": ("XLA4", "XLA2", "XLA7", "XLA6"),
    "same steps": ("XLA2", "XLA4", "XLA6"),
    "static shapes": (*_SHAPES, "XLA401"),
    "bounded graph": ("XLA502", "XLA505", *_SHAPES),
    "launches": ("XLA307", "XLA503", "XLA502", "XLA401"),
    "host reads": ("XLA503", "XLA504", "XLA204"),
    "no fallback": ("XLA518", "XLA504", "XLA513"),
    "device": ("XLA1",),
}
_SPEED = ("static shapes", "bounded graph", "launches", "host reads", "no fallback")


@dataclass(frozen=True)
class Finding:
    """What the rewriting dealt with, or left.

    Attributes:
        code: of its rule.
        path: the file, relative to the project.
        line: in the file as it is, before migration.
        message: of the finding.
        left: for a person to deal with; False where it was rewritten.
        text: the source line.
    """

    code: str
    path: str
    line: int
    message: str
    left: bool
    text: str = ""

    def __str__(self) -> str:
        done = "left for you" if self.left else "rewritten"
        return f"{self.path}:{self.line}: {self.code} ({done}) {self.message}"


class Lines:
    """Lines of migrated files -> lines of the originals."""

    def __init__(self, files: Mapping[str, tuple[str, str]]) -> None:
        """From the (original, migrated) text of each changed file, by path in the project."""
        self._texts = files
        self._maps: dict[str, list[int]] = {}

    def original(self, path: str, line: int) -> int:
        """The line (from 1) of the original that `line` of the migrated file came from."""
        if path not in self._texts:
            return line
        if path not in self._maps:
            self._maps[path] = self._map(*self._texts[path])
        known = self._maps[path]
        return known[min(line, len(known)) - 1] if known else line

    @staticmethod
    def _map(before: str, after: str) -> list[int]:
        old, new = before.splitlines(), after.splitlines()
        places = [1] * len(new)
        matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
        for _, i, i_end, j, j_end in matcher.get_opcodes():
            for k in range(j, j_end):
                places[k] = min(i + k - j, max(i_end - 1, i)) + 1
        return places

    def place(self, where: str) -> tuple[str, int]:
        """`file:line` of the migrated project, as a place in the original."""
        path, _, line = where.rpartition(":")
        if not path or not line.isdigit():
            return where, 0
        return path, self.original(path, int(line))


def of_verdict(
    verdict: Verdict, divergence: Divergence | None, findings: Sequence[Finding], lines: Lines
) -> Finding | None:
    """The finding most likely behind a failed verdict, or None.

    Args:
        verdict: one that failed.
        divergence: what "numbers" failed for.
        findings: of the whole project.
        lines: to find the verdict's place in the originals.
    """
    about = verdict.name
    if verdict.name == "numbers" and divergence is not None:
        about = divergence.quantity.split()[0]
        about = "initial weights" if about == "initial" else about
    return likeliest(about, verdict.where, findings, lines)


def likeliest(about: str, where: str, findings: Sequence[Finding], lines: Lines) -> Finding | None:
    """The finding most likely behind what is wrong `about` something, blamed on `where`."""
    path, line = lines.place(where)
    on_it = [f for f in findings if (f.path, f.line) == (path, line)]
    if about not in _SPEED:  # what is slow (5xx) computes the same
        on_it = [f for f in on_it if not f.code.startswith("XLA5")]
    codes = _BEHIND.get(about, ())
    able = [f for f in findings if f.code.startswith(codes)] if codes else []

    def order(f: Finding) -> tuple[bool, bool, int, int]:
        rank = next(i for i, code in enumerate((*codes, "")) if f.code.startswith(code))
        away = abs(f.line - line) if f.path == path else 1 << 30
        return f not in on_it, not f.left, rank, away

    return min([*on_it, *able], key=order, default=None)
