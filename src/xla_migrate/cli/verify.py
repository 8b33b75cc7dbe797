"""`xla-migrate verify SCRIPT -- ARGS`: the original and the migrated script run, and compared step by step."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from ..settings import SettingsError
from ..verify.report import Report, as_json, page, text
from .arguments import fail
from .verify_arguments import Asked, parse
from .verify_migration import Migrated, given, migrated
from .verify_runs import compared

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


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
    comparison = compared(asked, proposed)
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
