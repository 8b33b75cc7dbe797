"""`xla-migrate verify SCRIPT -- ARGS`: the original and the migrated script run, and compared step by step."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path

from ..files.find import Walk
from ..files.read import ReadError, read
from ..results import Verdict
from ..settings import Finder, SettingsError
from ..verify import Comparison, Progress, Run, compare
from ..verify import run as observe
from ..verify.workspace import project_of
from .arguments import fail
from .checks import check_settings
from .work import Order, mentions, verdict_on

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

_USAGE = """\
usage: xla-migrate verify SCRIPT [options] -- ARGUMENTS OF THE SCRIPT

Runs the script as it is (on CUDA, or with its CUDA calls sent to the CPU) and migrated (on XLA), each in a copy of its
project, and compares them step by step. Options:
  --steps N              optimizer steps after which both are stopped (20)
  --precision NAME       float32 (default: autocast off, losses to 1e-5), or bfloat16 (by the R criterion)
  --dropout NAME         off (default), or same: the same masks in both
  --tolerance X          relative, of losses in float32 (1e-5)
  --metric REGEX         a number that both print, to agree to 0.1 %
  --nproc N              processes
  --data-shim FILE       Python that is run before training, as a stand-in for data
  --timeout SECONDS      for each run
  --unsafe               migrate with unsafe fixes, too
  --output-format NAME   text or json

exit codes: 0 proven, 1 it differs, 2 it could not be run
"""
_VALUES = {
    "--steps": int,
    "--precision": str,
    "--dropout": str,
    "--tolerance": float,
    "--metric": str,
    "--nproc": int,
    "--data-shim": str,
    "--timeout": float,
    "--output-format": str,
}
_CHOICES = {
    "--precision": ("float32", "bfloat16"),
    "--dropout": ("off", "same"),
    "--output-format": ("text", "json"),
}


def verify(words: Sequence[str]) -> int:
    """Do what the arguments say; the exit code.

    Raises:
        SystemExit: wrong usage.
    """
    words, args = _split(list(words))
    script, given, unsafe = _parse(words)
    try:
        migrated, left = _migrated(script, unsafe)
    except SettingsError as error:
        fail(str(error))
    if left:
        codes = ", ".join(left)
        print(f"xla-migrate: left for you, so it may not run: {codes}", file=sys.stderr)
    comparison = _compared(script, args, given, migrated)
    if given.get("--output-format") == "json":
        print(json.dumps(_plain(comparison), indent=2))
    else:
        print("\n".join(_lines(comparison)))
    return 2 if not comparison.could_run else int(not comparison.proven)


def _split(words: list[str]) -> tuple[list[str], list[str]]:
    """Ours, and the script's arguments behind `--`."""
    if "--" not in words:
        return words, []
    at = words.index("--")
    return words[:at], words[at + 1 :]


def _parse(words: list[str]) -> tuple[Path, dict[str, Any], bool]:
    given: dict[str, Any] = {}
    scripts: list[str] = []
    unsafe = False
    rest = list(reversed(words))
    while rest:
        word = rest.pop()
        name, equals, value = word.partition("=")
        if word in ("-h", "--help"):
            print(_USAGE, end="")
            raise SystemExit(0)
        if word == "--unsafe":
            unsafe = True
        elif name in _VALUES:
            if not equals and not rest:
                fail(f"{name} needs a value (see `xla-migrate verify --help`)")
            given[name] = _value(name, value if equals else rest.pop())
        elif word.startswith("-"):
            fail(f"verify has no option {name}; the script's own go behind --")
        else:
            scripts.append(word)
    if len(scripts) != 1:
        fail("verify takes one script; its arguments go behind --")
    if not os.path.isfile(scripts[0]):
        fail(f"{scripts[0]}: no such script")
    return Path(scripts[0]), given, unsafe


def _value(name: str, text: str) -> Any:
    if name in _CHOICES and text not in _CHOICES[name]:
        fail(f"{name} {text}: there is {' and '.join(_CHOICES[name])}")
    try:
        return _VALUES[name](text)
    except ValueError:
        fail(f"{name} must be a number, not {text!r}")


