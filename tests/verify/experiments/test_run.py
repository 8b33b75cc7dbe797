"""How a script is started."""

from __future__ import annotations

from pathlib import Path

import pytest

from xla_migrate.verify.experiments.run import run

from ... import warm


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A module that imports from its package, as `python -m package.train` runs it."""
    folder = tmp_path / "package"
    folder.mkdir()
    (folder / "data.py").write_text("SIZE = 7\n")
    (folder / "train.py").write_text(
        "import sys\nfrom .data import SIZE\nprint(SIZE, __name__, sys.argv[1:])\n"
    )
    return folder


def test_a_module_that_imports_from_its_package_is_run_as_one(
    package: Path, tmp_path: Path
) -> None:
    done = run(package / "train.py", ["--x", "1"], cwd=package.parent, folder=tmp_path / "run")
    assert done.output.strip() == "7 __main__ ['--x', '1']"


def test_from_inside_the_package_the_error_says_where_to_call_it(
    package: Path, tmp_path: Path
) -> None:
    (package / "train.py").write_text("import torch\nfrom .data import SIZE\n")
    script = package / "train.py"
    python = warm.for_side("reference")
    done = run(script, cwd=package, folder=tmp_path / "run", python=python)
    assert done.failure is not None
    assert done.failure.fault == "script"
    assert done.failure.message.endswith("call verify from the folder above that package")


def test_runs_that_are_kept_within_the_project_are_not_copied_with_it(
    package: Path, tmp_path: Path
) -> None:
    first = run(package / "train.py", cwd=tmp_path, folder=tmp_path / "kept" / "first")
    second = run(package / "train.py", cwd=tmp_path, folder=tmp_path / "kept" / "second")
    assert first.output == second.output
    assert [path.name for path in (second.project / "kept").iterdir()] == []
