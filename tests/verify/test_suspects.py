"""The finding most likely behind a verdict."""

from __future__ import annotations

import pytest

from xla_migrate.verify import Verdict
from xla_migrate.verify.divergence import Divergence
from xla_migrate.verify.suspects import Finding, Lines, likeliest, of_verdict

BEFORE = "import torch\n\nmodel = net().cuda()\nstep()\nprint(loss)\n"
AFTER = "import torch\nfrom xla_migrate import runtime as xla\n\nmodel = net().to(xla.xla_device())\nstep()\nxla.mark_step()\nprint(loss)\n"
LINES = Lines({"train.py": (BEFORE, AFTER)})


def finding(code: str, line: int, left: bool = False, path: str = "train.py") -> Finding:
    return Finding(code, path, line, f"about {code}", left)


@pytest.mark.parametrize(("migrated", "original"), [(1, 1), (4, 3), (5, 4), (7, 5), (99, 5)])
def test_lines_of_the_migrated_file_are_those_of_the_original(migrated: int, original: int) -> None:
    assert LINES.original("train.py", migrated) == original


def test_files_that_did_not_change_keep_their_lines() -> None:
    assert LINES.original("data.py", 12) == 12
    assert LINES.place("data.py:12") == ("data.py", 12)
    assert LINES.place("") == ("", 0)


def test_a_finding_on_the_blamed_line_comes_first_whatever_its_code() -> None:
    found = [finding("XLA502", 1), finding("XLA901", 5)]
    chosen = likeliest("host reads", "train.py:7", found, LINES)
    assert chosen is not None
    assert chosen.code == "XLA901"


def test_what_was_left_comes_before_what_was_rewritten() -> None:
    found = [finding("XLA503", 4), finding("XLA504", 1, left=True)]
    chosen = likeliest("host reads", "train.py:7", found, LINES)
    assert chosen is not None
    assert chosen.code == "XLA504"


def test_what_makes_no_shapes_is_not_behind_repeated_compiles() -> None:
    found = [finding("XLA501", 1), finding("XLA503", 4, left=True), finding("XLA208", 2)]
    assert likeliest("static shapes", "train.py:7", found, LINES) is None
    assert likeliest("no fallback", "train.py:7", found, LINES) is None


def test_the_nearest_of_equals() -> None:
    found = [finding("XLA301", 1), finding("XLA302", 4), finding("XLA303", 4, path="other.py")]
    chosen = likeliest("weights", "train.py:6", found, LINES)
    assert chosen is not None
    assert chosen.code == "XLA302"


@pytest.mark.parametrize(
    ("quantity", "code"),
    [
        ("initial weights", "XLA131"),
        ("loss", "XLA401"),
        ("gradient", "XLA201"),
        ("weights", "XLA301"),
        ("option lr", "XLA301"),
    ],
)
def test_a_quantity_tells_what_computes_it(quantity: str, code: str) -> None:
    divergence = Divergence(0, 1, 0, quantity, None, 1.0, 2.0, "", "")
    found = [finding(c, 3) for c in ("XLA601", "XLA131", "XLA201", "XLA301", "XLA401", "XLA502")]
    verdict = Verdict("numbers", "failed", "")
    chosen = of_verdict(verdict, divergence, found, LINES)
    assert chosen is not None
    assert chosen.code == code


def test_what_cannot_be_behind_it_is_not_blamed() -> None:
    assert likeliest("static shapes", "train.py:5", [finding("XLA701", 1)], LINES) is None
    assert likeliest("unheard of", "", [finding("XLA701", 1)], LINES) is None


@pytest.mark.parametrize("about", ["loss", "gradient", "weights", "initial weights", "same steps"])
def test_what_is_only_slow_is_not_behind_other_numbers(about: str) -> None:
    found = [finding("XLA503", 5, left=True)]
    assert likeliest(about, "train.py:7", found, LINES) is None
    assert likeliest("host reads", "train.py:7", found, LINES) == found[0]