def _migrated(script: Path, unsafe: bool) -> tuple[dict[str, str | bytes], list[str]]:
    """New contents by path in the project, of the script and its modules; and the codes left for a person in it."""
    project = project_of(script, None)
    order = Order(rewriting=True, unsafe=unsafe or None)
    replaced: dict[str, str | bytes] = {}
    left: list[str] = []
    for found in Walk(Finder()).files([str(script), str(project)]):
        if found.path.endswith(".ipynb"):
            continue
        try:
            data, _ = read(found.path)
        except ReadError as error:
            verdict = Verdict(problem=str(error), failed=True)
        else:
            check_settings(found.settings)
            verdict = (
                verdict_on(data, found, order) if mentions(data, found.settings) else Verdict()
            )
        is_script = os.path.samefile(found.path, script)
        if verdict.failed and is_script:
            row = verdict.left[0] if verdict.left else None
            place = (
                f"{found.shown}:{row.line}:{row.column}: {row.code} {row.message}" if row else ""
            )
            fail(place or f"{found.shown}: {verdict.problem}")
        if verdict.data is not None:
            replaced[os.path.relpath(os.path.realpath(found.path), project)] = verdict.data
        if is_script:
            left = sorted({row.code for row in verdict.left if row.fails})
    return replaced, left


def _compared(
    script: Path, args: list[str], given: dict[str, Any], migrated: dict[str, str | bytes]
) -> Comparison:
    precision = given.get("--precision", "float32")
    common = {
        name[2:].replace("-", "_"): given[name]
        for name in ("--steps", "--dropout", "--nproc", "--data-shim", "--timeout")
        if name in given
    }
    with tempfile.TemporaryDirectory(prefix="xla-migrate-") as folder:

        def run(name: str, precision: str, **more: Any) -> Run:
            show = _shower(name)
            place = Path(folder, name.replace(" ", "-"))
            result = observe(
                script, args, precision=precision, folder=place, progress=show, **common, **more
            )
            if show is not None:
                print("\r\x1b[K", end="", file=sys.stderr, flush=True)
            return result

        reference = run("original", precision)
        exact = run("original in float32", "float32") if precision == "bfloat16" else None
        target = run("migrated", precision, side="target", replace=migrated)
        return compare(
            reference,
            target,
            tolerance=given.get("--tolerance", 1e-5),
            metric=given.get("--metric"),
            fp32=exact,
        )


def _shower(name: str) -> Any:
    """Shows how far a run is, where standard error is a terminal."""
    if not sys.stderr.isatty():
        return None

    def show(progress: Progress) -> None:
        of = f" of {progress.of}" if progress.of else ""
        text = f"\r{name}: step {progress.steps}{of}, {progress.seconds:.0f} s"
        print(text, end="", file=sys.stderr, flush=True)

    return show


def _lines(comparison: Comparison) -> list[str]:
    """The comparison for people."""
    lines = []
    for name, run in (("original", comparison.reference), ("migrated script", comparison.target)):
        if run.failure is not None and run.failure.traceback:
            lines += [f"the {name}'s own error:", run.failure.traceback.rstrip()]
    if comparison.rows:
        lines.append(f"{'step':>5} {'original':>14} {'migrated':>14} {'difference':>11}")
    for row in comparison.rows:
        numbers = (_number(row.reference), _number(row.target))
        apart = "" if row.difference is None else f"{row.difference:.1e}"
        lines.append(f"{row.event + 1:>5} {numbers[0]:>14} {numbers[1]:>14} {apart:>11}")
    for verdict in comparison.verdicts:
        where = f" ({verdict.where})" if verdict.where else ""
        lines.append(f"{verdict.status:<10} {verdict.name}: {verdict.detail}{where}")
    return [*lines, str(comparison)]


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.7g}"


def _plain(comparison: Comparison) -> dict[str, Any]:
    """The comparison for programs."""
    from dataclasses import asdict

    failures = {
        side: asdict(run.failure)
        for side, run in (("original", comparison.reference), ("migrated", comparison.target))
        if run.failure is not None
    }
    return {
        "version": 1,
        "proven": comparison.proven,
        "could_run": comparison.could_run,
        "message": str(comparison),
        "failures": failures,
        "verdicts": [asdict(verdict) for verdict in comparison.verdicts],
        "divergence": asdict(comparison.divergence) if comparison.divergence else None,
        "steps": [asdict(row) for row in comparison.rows],
        "r": comparison.r,
        "summary": comparison.summary,
    }
