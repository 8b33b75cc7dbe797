"""A finding in a launch file: a location in its text, a message, and the edits that fix it."""

from __future__ import annotations

from typing import NamedTuple

from ...results import ERROR, SAFE


class Edit(NamedTuple):
    """The characters from `start` to `end` (offsets in the text) become `text`."""

    start: int
    end: int
    text: str


class Found(NamedTuple):
    """One finding. Without `edits` the user decides."""

    code: str
    start: int
    end: int
    message: str
    edits: tuple[Edit, ...] = ()
    severity: str = ERROR
    effort: str = "low"
    safety: str = SAFE


class Wanted(NamedTuple):
    """The part of the profile in `[tool.xla-migrate.target]` that launch files need, and where the file is.

    `kind` is "neuron", "tpu", "cpu", or empty if no machine is given. If not given, `devices` is 0 and
    `image` is empty. `folder` is empty for text that is part of another file.
    """

    kind: str = ""
    machine: str = ""
    devices: int = 0
    image: str = ""
    folder: str = ""


def apply(text: str, edits: list[Edit]) -> str:
    """`text` with all of `edits` made, which do not overlap.

    Raises:
        ValueError: two of them do.
    """
    out, at = [], 0
    for edit in sorted(edits):
        if edit.start < at:
            raise ValueError("edits overlap")
        out += [text[at : edit.start], edit.text]
        at = edit.end
    return "".join([*out, text[at:]])


def whole_line(text: str, start: int, end: int) -> Edit:
    """The edit that takes away the lines from `start` to `end`, with their line end."""
    first = text.rfind("\n", 0, start) + 1
    last = text.find("\n", end)
    if last >= 0:
        return Edit(first, last + 1, "")
    # The last line: the line end in front of it goes, so that the file ends as it did.
    before = first - 1 if first and text[first - 1] == "\n" else first
    if before < first and before and text[before - 1] == "\r":
        before -= 1
    return Edit(before, len(text), "")
