"""`xla-migrate verify SCRIPT -- ARGS`: the original and the migrated script run, and compared step by step."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from types import FrameType

from ..reports.width import of_terminal
from ..settings import SettingsError
from ..verify.experiments import migration, originals
from ..verify.experiments.later_edits import are_settings, later_edits, later_settings
from ..verify.experiments.migration import MigrationError, ProjectMigration
from ..verify.experiments.originals import NoOriginalError
from ..verify.experiments.proof import compared
from ..verify.experiments.workspace import project_of
from ..verify.judge.blame import MigrationFinding
from ..verify.judge.judgement import Judgement
from ..verify.report import Report, as_json, here_and_now, page, text
from ..verify.report.facts import Conclusion
from . import arguments
from .doctor_checks import mismatch
from .migrated_project import migrated_project, places, tell_what_is_left
from .usage import fail
from .verify_arguments import Asked, parse
from .verify_progress import shower, tell_first_result


def verify(words: Sequence[str]) -> int:
    """Do what the arguments say; the exit code.

    Raises:
        SystemExit: wrong usage.
    """
    asked = parse(words)
    if asked.record:
        from .verify_recordings import record

        if originals.is_migrated(asked.request.script.read_bytes()):
            script = asked.request.script
            fail(
                f"{script} is migrated already: record the original"
                f" ({script.name}.orig, or an earlier commit in a worktree of git)"
            )
        with _ended_in_order():
            return record(asked)
    return _report(_proof(asked, _migration(asked)), asked)


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
    report = _proof(asked, proposed)
    code = _report(report, asked)
    if report.status is not Conclusion.PROVEN and not asked.even_unproven:
        print(
            "xla-migrate: not proven, so nothing was written (--even-unproven writes anyway)",
            file=sys.stderr,
        )
        return code
    if _migration(asked).files != proposed.files:
        fail("files changed during the verification: nothing was written")
    written = write([*map(str, asked.paths), *asked.command])
    return code or written


def _migration(asked: Asked) -> ProjectMigration:
    script = asked.request.script
    try:
        if not asked.writing:
            return _sides(asked)
        # What is proven is what will be written: with the command's own options.
        given = arguments.parse([*map(str, asked.paths), *asked.command], False)
        return migrated_project(script, asked.unsafe, asked.paths, given)
    except (SettingsError, MigrationError, NoOriginalError, OSError) as error:
        fail(str(error))


def _sides(asked: Asked) -> ProjectMigration:
    """Return both sides: the original, and the files on the disk, those given, or what the tool makes of the original."""
    script = asked.request.script
    project = project_of(script, None)
    found = None
    if asked.against or not (asked.migrated or asked.reference):
        found = originals.find(script, project, asked.against)
    before = found.files if found is not None else {}
    is_migrated = bool(originals.migrated_modules(script, project))
    proposed = migrated_project(
        script,
        asked.unsafe,
        style=asked.style,
        originals=before,
        as_needed=asked.migrated is None and (found is None or is_migrated),
    )
    version = found.version if found is not None else ""
    if asked.migrated is not None:
        files = {**_as_bytes(proposed.files), **migration.given_files(script, Path(asked.migrated))}
        proposed = _finished_by_user(asked, proposed, before, files)
    elif found is not None and is_migrated:
        proposed = _finished_by_user(asked, proposed, before, {})
    elif found is not None:
        proposed = migration.finished(script, proposed, before, _as_bytes(proposed.files))
    elif asked.reference and is_migrated:
        proposed = migration.finished(script, proposed, {}, {})
    proposed.version = version
    return proposed


def _finished_by_user(
    asked: Asked,
    proposed: ProjectMigration,
    before: Mapping[str, bytes | None],
    files: Mapping[str, bytes],
) -> ProjectMigration:
    """Return a migration that the user may have completed, with the findings that remain and the later edits.

    Args:
        asked: what the command line says.
        proposed: what the tool makes of the originals.
        before: contents of the originals, if not those on the disk.
        files: contents of the migrated side, if not those on the disk.
    """
    script = asked.request.script
    finished = migration.finished(script, proposed, before, files)
    finished.left = migrated_project(
        script, asked.unsafe, [script], style=asked.style, originals=files
    ).left

    @functools.cache
    def with_unsafe_fixes() -> ProjectMigration:
        return migrated_project(script, True, style=asked.style, originals=before, as_needed=True)

    for name, (original, migrated) in finished.texts.items():
        written = proposed.texts.get(name, (original, original))[1]
        finished.findings += later_edits(
            name, original, written, migrated, lambda: with_unsafe_fixes().texts
        )
    finished.findings += _later_settings(asked, proposed, before, files)
    return finished


def _later_settings(
    asked: Asked,
    proposed: ProjectMigration,
    before: Mapping[str, bytes | None],
    files: Mapping[str, bytes],
) -> Iterator[MigrationFinding]:
    """Yield what was changed in the settings files that the script reads; the parameters are `_finished_by_user`'s."""
    script = asked.request.script
    texts = [migrated for _, migrated in proposed.texts.values()] + list(asked.request.args)
    names = sorted(name for name in {*before, *files} if are_settings(name, texts))
    places = [project_of(script, None) / name for name in names]
    there = [place for place in places if place.is_file()]
    migrated = (
        migrated_project(script, asked.unsafe, there, originals=before).texts if there else {}
    )
    for name in names:
        original, given = migration.both_texts(script, name, before, files)
        written = migrated.get(name, (original, original))[1]
        yield from later_settings(name, original, written, given)


