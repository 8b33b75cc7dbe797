"""Every example in every rule's manual does what it shows, and a second run changes nothing."""

from __future__ import annotations

import ast
import difflib

import pytest

from xla_codemods.engine import Options, migrate
from xla_codemods.manual import Example, manual
from xla_codemods.rules import RULES

CASES = [
    pytest.param(example, id=f"{rule.code}-{rule.name}-{example.line}")
    for rule in RULES
    for example in manual(rule).examples
]


@pytest.mark.parametrize("example", CASES)
def test_example(example: Example) -> None:
    ast.parse(example.after)
    got = migrate(example.before.encode(), Options(unsafe=True)).data.decode()
    assert got == example.after, "\n".join(
        difflib.unified_diff(
            example.after.splitlines(), got.splitlines(), "manual", "got", lineterm=""
        )
    )


@pytest.mark.parametrize("example", CASES)
def test_second_run_changes_nothing(example: Example) -> None:
    assert migrate(example.after.encode(), Options(unsafe=True)).data.decode() == example.after


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_manual_is_one(rule: object) -> None:
    page = manual(rule)  # type: ignore[arg-type]
    assert page.summary.endswith(".")
    assert page.examples
