"""`xla-migrate verify SCRIPT -- ARGS`: the original and the migrated script run, and compared step by step."""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path

from ..settings import SettingsError
from ..verify import Comparison, Failure, Progress, Run, compare
from ..verify import run as observe
from ..verify.report import Report, as_json, page, text
from .arguments import fail
from .verify_arguments import Asked, parse
from .verify_migration import Migrated, given, migrated

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

_EVERY = 30.0  # seconds between lines of progress where standard error is no terminal


def verify(words: Sequence[str]) -> int:
    """Do what the arguments say; the exit code.

    Raises:
        SystemExit: wrong usage.
    """
    asked = parse(words)
    return _told(_proof(asked, _migration(asked)), asked)


def verify_then_write(words: Sequence[str], write: Callable[[list[str]], int]) -> int:
    """`xla-migrate PATH... --verify -- ARGS`: write what was proven; where the proof fails, only if told.

    Args:
        words: without the script's own arguments the words of the command, besides verify's.
        write: the command itself, called with its own words.

    Raises:
        SystemExit: wrong usage.
    """
    asked = parse(words, writing=True)
    proposed = _migration(asked)
    code = _told(_proof(asked, proposed), asked)
    if code and not asked.even_unproven:
        print(
            "xla-migrate: not proven, so nothing was written (--even-unproven writes all the same)",
            file=sys.stderr,
        )
        return code
    if _migration(asked).files != proposed.files:
        fail("files changed during the verification: nothing was written")
    written = write([*map(str, asked.paths), *asked.command])
    return code or written


def _migration(asked: Asked) -> Migrated:
    try:
        if asked.migrated is not None:
            return given(asked.script, asked.migrated)
        only = asked.paths if asked.writing else None
        return migrated(asked.script, asked.unsafe, only)
    except SettingsError as error:
        fail(str(error))


def _proof(asked: Asked, proposed: Migrated) -> Report:
    if proposed.left:
        codes = ", ".join(sorted({f.code for f in proposed.left}))
        print(f"xla-migrate: left for you, so it may not run: {codes}", file=sys.stderr)
    comparison = _compared(asked, proposed)
    settings = {
        "steps": str(asked.steps),
        "precision": asked.precision,
        "dropout": asked.dropout,
        "processes": str(asked.nproc),
    }
    if asked.precision == "float32":
        settings["tolerance"] = f"{asked.tolerance:g}"
    if asked.metric:
        settings["metric"] = asked.metric
    texts, findings = proposed.texts, proposed.findings
    return Report(comparison, str(asked.script), settings, findings, texts, asked.args)


def _told(report: Report, asked: Asked) -> int:
    """Print the report, write the page; the exit code."""
    where = ""
    if asked.report is not None:
        try:
            page.save(report, Path(asked.report))
            where = asked.report
        except OSError as error:
            print(f"xla-migrate: no report: {error}", file=sys.stderr)
    if asked.output_format == "json":
        plain = {**as_json.plain(report), "report": where or None}
        print(json.dumps(plain, indent=2))
    else:
        print("\n".join(text.lines(report)))
        if where:
            print(f"report: {where}")
    return report.exit_code


def _compared(asked: Asked, proposed: Migrated) -> Comparison:
    common: dict[str, Any] = {
        "steps": asked.steps,
        "dropout": asked.dropout,
        "nproc": asked.nproc,
        "data_shim": asked.data_shim,
        "timeout": asked.timeout,
    }
    with tempfile.TemporaryDirectory(prefix="xla-migrate-", ignore_cleanup_errors=True) as folder:
        base = Path(asked.keep) if asked.keep else Path(folder)

        def run(name: str, precision: str, **more: Any) -> Run:
            show = _shower(name)
            place = base / name.replace(" ", "-")
            result = observe(
                asked.script,
                asked.args,
                precision=precision,
                folder=place,
                progress=show,
                **common,
                **more,
            )
            if sys.stderr.isatty():
                print("\r\x1b[K", end="", file=sys.stderr, flush=True)
            return result

        reference = run("original", asked.precision)
        not_run = Run("target", asked.script, asked.args, asked.precision, base)
        not_run.failure = Failure("not run", "the original could not be run")
        if reference.failure is not None:
            return compare(reference, not_run)
        exact = None
        if asked.precision == "bfloat16":
            exact = run("original in float32", "float32")
            if exact.failure is not None:
                return compare(exact, not_run)
        target = run("migrated", asked.precision, side="target", replace=proposed.files)

        explained: Run | None = None

        def judged(noise: Run | None) -> Comparison:
            return compare(
                reference,
                target,
                tolerance=asked.tolerance,
                metric=asked.metric,
                fp32=exact,
                noise=noise,
                explained=explained,
            )

        comparison = judged(None)
        if any(v.name == "static shapes" for v in comparison.failed):
            more = {"side": "target", "replace": proposed.files, "explain": True}
            explained = run("migrated, explained", asked.precision, **more)
            comparison = judged(None)
        if not (asked.amplification or _may_be_amplified(comparison)):
            return comparison
        shaken = run("original, shaken", asked.precision, perturb=_SHAKE)
        return judged(shaken) if shaken.failure is None else comparison


def _may_be_amplified(comparison: Comparison) -> bool:
    """Whether the runs part as rounding would have it that this training amplifies: little, and not at once."""
    found = comparison.divergence
    if found is None or found.step <= 1 or found.quantity not in ("loss", "gradient", "weights"):
        return False
    return abs(found.reference - found.target) <= _LITTLE * abs(found.reference)


_LITTLE = 0.05
# Eight units in the last place of float32: what sums of some hundred terms are rounded by.
_SHAKE = 2.0**-20


def _shower(name: str) -> Callable[[Progress], None]:
    """Shows how far a run is: on one line of a terminal, else by a line every half minute."""
    terminal = sys.stderr.isatty()
    last = time.monotonic()

    def show(progress: Progress) -> None:
        nonlocal last
        of = f" of {progress.of}" if progress.of else ""
        line = f"{name}: step {progress.steps}{of}, {progress.seconds:.0f} s"
        if terminal:
            print(f"\r\x1b[K{line}", end="", file=sys.stderr, flush=True)
        elif time.monotonic() - last > _EVERY:
            last = time.monotonic()
            print(line, file=sys.stderr, flush=True)

    return show
