"""While it runs, `verify` says what it is doing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.verify.traces import run
from xla_migrate.cli.verify_progress import (
    TimeLeft,
    _progress_text,
    shower,
    tell_first_result,
)
from xla_migrate.verify.experiments.process import Phase, Progress, _phase
from xla_migrate.verify.judge.compare import compare

CAUSE = "\nCompilation Analysis: Compilation Cause\nCompilation Analysis:   user sync\n"


@pytest.mark.parametrize(
    ("phase", "steps", "line"),
    [
        (Phase.STARTING, 0, "migrated: starting: imports, data, model, first step, 40 s"),
        (Phase.COMPILING, 0, "migrated: compiling, 40 s"),
        (Phase.COMPILING, 3, "migrated: compiling, 40 s (after step 3)"),
        (Phase.TRAINING, 3, "migrated: step 3 of 20, 90 s"),
    ],
)
def test_what_is_told(phase: Phase, steps: int, line: str) -> None:
    assert _progress_text("migrated", Progress("target", steps, 20, 90.0, phase, 40.0)) == line


def test_it_compiles_from_torch_xlas_announcement_to_its_account(tmp_path: Path) -> None:
    assert _phase(tmp_path, 0, 20) is Phase.STARTING
    file = tmp_path / "compilations.7.txt"
    file.write_text(CAUSE)
    assert _phase(tmp_path, 0, 20) is Phase.COMPILING
    file.write_text(CAUSE + "\nPost Compilation Analysis: ====\n")
    assert _phase(tmp_path, 1, 20) is Phase.TRAINING
    assert _phase(tmp_path, 20, 20) is Phase.ENDING


def test_the_first_result_is_told_before_the_runs_that_look_for_reasons(
    capfd: pytest.CaptureFixture[str],
) -> None:
    tell_first_result(compare(run(), run([1.0, 0.9, 0.9], side="target")), False)
    shown = capfd.readouterr().err
    assert shown.startswith("xla-migrate: first result; more runs look for the reasons:\n")
    assert "  FAILED numbers: " in shown
    assert "  FAILED same steps: " in shown
    assert "  ok " not in shown


def test_a_first_result_that_rounding_may_explain_accuses_nobody(
    capfd: pytest.CaptureFixture[str],
) -> None:
    tell_first_result(compare(run([1.0, 0.9]), run([1.0, 0.91], side="target")), True)
    (line,) = [each for each in capfd.readouterr().err.splitlines() if "numbers" in each]
    assert line == (
        "  unclear numbers: step 2: loss: 0.9 in the original, 0.91 in the migrated script; is this rounding?"
    )


def at(steps: int, seconds: float, phase: Phase = Phase.TRAINING) -> Progress:
    return Progress("target", steps, 20, seconds, phase, 1.0)


def test_the_time_that_is_left_is_that_of_the_steps_after_the_first() -> None:
    estimate = TimeLeft()
    assert estimate.left(at(0, 90, Phase.STARTING)) is None
    assert estimate.left(at(1, 100)) is None  # the first step compiles
    assert estimate.left(at(1, 130)) is None
    assert estimate.left(at(3, 140)) == 17 * 20
    assert estimate.left(at(3, 150)) == 17 * 20 - 10
    assert estimate.left(at(20, 500, Phase.ENDING)) is None


def test_a_run_that_takes_long_says_so_at_once_and_once(capsys: pytest.CaptureFixture[str]) -> None:
    show = shower("migrated")
    for progress in (at(1, 10), at(2, 70), at(2, 71), None):
        show(progress)
    advice = capsys.readouterr().err.splitlines()
    assert len(advice) == 1
    assert "about 18 min left" in advice[0]
    assert "--steps" in advice[0]
    show(at(19, 1000))
    assert capsys.readouterr().err == ""
