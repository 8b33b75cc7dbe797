"""The end of a run: the baseline applied or written, the report printed, the exit code."""

from __future__ import annotations

import os
import sys

from ..results import Outcome, Run

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ..files.find import Found
    from .arguments import Arguments


def finish(run: Run, files: Sequence[Found], given: Arguments) -> int:
    """Report; the exit code.

    Raises:
        SettingsError: the baseline cannot be used.
    """
    places = {found.shown: found for found in files}
    if given.write_baseline:
        return _write_baselines(run, places, given)
    run = _without_known(run, places, given)
    run = run.replace(docs=next((f.settings.docs for f in files if f.settings.docs), ""))
    if given.output_format == "text":
        _print_text(run, given)
    else:
        _print(_formatted(run, given.output_format), sys.stdout)
    return run.exit_code


def _baseline_of(found: Found | None, given: Arguments) -> str:
    """The baseline for a file: that of the command line, or of its settings."""
    if given.baseline is not None:
        return given.baseline
    if found is None or not found.settings.baseline:
        return ""
    return os.path.join(found.settings.root, found.settings.baseline)


def _without_known(run: Run, places: dict[str, Found], given: Arguments) -> Run:
    """`run` without the findings that baselines hold."""
    if given.baseline is None and not any(f.settings.baseline for f in places.values()):
        return run
    from .baseline import Baseline, load

    baselines: dict[str, Baseline] = {}
    if given.baseline is not None:
        baselines[given.baseline] = load(given.baseline)
    outcomes: list[Outcome] = []
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


def _write_baselines(run: Run, places: dict[str, Found], given: Arguments) -> int:
    from ..files.find import shown
    from ..files.write import WriteError, create
    from .baseline import DEFAULT, kept, written

    groups: dict[str, list[tuple[str, Outcome]]] = {}
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
        from ..reports import text

        _print(text.lines(problems), sys.stdout)
    return 2 if failed or problems.outcomes else 0


def _print_text(run: Run, given: Arguments) -> None:
    """Findings and summary; where standard output is for source or a patch, they go to standard error."""
    from ..reports import text

    to_source = given.paths == ["-"] and not given.check
    out = sys.stderr if to_source or given.diff else sys.stdout
    for outcome in run.outcomes:
        sys.stdout.buffer.write(outcome.diff)
    sys.stdout.flush()
    if not given.statistics or given.quiet:
        _print(text.lines(run), out)
    _print(text.copies(run), out)
    if given.statistics:
        _print(text.statistics(run), out)
    if given.effort:
        _print(text.effort(run), out)
    if not given.quiet:
        _print([text.summary(run)], out)


def _formatted(run: Run, name: str) -> Iterable[str]:
    if name == "json":
        from ..reports import as_json

        return [as_json.report(run)]
    if name == "sarif":
        from ..reports import sarif

        return [sarif.report(run)]
    from ..reports import github

    return github.lines(run)


def _print(lines: Iterable[str], out: object) -> None:
    """Print; what the terminal or file has no character for is escaped."""
    for line in lines:
        print(line, file=out)  # type: ignore[call-overload]
