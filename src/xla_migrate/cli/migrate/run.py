"""`xla-migrate PATH...` and `xla-migrate check PATH...`: from arguments to the report and the exit code."""

from __future__ import annotations

import gc
import os
import sys

from ...files.cache import Cache, folder, tool_key
from ...files.find import FoundFile, Walk
from ...files.launch_names import may_launch
from ...files.read import state_of
from ...results import FileOutcome, FileVerdict, Run
from ...settings import Finder, Settings, SettingsError
from .. import arguments, usage
from ..work import FileResult, RunOptions, do, failed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..arguments import Arguments

# The cost of opening a file, expressed in bytes of work.
_WEIGHT_OF_OPENING = 2000


def check(words: Sequence[str]) -> int:
    """`xla-migrate check`: see `run`."""
    return run(words, True)


def run(words: Sequence[str], checking: bool) -> int:
    """Do what the arguments say; the exit code.

    Args:
        words: the command-line arguments after the subcommand.
        checking: True for `check`.

    Raises:
        SystemExit: wrong usage.
    """
    given = arguments.parse(words, checking)
    options = options_of(given)
    if not given.show_settings and not (given.check or given.diff) and given.paths != ["-"]:
        refuse_missing(given.paths)
    gc.disable()  # see `work`
    try:
        finder = Finder(everywhere(given))
        if given.show_settings:
            from .show_settings import show

            return show(finder, given)
        from ..checks import check_codes

        check_codes((*(options.select or ()), *options.ignore), "")
        if given.paths == ["-"]:
            from .stdin import run_stdin

            return run_stdin(given, options, finder)
        return _run_files(given, options, finder)
    except SettingsError as error:
        usage.fail(str(error))
    finally:
        gc.enable()


def refuse_missing(paths: Sequence[str]) -> None:
    """Fail before anything is written if one of `paths` does not exist: it may be a misspelt subcommand.

    Raises:
        SystemExit: one is missing.
    """
    from ..commands import meant

    for k, path in enumerate(paths):
        if path == "-":
            continue
        try:
            os.stat(path)
        except (OSError, ValueError) as error:
            hint = meant(path) if k == 0 and path.isidentifier() else ""
            if hint:
                usage.fail(f"no command `{path}`{hint}")
            reason = getattr(error, "strerror", None) or str(error)
            usage.fail(f"{path}: {reason}; nothing was written")


def options_of(given: Arguments) -> RunOptions:
    """Return the results for the files, as the command line says."""
    return RunOptions(
        rewriting=not given.check,
        diff=given.diff,
        select=given.select,
        ignore=given.ignore,
        unsafe=given.unsafe,
        parallel=given.parallel,
        origin=given.origin,
        style=given.style,
        verbose=given.verbose,
    )


def everywhere(given: Arguments) -> Settings | None:
    """The settings of all files, where the command line names them."""
    if given.isolated:
        return Settings()
    if given.config is None:
        return None
    from ...settings import load_file

    return load_file(given.config)


def _run_files(given: Arguments, options: RunOptions, finder: Finder) -> int:
    without = os.path.abspath(given.output) if given.output else ""
    walk = Walk(finder, given.force_exclude, without)
    files = walk.files(given.paths)
    outcomes = [failed(shown, reason) for shown, reason in walk.problems]
    if given.output is not None:
        from .output import destinations

        options.destinations = destinations(given.output, given.paths, files)
    if options.rewriting:
        from . import vendoring

        vendoring.refuse_others(files, options)
    outcomes += _without_silent(_judge(files, options, given), files)
    outcomes.sort(key=lambda outcome: outcome.path)
    if options.rewriting:
        vendoring.tell(vendoring.update(files, options))
        vendoring.tell(vendoring.announced(outcomes))
    if given.output is not None and any(os.path.isdir(path) for path in given.paths):
        from .output import copy_others

        for line in copy_others(given.output, given.paths, finder):
            print(f"xla-migrate: {line}", file=sys.stderr)
    if not outcomes and not given.quiet:
        where = ", ".join(given.paths)
        print(f"xla-migrate: no Python files or notebooks in {where}", file=sys.stderr)
    result = Run(tuple(outcomes), options.rewriting)
    from .report import finish

    return finish(result, files, given, options)


