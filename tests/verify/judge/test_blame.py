"""The finding most likely cause of a verdict."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import pytest

from xla_codemods.rules import every_rule
from xla_codemods.symptoms import REMOTE, Symptom
from xla_migrate.verify.judge import blame
from xla_migrate.verify.judge.blame import MigrationFinding, likeliest, of_verdict
from xla_migrate.verify.judge.blame import Symptom as Judged
from xla_migrate.verify.judge.divergence import Divergence, Quantity
from xla_migrate.verify.judge.judgement import Check, Judgement, Status
from xla_migrate.verify.judge.source_lines import SourceLines

BEFORE = "import torch\n\nmodel = net().cuda()\nstep()\nprint(loss)\n"
AFTER = "import torch\nfrom xla_migrate import runtime as xla\n\nmodel = net().to(xla.xla_device())\nstep()\nxla.mark_step()\nprint(loss)\n"
LINES = SourceLines({"train.py": (BEFORE, AFTER)})
BEHIND = {rule.code: {str(name): n for name, n in rule.behind.items()} for rule in every_rule()}


def finding(code: str, line: int, left: bool = False, path: str = "train.py") -> MigrationFinding:
    return MigrationFinding(code, path, line, f"about {code}", left, behind=BEHIND[code])


def test_a_note_changes_no_number_and_may_cost_time() -> None:
    note = replace(finding("XLA504", 3, left=True), is_note=True)
    assert likeliest(Quantity.LOSS, "train.py:4", [note], LINES) is None
    assert likeliest(Check.STATIC_SHAPES, "train.py:4", [note], LINES) == note


@pytest.mark.parametrize(("migrated", "original"), [(1, 1), (4, 3), (5, 4), (7, 5), (99, 5)])
def test_lines_of_the_migrated_file_are_those_of_the_original(migrated: int, original: int) -> None:
    assert LINES.original("train.py", migrated) == original


@pytest.mark.parametrize(("original", "migrated"), [(1, 1), (3, 4), (4, 5), (5, 7), (99, 7)])
def test_lines_of_the_original_are_those_of_the_migrated_file(original: int, migrated: int) -> None:
    assert LINES.migrated("train.py", original) == migrated
    assert LINES.migrated("other.py", original) == original


@pytest.mark.parametrize("before", ["", "a\n", "a\nb\n"])
def test_lines_that_were_added_at_the_end_have_a_place(before: str) -> None:
    lines = SourceLines({"train.py": (before, f"{before}xla.mark_step()\n")})
    count = before.count("\n")
    assert [lines.migrated("train.py", n + 1) for n in range(count)] == list(range(1, count + 1))
    assert lines.migrated("train.py", count + 1) == count + 1


def test_rules_speak_of_what_verify_judges() -> None:
    assert blame.REMOTE == REMOTE
    judged = {str(item.value) for kind in (Check, Quantity) for item in kind}
    assert set(get_args(Symptom)) <= judged
    # Numbers are judged by quantity, and no finding is behind times alone. What only a recording is judged by
    # lies in weights, modules and steps that the migration does not touch. The number of graphs names its own causes, and
    # a gradient that is rounding in both has none.
    recorded = {"same initial weights", "modules", "optimizer step"}
    assert judged - set(get_args(Symptom)) == {
        "numbers",
        "performance",
        "number of graphs",
        "gradient that is rounding",
        *recorded,
    }


def test_every_symptom_has_a_rule_that_may_be_behind_it() -> None:
    named = {symptom for behind in BEHIND.values() for symptom in behind}
    assert named == set(get_args(Symptom))


def test_the_likelier_rule_comes_before_the_nearer() -> None:
    found = [finding("XLA101", 4), finding("XLA201", 1)]
    assert likeliest(Quantity.LOSS, "train.py:6", found, LINES) == found[1]


def test_files_that_did_not_change_keep_their_lines() -> None:
    assert LINES.original("data.py", 12) == 12
    assert LINES.place("data.py:12") == ("data.py", 12)
    assert LINES.place("") == ("", 0)


def test_a_finding_on_the_blamed_line_comes_first_whatever_its_code() -> None:
    found = [finding("XLA502", 1), finding("XLA901", 5)]
    chosen = likeliest(Check.HOST_READS, "train.py:7", found, LINES)
    assert chosen is not None
    assert chosen.code == "XLA901"


def test_what_was_left_comes_before_what_was_rewritten() -> None:
    found = [finding("XLA503", 4), finding("XLA504", 1, left=True)]
    chosen = likeliest(Check.HOST_READS, "train.py:7", found, LINES)
    assert chosen is not None
    assert chosen.code == "XLA504"


def edit(line: int) -> MigrationFinding:
    message = "changed after the migration: `lr = 1`"
    return MigrationFinding("", "train.py", line, message, False, after=line + 1)


@pytest.mark.parametrize("about", [Quantity.LOSS, Check.PRINTED])
def test_a_later_edit_comes_first_for_numbers(about: Judged) -> None:
    found = [finding("XLA201", 5), finding("XLA503", 5, left=True), edit(3)]
    chosen = likeliest(about, "train.py:7", found, LINES)
    assert chosen is found[2]
    assert str(chosen) == "train.py:3: changed after the migration: `lr = 1`"


def test_a_later_edit_is_behind_a_cost_only_on_its_line() -> None:
    found = [finding("XLA503", 4, left=True), edit(3)]
    assert likeliest(Check.HOST_READS, "train.py:7", found, LINES) is found[0]
    assert likeliest(Check.HOST_READS, "train.py:4", found, LINES) is found[1]


def test_what_makes_no_shapes_is_not_behind_repeated_compiles() -> None:
    found = [finding("XLA501", 1), finding("XLA503", 4, left=True), finding("XLA208", 2)]
    assert likeliest(Check.STATIC_SHAPES, "train.py:7", found, LINES) is None
    assert likeliest(Check.NO_FALLBACK, "train.py:7", found, LINES) is None


def test_an_operation_on_the_cpu_is_blamed_on_its_own_line() -> None:
    found = [finding("XLA515", 4, left=True), finding("XLA514", 5)]
    chosen = likeliest(Check.NO_FALLBACK, "train.py:7", found, LINES)
    assert chosen is not None
    assert chosen.code == "XLA514"
    assert likeliest(Check.NO_FALLBACK, "train.py:7", found[:1], LINES) is None


def test_a_rewritten_line_is_not_behind_the_number_of_graphs() -> None:
    verdict = Judgement(Check.GRAPHS, Status.FAILED, "3 graphs", "train.py:7")
    assert of_verdict(verdict, None, [finding("XLA101", 5)], LINES) is None
    left = finding("XLA503", 5, left=True)
    assert of_verdict(verdict, None, [left], LINES) == left


@pytest.mark.parametrize(
    ("check", "code"),
    [
        (Check.STATIC_SHAPES, "XLA506"),
        (Check.HOST_READS, "XLA503"),
        (Check.NO_FALLBACK, "XLA518"),
    ],
)
def test_a_rewritten_line_is_behind_it_only_if_its_rule_is_about_it(
    check: Check, code: str
) -> None:
    """The user may have changed what the rule wrote; other rewritten lines only stand at that place."""
    verdict = Judgement(check, Status.FAILED, "", "train.py:7")
    others = [finding(code, 5) for code in ("XLA101", "XLA502", "XLA701")]
    assert of_verdict(verdict, None, others, LINES) is None
    assert of_verdict(verdict, None, [*others, finding(code, 5)], LINES) == finding(code, 5)
    left = finding("XLA101", 5, left=True)
    assert of_verdict(verdict, None, [*others, left], LINES) == left


def test_a_finding_that_was_left_comes_before_a_rewritten_one_on_the_line_that_is_no_likelier() -> (
    None
):
    on_it, left = finding("XLA204", 4), finding("XLA204", 3, left=True)
    assert likeliest(Quantity.GRADIENT, "train.py:5", [on_it, left], LINES) == left
    unlikely = replace(left, behind={str(Quantity.GRADIENT.value): REMOTE})
    assert likeliest(Quantity.GRADIENT, "train.py:5", [on_it, unlikely], LINES) == on_it


def test_the_nearest_of_equals() -> None:
    found = [finding("XLA301", 1), finding("XLA302", 4), finding("XLA303", 4, path="other.py")]
    chosen = likeliest(Quantity.WEIGHTS, "train.py:6", found, LINES)
    assert chosen is not None
    assert chosen.code == "XLA302"


@pytest.mark.parametrize(
    ("quantity", "code"),
    [
        (Quantity.INITIAL_WEIGHTS, "XLA130"),
        (Quantity.LOSS, "XLA401"),
        (Quantity.GRADIENT, "XLA201"),
        (Quantity.WEIGHTS, "XLA301"),
        (Quantity.OPTION, "XLA301"),
    ],
)
def test_a_quantity_tells_what_computes_it(quantity: Quantity, code: str) -> None:
    divergence = Divergence(0, 1, 0, quantity, None, 1.0, 2.0, "", "")
    found = [finding(c, 3) for c in ("XLA601", "XLA130", "XLA201", "XLA301", "XLA401", "XLA502")]
    verdict = Judgement(Check.NUMBERS, Status.FAILED, "")
    chosen = of_verdict(verdict, divergence, found, LINES)
    assert chosen is not None
    assert chosen.code == code


def test_what_cannot_be_behind_it_is_not_blamed() -> None:
    assert likeliest(Check.STATIC_SHAPES, "train.py:5", [finding("XLA701", 1)], LINES) is None
    assert likeliest(None, "", [finding("XLA701", 1)], LINES) is None


@pytest.mark.parametrize("about", [Quantity.LOSS, Quantity.WEIGHTS, Quantity.INITIAL_WEIGHTS])
def test_a_note_that_changes_nothing_is_not_blamed_for_what_its_topic_is(about: Judged) -> None:
    assert likeliest(about, "train.py:5", [finding("XLA133", 5)], LINES) is None


@pytest.mark.parametrize(
    "about", [Quantity.LOSS, Quantity.GRADIENT, Quantity.INITIAL_WEIGHTS, Check.SAME_STEPS]
)
def test_what_is_only_slow_is_not_behind_other_numbers(about: Judged) -> None:
    found = [finding("XLA503", 5, left=True)]
    assert likeliest(about, "train.py:7", found, LINES) is None
    assert likeliest(Check.HOST_READS, "train.py:7", found, LINES) == found[0]
