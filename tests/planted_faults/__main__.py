"""Say which tests catch each planted fault: `python -m tests.planted_faults [--trains] NAME...`.

A name is a glob: `rule:XLA1*`, `patch:*`, `verify:judge/*`. Without names all faults are planted;
with `--first` that takes about 15 minutes. Exits with 1 if one is not caught.

Each fault is planted in a copy of the project, and the tests run there. Tests that fail without a
fault are not counted.
"""

from __future__ import annotations

import argparse
import fnmatch
import functools
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from .faults import ROOT, SOURCES, Fault, every_fault

_COPIED = (*SOURCES, "tests", "fixtures", "docs", "pyproject.toml", "README.md", "CHANGELOG.md")


def main() -> int:
    """Plant the faults that the arguments name, one after the other."""
    options = _arguments()
    faults = [f for f in every_fault() if any(fnmatch.fnmatch(f.name, n) for n in options.names)]
    if not faults:
        sys.exit(f"no fault has such a name: {' '.join(options.names)}")
    missed = []
    with tempfile.TemporaryDirectory(prefix="planted-") as folder:
        project = copy_of_the_project(Path(folder))
        failing = functools.cache(functools.partial(failures, project, first=False))
        for fault in faults:
            tests = fault.tests + (fault.trains if options.trains else ())
            caught = caught_by(fault, project, tests, first=options.first)
            without = {test for file in map(_file_of, caught) for test in failing((file,))}
            caught -= without
            print(f"{fault.name}: {len(caught) or 'NOT CAUGHT'}", flush=True)
            for test in sorted(caught):
                print(f"    {test}", flush=True)
            if not caught:
                missed.append(fault.name)
                print(*(f"    fails without a fault: {test}" for test in without), sep="\n")
    print(f"{len(faults) - len(missed)} of {len(faults)} faults are caught")
    return 1 if missed else 0


def _file_of(test: str) -> str:
    return test.partition("::")[0]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.planted_faults", description=__doc__)
    parser.add_argument("names", nargs="*", default=["*"], metavar="NAME")
    parser.add_argument("--first", action="store_true", help="stop at the first test that fails")
    parser.add_argument("--trains", action="store_true", help="run tests that train, too")
    return parser.parse_args()


def copy_of_the_project(folder: Path) -> Path:
    """Copy what the tests need; return the copy's folder."""
    for name in _COPIED:
        source = ROOT / name
        if source.is_dir():
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(source, folder / name, ignore=ignored, symlinks=True)
        else:
            shutil.copy2(source, folder / name)
    return folder


def caught_by(fault: Fault, project: Path, tests: tuple[str, ...], *, first: bool) -> set[str]:
    """Return the tests that fail with the fault; the copy is as before afterwards."""
    path = project / fault.path
    text = path.read_text(encoding="utf-8")
    path.write_text(fault.change(text), encoding="utf-8")
    try:
        return failures(project, tests, first=first)
    finally:
        path.write_text(text, encoding="utf-8")


def failures(project: Path, tests: tuple[str, ...], *, first: bool) -> set[str]:
    """Return the ids of the tests that fail in the copy, and of files that cannot be collected.

    If a signal ends the process, which XLA does to some faults, it is the first of `tests`.
    """
    command = [sys.executable, "-m", "pytest", "--tb=no", "-rfE", "-p", "no:cacheprovider", *tests]
    if first:
        command.append("-x")
    # The copy stands before what is installed, here and in the processes that the tests start.
    path = os.pathsep.join(str(project / name) for name in SOURCES)
    env = {**os.environ, "PYTHONPATH": path, "PYTEST_ADDOPTS": "-p no:randomly"}
    run = subprocess.run(command, cwd=project, env=env, capture_output=True, text=True, check=False)
    if run.returncode < 0:
        return {tests[0]}
    if run.returncode not in (0, 1, 2):
        sys.exit(f"{' '.join(command)}\n{run.stdout[-2000:]}{run.stderr[-2000:]}")
    words = [line.split(maxsplit=2) for line in run.stdout.splitlines()]
    return {found[1] for found in words if len(found) > 1 and found[0] in ("FAILED", "ERROR")}


if __name__ == "__main__":
    sys.exit(main())
