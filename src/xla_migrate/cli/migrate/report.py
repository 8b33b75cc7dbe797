"""The end of a run: the baseline applied or written, the report printed, the exit code."""

from __future__ import annotations

import os
import sys

from ...reports.paint import Paint, wanted
from ...results import FileOutcome, Run

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import TextIO

    from ...files.find import FoundFile
    from ..arguments import Arguments
    from ..work import RunOptions
    from .excerpts import Excerpts


def finish(run: Run, files: Sequence[FoundFile], given: Arguments, options: RunOptions) -> int:
    """Report; the exit code.

    Raises:
        SettingsError: the baseline cannot be used.
    """
    places = {found.shown: found for found in files}
    if given.write_baseline:
        return _write_baselines(run, places, given)
    run = _without_known(run, places, given)
    run = run.replace(outcomes=tuple(_strict(o, places.get(o.path), given) for o in run.outcomes))
    run = run.replace(docs=next((f.settings.docs for f in files if f.settings.docs), ""))
    if given.output_format not in ("text", "full", "concise"):
        return _write(_formatted(run, given.output_format), given, run.exit_code)
    to_source = given.paths == ["-"] and not given.check
    out = sys.stderr if to_source or given.diff else sys.stdout
    _print_diffs(run)
    form = _form(given, out)
    paint = Paint(form == "full" and wanted(given.color, out) and given.output_file is None)

    def excerpt(outcome: FileOutcome) -> Excerpts:
        from .excerpts import Excerpts

        return Excerpts(outcome, places.get(outcome.path), options)

    return _write(_text(run, given, form, paint, excerpt), given, run.exit_code, out)


def _form(given: Arguments, out: TextIO) -> str:
    """`full` or `concise`: what was asked for, else by where the text goes."""
    if given.output_format != "text":
        return given.output_format
    on_terminal = out.isatty() and given.output_file is None
    return "full" if on_terminal and not given.diff else "concise"


def _write(lines: Iterable[str], given: Arguments, code: int, out: TextIO | None = None) -> int:
    """Print the report, or write it into `--output-file`; the exit code."""
    if given.output_file is None:
        _print(lines, out or sys.stdout)
        return code
    from ...files.write import WriteError, create

    text = "".join(f"{line}\n" for line in lines)
    try:
        create(given.output_file, text.encode(errors="backslashreplace"))
    except WriteError as error:
        print(f"xla-migrate: {given.output_file}: {error}", file=sys.stderr)
        return 2
    return code


def _strict(outcome: FileOutcome, found: FoundFile | None, given: Arguments) -> FileOutcome:
    """`outcome` with what makes the run end with 1: of the command line, or of the file's settings."""
    if given.fail_on:
        return outcome.replace(fail_on=given.fail_on)
    return outcome if found is None else outcome.replace(fail_on=found.settings.fail_on)


def _baseline_of(found: FoundFile | None, given: Arguments) -> str:
    """The baseline for a file: that of the command line, or of its settings."""
    if given.baseline is not None:
        return given.baseline
    if found is None or not found.settings.baseline:
        return ""
    return os.path.join(found.settings.root, found.settings.baseline)


def _without_known(run: Run, places: dict[str, FoundFile], given: Arguments) -> Run:
    """`run` without the findings that baselines hold."""
    if given.baseline is None and not any(f.settings.baseline for f in places.values()):
        return run
    from .baseline import Baseline, load

    baselines: dict[str, Baseline] = {}
    if given.baseline is not None:
        baselines[given.baseline] = load(given.baseline)
    outcomes: list[FileOutcome] = []
    for outcome in run.outcomes:
        found = places.get(outcome.path)
        path = _baseline_of(found, given)
        if path and found is not None:
            if path not in baselines:
                baselines[path] = load(path)
            left = baselines[path].new(found.path, outcome.verdict.left)
            outcome = outcome.replace(verdict=outcome.verdict.replace(left=left))
        outcomes.append(outcome)
    narrowed = given.select is not None or given.ignore
    return run.replace(
        outcomes=tuple(outcomes),
        known=sum(b.matched for b in baselines.values()),
        # What was not looked for may well be there.
        stale=0 if narrowed else sum(b.stale for b in baselines.values()),
    )


