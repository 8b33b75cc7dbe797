"""What a run does not need, it does not import: start-up is most of what checking one file takes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from .conftest import BY_HAND, CLEAN, CUDA, ENVIRONMENT, OWN, XLA

# Milliseconds each (docs/bench/check.py measures them): together more than the whole check of a file.
NEVER = {
    "argparse",
    "concurrent.futures",
    "dataclasses",
    "difflib",
    "hashlib",
    "importlib.metadata",
    "inspect",
    "json",
    "libcst",
    "multiprocessing",
    "pathlib",
    "pickle",
    "shutil",
    "subprocess",
    "tempfile",
    "threading",
    "tomllib",
    "torch",
}


def imported(here: Path, *words: str) -> set[str]:
    program = (
        "import sys\nfrom xla_migrate.cli import main\ncode = main(sys.argv[1:])\n"
        "print(*sys.modules, file=sys.stderr)\nsys.exit(code)"
    )
    answer = subprocess.run(
        [sys.executable, "-S", "-c", program, *words],
        cwd=here,
        capture_output=True,
        text=True,
        env=ENVIRONMENT,
    )
    assert answer.returncode in (0, 1), answer.stderr
    return set(answer.stderr.split())


@pytest.mark.parametrize("source", [CUDA, XLA, CLEAN, "import torch\n", "s = 'torch'\n"])
def test_checking(here: Path, source: str) -> None:
    (here / "a.py").write_text(source)
    (here / "pyproject.toml").write_text("[project]\nname = 'x'\n")
    for words in (["check", "."], ["check", "a.py"]):
        assert not NEVER & imported(here, *words)
    with_options = NEVER - {"argparse"}
    assert not with_options & imported(here, "check", "--no-cache", "a.py")


def test_without_trigger_words_the_engine_is_not_loaded(here: Path) -> None:
    (here / "a.py").write_text(CLEAN)
    assert not {"xla_codemods.engine", "xla_codemods.rules"} & imported(here, "check", ".")


def test_what_the_cache_knows_needs_next_to_nothing(here: Path) -> None:
    (here / "a.py").write_text(CUDA)
    imported(here, "check", ".")
    imported(here, "check", ".")  # by now the file is old enough to be trusted
    modules = imported(here, "check", ".")
    assert "xla_migrate.reports.text" in modules
    assert not (NEVER | {"ast", "re", "typing", "xla_codemods.engine"}) & modules


def test_a_rewrite_without_fixes_does_not_load_libcst(here: Path) -> None:
    (here / "pyproject.toml").write_text(OWN)
    (here / "a.py").write_text(BY_HAND)
    assert "libcst" not in imported(here, "a.py")
    (here / "a.py").write_text(CUDA)
    assert "libcst" in imported(here, "--diff", "a.py")


def test_version(here: Path) -> None:
    for words in (["--version"], ["-V"]):
        assert not (NEVER | {"re", "typing"}) & imported(here, *words)
