"""`xla-migrate verify SCRIPT -- ARGS`: the original and the migrated script run, and compared step by step."""

from __future__ import annotations

import json
import math
import shutil
import sys
import tempfile
import time
from pathlib import Path

from ..settings import SettingsError
from ..verify import Comparison, Failure, Progress, Run, compare
from ..verify import run as observe
from ..verify.report import Report, as_json, page, text
from ..verify.tolerances import R_BY_CHANCE
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

        more: dict[str, Any] = {}

        def judged() -> Comparison:
            return compare(
                reference,
                target,
                tolerance=asked.tolerance,
                metric=asked.metric,
                fp32=exact,
                **more,
            )

        migrated: dict[str, Any] = {"side": "target", "replace": proposed.files}
        comparison = judged()
        if any(v.name == "static shapes" for v in comparison.failed):
            more["explained"] = run(
                "migrated, explained", asked.precision, explain=True, **migrated
            )
        if _is_to_shake(comparison):
            more["shaken"] = [
                (
                    run(f"original in float32, shaken {seed}", "float32", shake=seed),
                    run(f"original, shaken {seed}", asked.precision, shake=seed),
                    run(f"migrated, shaken {seed}", asked.precision, shake=seed, **migrated),
                )
                for seed in _SHAKES
            ]
        if _is_to_follow(comparison, asked) and _fits(reference, base):
            kept = base / "weights"
            again = run("original, again", asked.precision, keep=kept)
            following = run("migrated, following", asked.precision, follow=kept, **migrated)
            if again.failure is None and following.failure is None:
                more["followed"] = again, following
        return judged() if more else comparison


_SHAKES = (1, 2)


def _is_to_shake(comparison: Comparison) -> bool:
    """Whether chance may be why R exceeds its limit."""
    r = comparison.r
    return r is not None and r <= R_BY_CHANCE and "bf16" in {v.name for v in comparison.failed}


def _fits(reference: Run, place: Path) -> bool:
    """Whether the disk holds the weights of all steps, twice."""
    size = sum(
        4 * math.prod(p.shape)
        for trace in reference.traces
        for step in trace.steps
        for p in trace.parameters[step.optimizer]
    )
    return 2 * size < shutil.disk_usage(place).free


def _is_to_follow(comparison: Comparison, asked: Asked) -> bool:
    """Whether rounding that this training amplifies may be why the runs part: not at once, that is."""
    if asked.precision != "float32" or not comparison.could_run:
        return False
    found = comparison.divergence
    late = found is not None and found.step > 1
    return asked.amplification or (
        late and found is not None and found.quantity in ("loss", "gradient", "weights")
    )


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