def _write_baselines(run: Run, places: dict[str, FoundFile], given: Arguments) -> int:
    from ...files.find import shown
    from ...files.write import WriteError, create
    from .baseline import DEFAULT, kept, written

    groups: dict[str, list[tuple[str, FileOutcome]]] = {}
    for outcome in run.outcomes:
        found = places.get(outcome.path)
        if found is not None:
            path = _baseline_of(found, given) or os.path.join(found.settings.root, DEFAULT)
            groups.setdefault(path, []).append((found.path, outcome))
    failed = False
    for path, outcomes in sorted(groups.items()):
        try:
            others = kept(path, [file for file, _ in outcomes])
            create(path, written(path, outcomes, others).encode())
        except WriteError as error:
            failed = True
            print(f"{path}: {error}", file=sys.stderr)
            continue
        if not given.quiet:
            count = sum(len(outcome.verdict.left) for _, outcome in outcomes)
            place = shown(path, os.getcwd())
            _print(
                [f"{count} {'finding' if count == 1 else 'findings'} written to {place}"],
                sys.stdout,
            )
    problems = run.replace(outcomes=tuple(o for o in run.outcomes if o.verdict.failed))
    if problems.outcomes:
        from ...reports import text

        _print(text.lines(problems), sys.stdout)
    return 2 if failed or problems.outcomes else 0


def _print_diffs(run: Run) -> None:
    if any(outcome.diff for outcome in run.outcomes):
        for outcome in run.outcomes:
            sys.stdout.buffer.write(outcome.diff)
    sys.stdout.flush()  # before what goes to standard error


def _text(
    run: Run, given: Arguments, form: str, paint: Paint, excerpt: Callable[[FileOutcome], Excerpts]
) -> Iterator[str]:
    """Findings or tables, and the summary; in a terminal, messages and summary are wrapped."""
    from ...reports import text

    width = None
    if given.output_file is None and sys.stdout.isatty():
        from ...reports.width import fitted, of_terminal

        width = of_terminal(sys.stdout)

    if given.statistics or given.effort:
        yield from text.problems(run)
    elif form == "full":
        from ...reports import full

        yield from full.lines(run, excerpt, paint, width)
    else:
        yield from text.lines(run)
    yield from text.copies(run)
    if given.statistics or given.effort:
        from ...reports import tables

        yield from tables.statistics(run) if given.statistics else ()
        yield from tables.effort(run) if given.effort else ()
    if given.quiet:
        return
    yield fitted(text.summary(run), width) if width else text.summary(run)
    if form == "full" and not given.diff:
        from ...reports import full

        yield from full.following(run, _script(run), paint)


def _script(run: Run) -> str:
    """Return the first rewritten file that looks like a program that trains."""
    changed = [o.left_path for o in run.outcomes if o.written and o.left_path.endswith(".py")]
    for path in changed:
        try:
            with open(path, "rb") as file:
                data = file.read()
        except OSError:
            continue
        if b"__main__" in data or b".backward(" in data:
            return path
    return changed[0] if changed else ""


def _formatted(run: Run, name: str) -> Iterable[str]:
    if name == "json":
        from ...reports import as_json

        return [as_json.report(run)]
    if name == "sarif":
        from ...reports import sarif

        return [sarif.report(run)]
    if name == "gitlab":
        from ...reports import gitlab

        return [gitlab.report(run)]
    if name == "junit":
        from ...reports import junit

        return [junit.report(run)]
    from ...reports import github

    return github.lines(run)


def _print(lines: Iterable[str], out: TextIO) -> None:
    """Print; what the terminal or file has no character for is escaped."""
    for line in lines:
        print(line, file=out)
