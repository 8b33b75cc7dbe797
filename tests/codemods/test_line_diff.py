"""Line differences: those of difflib for short texts, and correct ones for long texts."""

from __future__ import annotations

import difflib
import random

import pytest

from xla_codemods.line_diff import opcodes


def _edited(lines: list[str], draw: random.Random) -> list[str]:
    new: list[str] = []
    for line in lines:
        kind = draw.random()
        if kind < 0.05:
            continue
        new.append(f"{line} # changed" if kind < 0.15 else line)
        if kind > 0.95:
            new.append("inserted")
    return new


def test_short_texts_have_the_codes_of_difflib() -> None:
    old = [f"line {k % 7}" for k in range(200)]
    new = _edited(old, random.Random(0))
    expected = difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    assert opcodes(old, new) == expected


@pytest.mark.parametrize("seed", range(5))
def test_codes_of_a_long_text_turn_it_into_the_other(seed: int) -> None:
    draw = random.Random(seed)
    old = [f"line {k if draw.random() < 0.2 else k % 7}" for k in range(3000)]
    new = _edited(old, draw)
    made: list[str] = []
    covered = 0
    for tag, start, end, first, last in opcodes(old, new):
        assert (start, first) == (covered, len(made))
        assert (tag == "equal") == (old[start:end] == new[first:last])
        made += new[first:last]
        covered = end
    assert (made, covered) == (new, len(old))
    equal = sum(e - s for tag, s, e, _, _ in opcodes(old, new) if tag == "equal")
    assert equal > 0.7 * len(old)


def test_a_long_text_without_unique_lines_is_compared_as_well() -> None:
    old = ["a", "b"] * 600
    new = [*old[:300], "a", *old[300:]]
    expected = difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    assert opcodes(old, new) == expected


def test_unique_lines_that_change_places_are_no_anchors_together() -> None:
    lines = [f"line {k}" for k in range(2000)]
    old, new = [*lines[:1500], "x", "y"], [*lines[:1500], "y", "x"]
    made = [line for _, _, _, first, last in opcodes(old, new) for line in new[first:last]]
    assert made == new