def _without_silent(outcomes: list[FileOutcome], files: list[FoundFile]) -> list[FileOutcome]:
    """Without what a walk took for a launch file, and in which nothing was found: most YAML is something else."""
    maybe = {f.shown for f in files if not f.named and may_launch(os.path.basename(f.path))}
    return [o for o in outcomes if o.path not in maybe or o.verdict != FileVerdict()]


def _judge(files: list[FoundFile], options: RunOptions, given: Arguments) -> list[FileOutcome]:
    """Return the outcomes of `files`: from the cache if possible, else computed in parallel processes."""
    caches = _Caches(options, given)
    outcomes: list[FileOutcome] = []
    left: list[FoundFile] = []
    weights: list[int] = []
    for found in files:
        known, size = caches.ask(found)
        if known is not None:
            outcomes.append(FileOutcome(found.shown, known, options.is_unsafe(found.settings)))
        else:
            left.append(found)
            weights.append(size + _WEIGHT_OF_OPENING)
    if left:
        from .processes import spread
        from .progress import FileProgress

        progress = FileProgress(weights)

        def done(k: int, result: FileResult) -> None:
            outcomes.append(result.outcome)
            caches.put(left[k], result)
            progress.step(weights[k])

        def lost(found: FoundFile, reason: str) -> FileResult:
            return FileResult(failed(found.shown, reason))

        try:
            jobs = given.jobs or arguments.cores()
            spread(left, weights, lambda f: do(f, options, caches.recall), jobs, done, lost)
        finally:
            progress.end()
            caches.save()
    return outcomes


class _Caches:
    """One cache for each settings that some file has. Settings that no cache knows are checked before their use."""

    def __init__(self, options: RunOptions, given: Arguments) -> None:
        # Where every file is written elsewhere, or compared, each has to be read.
        self._used = not given.no_cache and not options.destinations
        self._options = options
        self._caches: dict[int, Cache | None] = {}
        self._folder = folder()
        self._tool = tool_key() if self._used else ()

    def of(self, settings: Settings) -> Cache | None:
        found = self._caches.get(id(settings), self)
        if found is not self:
            return found  # type: ignore[return-value]
        cache = None
        if self._used:
            key = (self._tool, settings.root or os.getcwd(), self._options.key(settings))
            cache = Cache(self._folder, key)
        if cache is None or cache.is_new:
            from ..checks import check_settings

            check_settings(settings)
        self._caches[id(settings)] = cache
        return cache

    def ask(self, found: FoundFile) -> tuple[FileVerdict | None, int]:
        """Return the cached result for the file in its present state, and the file's size."""
        cache = self.of(found.settings)
        try:
            status = os.stat(found.path)
        except OSError:
            return None, 0
        if cache is None:
            return None, status.st_size
        verdict = cache.by_state(found.path, state_of(status), found.named)
        return self._usable(found, verdict), status.st_size

    def recall(self, found: FoundFile, digest: bytes) -> FileVerdict | None:
        """Return the cached result for content with this hash at the file's path."""
        cache = self.of(found.settings)
        return None if cache is None else self._usable(found, cache.by_content(found.path, digest))

    def _usable(self, found: FoundFile, verdict: FileVerdict | None) -> FileVerdict | None:
        """`verdict`, unless there are fixes to be made, which it does not hold, or its project has changed."""
        if verdict is None or (self._options.rewriting and not verdict.settled):
            return None
        if verdict.project and not self._options.projects.is_as_it_was(found, verdict.project):
            return None
        return verdict

    def put(self, found: FoundFile, result: FileResult) -> None:
        cache = self.of(found.settings)
        if cache is not None and result.remembered is not None:
            cache.put(found.path, result.state, result.digest, result.remembered)

    def save(self) -> None:
        for cache in self._caches.values():
            if cache is not None:
                cache.save()
