"""Statements that were changed after the migration are told from what the tool wrote and from another layout."""

from __future__ import annotations

import pytest

from xla_migrate.verify.experiments.later_edits import are_settings, later_edits, later_settings

ORIGINAL = """\
import torch
x = x.cuda()
for batch in loader:
    loss = model(batch)
    step()
"""
WRITTEN = """\
import torch
from xla_migrate import runtime as xla
x = x.to(xla.xla_device())
for batch in loader:
    loss = model(batch)
    step()
    xla.mark_step()
"""


def edits(given: str, with_unsafe_fixes: str = WRITTEN) -> list[tuple[int, str]]:
    unsafe = {"train.py": (ORIGINAL, with_unsafe_fixes)}
    found = later_edits("train.py", ORIGINAL, WRITTEN, given, lambda: unsafe)
    return [(each.after, each.message) for each in found]


@pytest.mark.parametrize(
    "given",
    [
        WRITTEN,
        WRITTEN.replace("loss = model(batch)", "loss = model(\n        batch,\n    )  # a loss"),
        f'"""Train."""\n\n\n{WRITTEN}',
        "def (",
    ],
)
def test_another_layout_is_no_edit(given: str) -> None:
    assert edits(given) == []


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (
            "model(batch)",
            "model(batch) / 2",
            (5, "changed after the migration: `loss = model(batch) / 2`"),
        ),
        (
            "in loader:",
            "in loader[1:]:",
            (4, "changed after the migration: `for batch in loader[1:]:`"),
        ),
        ("    step()\n", "", (6, "removed after the migration: `step()`")),
        ("    step()\n", "    step()\n    step()\n", (7, "changed after the migration: `step()`")),
        ("    xla.mark_step()\n", "", (6, "removed after the migration: `xla.mark_step()`")),
    ],
)
def test_an_edit_is_found_with_its_line(old: str, new: str, expected: tuple[int, str]) -> None:
    assert edits(WRITTEN.replace(old, new)) == [expected]


def test_a_statement_that_was_moved_is_an_edit() -> None:
    moved = WRITTEN.replace(
        "    step()\n    xla.mark_step()\n", "    xla.mark_step()\n    step()\n"
    )
    assert len(edits(moved)) == 1


def test_what_an_unsafe_fix_writes_is_no_edit() -> None:
    unsafe = WRITTEN.replace("x = x.to(xla.xla_device())", "x = xla.to_device(x)")
    assert edits(unsafe, unsafe) == []
    assert edits(unsafe) != []


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("lr: 0.1\nbf16: true\n", []),
        ("lr: 0.2\nbf16: true\n", [(1, "changed after the migration: `lr: 0.2`")]),
        ("lr: 0.1\n", [(1, "removed after the migration: `bf16: true`")]),
    ],
)
def test_settings_that_the_tool_did_not_write_are_found(
    given: str, expected: list[tuple[int, str]]
) -> None:
    written = "lr: 0.1\nbf16: true\n"
    found = later_settings("config.yaml", "lr: 0.1\nfp16: true\n", written, given)
    assert [(each.after, each.message) for each in found] == expected


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("conf/train.yaml", 'open("conf/train.yaml")', True),
        ("conf/train.yaml", '@hydra.main(config_name="train")', True),
        ("conf/train.yaml", "train_step()", False),
        ("package.json", 'open("conf/train.yaml")', False),
        ("train.txt", 'open("train.txt")', False),
    ],
)
def test_settings_are_files_that_the_sources_or_arguments_name(
    name: str, text: str, expected: bool
) -> None:
    assert are_settings(name, [text]) is expected
