"""Every manual has the fixed headings. Its examples do what they show, and a second run changes nothing."""

from __future__ import annotations

import ast
import difflib
import functools
import re
from collections.abc import Iterator

import pytest

from xla_codemods import engine
from xla_codemods.engine import Options, check, migrate
from xla_codemods.finding import SAFE, UNSAFE, Finding
from xla_codemods.manual import HEADINGS, REQUIRED, Example, manual
from xla_codemods.rule import Rule
from xla_codemods.rules import every_rule

from ..each import try_all

RULES = every_rule()

RULES_BY_CODE = pytest.mark.parametrize("rule", RULES, ids=lambda r: f"{r.code}-{r.name}")


def all_fixes(rule: Rule) -> Options:
    return Options(unsafe=True, origin=rule.origin)


@functools.cache  # several tests judge one result
def result_of_all_rules(source: str, options: Options) -> str:
    return migrate(source.encode(), options).data.decode()


@functools.cache
def findings_of_all_rules(source: str, options: Options) -> tuple[Finding, ...]:
    return tuple(check(source.encode(), options))


def result(rule: Rule, source: str) -> str:
    return result_of_all_rules(source, all_fixes(rule))


def line_of(example: Example) -> str:
    return f"line {example.line}"


@RULES_BY_CODE
def test_examples(rule: Rule) -> None:
    def comes_out_as_shown(example: Example) -> None:
        ast.parse(example.after)
        got = result(rule, example.before)
        assert got == example.after, "\n".join(
            difflib.unified_diff(
                example.after.splitlines(), got.splitlines(), "manual", "got", lineterm=""
            )
        )

    try_all(manual(rule).examples, comes_out_as_shown, line_of)


@RULES_BY_CODE
def test_second_run_changes_nothing(rule: Rule) -> None:
    def stays(example: Example) -> None:
        for options in {all_fixes(rule), Options(unsafe=True)}:
            assert result_of_all_rules(example.after, options) == example.after

    try_all(manual(rule).examples, stays, line_of)


@RULES_BY_CODE
def test_manual_is_one(rule: Rule) -> None:
    page = manual(rule)
    assert page.summary.endswith(".")
    assert page.examples


@RULES_BY_CODE
def test_a_manual_has_the_fixed_headings(rule: Rule) -> None:
    page = manual(rule)
    assert page.headings == [h for h in HEADINGS if h in page.headings]
    assert set(REQUIRED) <= set(page.headings)
    assert re.match(r"[^\n]+\n\n## What it reports\n", page.text)


@RULES_BY_CODE
def test_a_manual_says_how_safe_its_fixes_are(rule: Rule) -> None:
    """The line below "What to do" covers the fixes in the examples."""
    page = manual(rule)
    said = re.search(r"^## What to do\n\nFix: (.*)\.$", page.text, re.MULTILINE)
    assert said
    stated = set(re.findall(r"\bsafe|\bunsafe|\bnone", said[1]))
    words = {SAFE: "safe", UNSAFE: "unsafe", None: "none"}
    assert {words[s] for s in safeties(rule)} <= stated


def safeties(rule: Rule) -> set[str | None]:
    """Return the safeties of the rule's findings in its examples."""
    return {
        finding.safety
        for example in manual(rule).examples
        for finding in findings_of_all_rules(example.before, all_fixes(rule))
        if finding.code == rule.code
    }


def reported(rule: Rule, source: str) -> list[int]:
    """Return the lines of `source` that `rule` reports."""
    found = findings_of_all_rules(source, Options(origin=rule.origin))
    return sorted({f.line for f in found if f.code == rule.code})


def marked(rule: Rule, source: str) -> list[int]:
    """Return the lines that a manual marks as reported, or as still reported after a fix: `graph = torch.cuda.CUDAGraph()  # XLA901`."""
    lines = source.splitlines()
    return [n for n, line in enumerate(lines, 1) if line.endswith(f"  # {rule.code}")]


def failures(rule: Rule) -> Iterator[str]:
    """Yield what is wrong in the manual of `rule`."""
    for example in manual(rule).examples:
        if reported(rule, example.after) != marked(rule, example.after):
            yield f"line {example.line}: other lines are reported than are marked"
        if result(rule, example.before) != example.after:
            yield f"line {example.line}: another result"


@RULES_BY_CODE
def test_the_marked_lines_are_reported_and_no_others(rule: Rule) -> None:
    for example in manual(rule).examples:
        assert reported(rule, example.after) == marked(rule, example.after), example.after


@RULES_BY_CODE
def test_a_manual_shows_what_is_reported_and_what_is_not(rule: Rule) -> None:
    examples = manual(rule).examples
    assert any(reported(rule, example.before) for example in examples)
    assert any(not reported(rule, example.after) for example in examples)


@RULES_BY_CODE
def test_the_manual_notices_that_its_rule_is_muted(
    rule: Rule, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not list(failures(rule))
    others = [o for o in RULES if o is not rule and o.origin == rule.origin]
    if rule.origin:
        monkeypatch.setattr(engine, "_dispatch_from", lambda origin: engine._Dispatch(others))
    else:
        monkeypatch.setattr(engine, "_DISPATCH", engine._Dispatch(others))
    for cached in (result_of_all_rules, findings_of_all_rules):
        monkeypatch.setitem(globals(), cached.__name__, cached.__wrapped__)
    assert any(failures(rule))