def _as_bytes(files: Mapping[str, str | bytes]) -> dict[str, bytes]:
    return {name: d.encode() if isinstance(d, str) else d for name, d in files.items()}


@contextlib.contextmanager
def _ended_in_order() -> Iterator[None]:
    """End the runs and delete their folders if this process is ended (by `timeout` or a CI)."""

    def leave(number: int, frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    before = {number: signal.signal(number, leave) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _refuse_versions_that_do_not_match() -> None:
    """Refuse to start if installed versions do not match: usually a later package replaced torch."""
    try:
        wrong = mismatch(metadata.version("torch"), metadata.version("torch_xla"))
    except metadata.PackageNotFoundError:
        return  # told by the run, or none is needed
    if wrong is not None:
        fail(f"{wrong.detail}: {wrong.advice}")


def _proof(asked: Asked, proposed: ProjectMigration) -> Report:
    _refuse_versions_that_do_not_match()
    tell_what_is_left(proposed)
    request, reference = asked.request, ""
    with _ended_in_order():
        if asked.reference:
            from .verify_recordings import check

            comparison, request, reference = check(asked, proposed)
        else:
            comparison = compared(request, proposed, shower, tell_first_result)
    settings = {
        **({"original": proposed.version} if proposed.version else {}),
        "steps": str(request.steps),
        "precision": request.precision,
        "dropout": request.dropout,
        "processes": str(request.nproc),
    }
    if reference:
        settings["reference"] = reference
    if request.replay:
        settings["replay"] = "weights and batches"
    if request.precision == "float32":
        settings["tolerance"] = f"{request.tolerance:g}"
    if request.metric:
        settings["metric"] = request.metric
    return Report(
        comparison,
        str(request.script),
        settings,
        proposed.findings,
        proposed.texts,
        request.args,
        here_and_now(asked.words),
        _compiled(asked, proposed) if comparison.could_run else (),
    )


def _compiled(asked: Asked, proposed: ProjectMigration) -> Sequence[Judgement]:
    """Return the TPU compiler's verdicts on the migrated script; none without `--for`."""
    if not asked.target:
        return ()
    from ..target.compile.judged import judged
    from ..target.compile.session import CompileOptions

    print(f"xla-migrate: compiling for {asked.target}", file=sys.stderr)
    request = asked.request
    found = judged(request.script, request.args, asked.target, proposed.files, CompileOptions())
    place = places(proposed)
    return [replace(one, where=place(one.where)) for one in found]


def _report(report: Report, asked: Asked) -> int:
    """Print the report, write the page; the exit code."""
    where = _page(report, asked) if asked.report is not None else ""
    if asked.output_format == "json":
        plain = {**as_json.plain(report), "report": where or None}
        print(json.dumps(plain, indent=2))
    else:
        print("\n".join(text.lines(report, of_terminal(sys.stdout) or 10_000)))
        if where:
            print(f"report: {where}")
    return report.exit_code


def _page(report: Report, asked: Asked) -> str:
    """Write the page and return its path, or "" if nothing could run or no page is wanted."""
    path = Path(asked.report) if asked.report else None
    if report.comparison.reference.failure is not None:
        if path is not None:
            page.remove(path)
        return ""
    try:
        if path is None:
            prefix = f"xla-migrate-{asked.request.script.stem}-"
            handle, name = tempfile.mkstemp(prefix=prefix, suffix=".html")
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(page.page(report))
            return name
        page.save(report, path)
        return str(path)
    except OSError as error:
        print(f"xla-migrate: no report: {error}", file=sys.stderr)
        return ""
