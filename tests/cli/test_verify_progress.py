"""While it runs, `verify` says what it is doing."""

from __future__ import annotations

from pathlib import Path

import pytest

from xla_migrate.cli.verify_progress import _told
from xla_migrate.verify.experiments.process import Phase, Progress, _phase

CAUSE = "\nCompilation Analysis: Compilation Cause\nCompilation Analysis:   user sync\n"


@pytest.mark.parametrize(
    ("phase", "steps", "line"),
    [
        (Phase.STARTING, 0, "migrated: starting: imports, data, model, 40 s"),
        (Phase.COMPILING, 0, "migrated: compiling, 40 s"),
        (Phase.COMPILING, 3, "migrated: compiling, 40 s (after step 3)"),
        (Phase.TRAINING, 3, "migrated: step 3 of 20, 90 s"),
    ],
)
def test_what_is_told(phase: Phase, steps: int, line: str) -> None:
    assert _told("migrated", Progress("target", steps, 20, 90.0, phase, 40.0)) == line


def test_it_compiles_from_torch_xlas_announcement_to_its_account(tmp_path: Path) -> None:
    assert _phase(tmp_path, 0, 20) is Phase.STARTING
    file = tmp_path / "compilations.7.txt"
    file.write_text(CAUSE)
    assert _phase(tmp_path, 0, 20) is Phase.COMPILING
    file.write_text(CAUSE + "\nPost Compilation Analysis: ====\n")
    assert _phase(tmp_path, 1, 20) is Phase.TRAINING
    assert _phase(tmp_path, 20, 20) is Phase.ENDING
