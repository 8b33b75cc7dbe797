"""`xla-migrate PATH...` and `xla-migrate check PATH...`: from arguments to the report and the exit code."""

from __future__ import annotations

import gc
import os
import sys
import time

from ..files.cache import Cache, folder, tool_key
from ..files.find import Found, Walk
from ..files.read import state_of
from ..results import Outcome, Run, Verdict
from ..settings import Finder, Settings, SettingsError
from . import arguments
from .work import Done, Order, do, failed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from .arguments import Arguments

# Beside the bytes of a file: what opening it costs, in bytes' worth of work.
_WEIGHT_OF_OPENING = 2000


def run(words: Sequence[str], checking: bool) -> int:
    """Do what the arguments say; the exit code.

    Raises:
        SystemExit: wrong usage.
    """
    given = arguments.parse(words, checking)
    order = Order(
        rewriting=not given.check,
        diff=given.diff,
        select=given.select,
        ignore=given.ignore,
        unsafe=given.unsafe,
        parallel=given.parallel,
        verbose=given.verbose,
    )
    gc.disable()  # see `work`
    try:
        from .checks import check_codes

        check_codes((*(order.select or ()), *order.ignore), "")
        if given.paths == ["-"]:
            from .stdin import run_stdin

            return run_stdin(given, order)
        return _run_files(given, order)
    except SettingsError as error:
        arguments.fail(str(error))
    finally:
        gc.enable()


def _run_files(given: Arguments, order: Order) -> int:
    finder = Finder()
    without = os.path.abspath(given.output) if given.output else ""
    walk = Walk(finder, given.force_exclude, without)
    files = walk.files(given.paths)
    outcomes = [failed(shown, reason) for shown, reason in walk.problems]
    if given.output is not None:
        from .output import destinations

        order.destinations = destinations(given.output, given.paths, files)
    outcomes += _judge(files, order, given)
    outcomes.sort(key=lambda outcome: outcome.path)
    if not outcomes and not given.quiet:
        where = ", ".join(given.paths)
        print(f"xla-migrate: no Python files or notebooks in {where}", file=sys.stderr)
    result = Run(tuple(outcomes), order.rewriting)
    from .report import finish

    return finish(result, files, given)


def _judge(files: list[Found], order: Order, given: Arguments) -> list[Outcome]:
    """The outcomes of `files`: from the cache where it knows, the others in as many processes as it takes."""
    caches = _Caches(order, given)
    outcomes: list[Outcome] = []
    left: list[Found] = []
    weights: list[int] = []
    for found in files:
        known, size = caches.ask(found)
        if known is not None:
            outcomes.append(Outcome(found.shown, known, order.is_unsafe(found.settings)))
        else:
            left.append(found)
            weights.append(size + _WEIGHT_OF_OPENING)
    if left:
        from .processes import spread

        progress = _Progress(len(left))

        def done(k: int, result: Done) -> None:
            outcomes.append(result.outcome)
            caches.put(left[k], result)
            progress.step()

        def lost(found: Found, reason: str) -> Done:
            return Done(failed(found.shown, reason))

        try:
            jobs = given.jobs or arguments.cores()
            spread(left, weights, lambda f: do(f, order, caches.recall), jobs, done, lost)
        finally:
            progress.end()
            caches.save()
    return outcomes


class _Caches:
    """One cache for each settings that some file has. Settings that no cache knows are checked before their use."""

    def __init__(self, order: Order, given: Arguments) -> None:
        # Where every file is written elsewhere, or compared, each has to be read.
        self._used = not given.no_cache and not order.destinations
        self._order = order
        self._caches: dict[int, Cache | None] = {}
        self._folder = folder()
        self._tool = tool_key() if self._used else ()

    def of(self, settings: Settings) -> Cache | None:
        found = self._caches.get(id(settings), self)
        if found is not self:
            return found  # type: ignore[return-value]
        cache = None
        if self._used:
            key = (self._tool, settings.root or os.getcwd(), self._order.key(settings))
            cache = Cache(self._folder, key)
        if cache is None or cache.is_new:
            from .checks import check_settings

            check_settings(settings)
        self._caches[id(settings)] = cache
        return cache

    def ask(self, found: Found) -> tuple[Verdict | None, int]:
        """What the cache knows of the file in its present state, and the file's size."""
        cache = self.of(found.settings)
        try:
            status = os.stat(found.path)
        except OSError:
            return None, 0
        if cache is None:
            return None, status.st_size
        verdict = cache.by_state(found.path, state_of(status), found.named)
        return self._usable(found, verdict), status.st_size

    def recall(self, found: Found, digest: bytes) -> Verdict | None:
        """What is known of content with this hash in the file's place."""
        cache = self.of(found.settings)
        return None if cache is None else self._usable(found, cache.by_content(found.path, digest))

    def _usable(self, found: Found, verdict: Verdict | None) -> Verdict | None:
        """`verdict`, unless there are fixes to be made, which it does not hold, or its project has changed."""
        if verdict is None or (self._order.rewriting and not verdict.settled):
            return None
        if verdict.project and verdict.project != self._order.projects.fingerprint(found):
            return None
        return verdict

    def put(self, found: Found, result: Done) -> None:
        cache = self.of(found.settings)
        if cache is not None and result.remembered is not None:
            cache.put(found.path, result.state, result.digest, result.remembered)

    def save(self) -> None:
        for cache in self._caches.values():
            if cache is not None:
                cache.save()


class _Progress:
    """How far it is, on stderr; only where that is a terminal, and not before a second has passed."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._done = 0
        self._next = time.monotonic() + 1.0 if sys.stderr.isatty() else float("inf")
        self._shown = False

    def step(self) -> None:
        self._done += 1
        now = time.monotonic()
        if now > self._next:
            self._next = now + 0.1
            self._shown = True
            print(f"\r{self._done} of {self._total} files", end="", file=sys.stderr, flush=True)

    def end(self) -> None:
        if self._shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
