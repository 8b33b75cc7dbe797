"""What is done to one file: read, judged, and then written, compared or only reported."""

from __future__ import annotations

import gc
import os

from ..files.cache import content_hash, trusted
from ..files.read import ReadError, State, read, state_of
from ..results import Outcome, Verdict, cannot_parse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ..files.find import Found
    from ..files.modules import Projects
    from ..settings import Settings

# The engine lets go of each file; what hangs together in circles all the same is looked for after this much source.
_COLLECT_AFTER = 16 << 20


class Order:
    """What is wanted of every file: see the command's arguments of the same names."""

    __slots__ = (
        "_projects",
        "destinations",
        "diff",
        "ignore",
        "parallel",
        "rewriting",
        "select",
        "unsafe",
        "verbose",
    )

    def __init__(
        self,
        *,
        rewriting: bool,
        diff: bool = False,
        select: tuple[str, ...] | None = None,
        ignore: tuple[str, ...] = (),
        unsafe: bool | None = None,
        verbose: bool = False,
        parallel: str = "",
    ) -> None:
        self.rewriting = rewriting
        self.parallel = parallel
        self.diff = diff
        self.select = select
        self.ignore = ignore
        self.unsafe = unsafe
        self.verbose = verbose
        self.destinations: dict[
            str, str
        ] = {}  # path -> where its result goes, where that is not the path itself
        self._projects: Projects | None = None

    @property
    def projects(self) -> Projects:
        """The projects that its files lie in."""
        if self._projects is None:
            from ..files.modules import Projects

            self._projects = Projects()
        return self._projects

    def is_unsafe(self, settings: Settings) -> bool:
        """Whether unsafe fixes are made in files with these settings."""
        return settings.unsafe if self.unsafe is None else self.unsafe

    def key(self, settings: Settings) -> tuple[object, ...]:
        """What verdicts on files with these settings depend on."""
        return (*settings.key, self.select, self.ignore, self.is_unsafe(settings), self.parallel)


class Done:
    """What came of one file: the outcome, and what the cache is to remember of it."""

    __slots__ = ("digest", "outcome", "remembered", "state")

    def __init__(
        self,
        outcome: Outcome,
        state: State | None = None,
        digest: bytes = b"",
        remembered: Verdict | None = None,
    ) -> None:
        self.outcome = outcome
        self.state = state
        self.digest = digest  # empty: nothing in the file concerns us
        self.remembered = remembered


def failed(shown: str, reason: str) -> Outcome:
    """The outcome of a file that could not be looked at."""
    return Outcome(shown, Verdict(problem=reason, failed=True, settled=False))


def do(
    found: Found, order: Order, recall: Callable[[Found, bytes], Verdict | None] | None = None
) -> Done:
    """Read, judge and act. `recall` gives the verdict on content with this hash, if it is known."""
    try:
        data, state = read(found.path, found.path.endswith(".ipynb"))
    except ReadError as error:
        return Done(failed(found.shown, str(error)))
    known_as = trusted(state)
    is_ours = mentions(data, found.settings)
    if not is_ours and not found.named and not order.destinations:  # as most files are
        return Done(Outcome(found.shown, _NOTHING), known_as, b"", _NOTHING)
    digest = content_hash(data) if is_ours else b""
    if is_ours and recall is not None and (known := recall(found, digest)) is not None:
        unsafe = order.is_unsafe(found.settings)
        return Done(Outcome(found.shown, known, unsafe), known_as, digest, known)
    # A file that somebody named is told to be broken even where there is nothing for us in it.
    if is_ours:
        verdict = verdict_on(data, found, order)
    else:
        verdict = _glance(data, found, order) if found.named else _NOTHING
    outcome = _act(found, order, data, state, verdict)
    if outcome.written and found.path not in order.destinations:
        return _rewritten(found, outcome, verdict, order)
    # Of a file that would have been changed, nothing is known that a later run could use; and what is known of one
    # without trigger words depends on whether it was named.
    if verdict.data is not None or (verdict.failed and not verdict.settled):
        return Done(outcome)
    if not is_ours:
        return Done(outcome)
    return Done(outcome, known_as, digest, verdict)


_NOTHING = Verdict()


def mentions(data: bytes, settings: Settings) -> bool:
    """Whether there is a word in `data` without which there is nothing for us; or it is no text at all."""
    from xla_codemods.words import concerns

    if concerns(data) or b"\0" in data:
        return True
    return any(name.last.encode() in data for name in settings.own)


def _glance(data: bytes, found: Found, order: Order) -> Verdict:
    """The verdict on a file without trigger words that somebody named; most need no rules for that."""
    from xla_codemods.source import SourceError
    from xla_codemods.triggers import shows_nothing

    if found.path.endswith(".ipynb"):
        return verdict_on(data, found, order)
    try:
        return _NOTHING if shows_nothing(data) else verdict_on(data, found, order)
    except SourceError as error:
        return Verdict((cannot_parse(error.reason, error.line, error.column),), failed=True)


def verdict_on(data: bytes, found: Found, order: Order) -> Verdict:
    """The engine's verdict, with the options that hold for this file."""
    from xla_codemods.engine import Options

    from .judge import judge

    settings = found.settings
    options = Options(
        settings.select if order.select is None else order.select,
        (*settings.ignored_in(found.path), *order.ignore),
        order.is_unsafe(settings),
        settings.own,
        order.parallel,
    )
    project = order.projects.of(found)
    verdict = judge(data, found.path, options, order.rewriting, order.verbose, project)
    _collect_garbage(len(data))
    if project is None or not project.asked:
        return verdict
    return verdict.replace(project=order.projects.fingerprint(found) or _NEVER)


def _act(found: Found, order: Order, data: bytes, state: State, verdict: Verdict) -> Outcome:
    """Do with the new source what was asked for; the outcome does not carry it."""
    outcome = Outcome(found.shown, verdict.replace(data=None), order.is_unsafe(found.settings))
    if verdict.failed or not order.rewriting:
        return outcome
    new = verdict.data
    if order.diff:
        from ..reports.diff import difference

        return outcome.replace(diff=difference(data, new, found.shown) if new is not None else b"")
    from ..files.find import shown
    from ..files.write import WriteError, create, rewrite

    try:
        if found.path in order.destinations:
            create(order.destinations[found.path], data if new is None else new, found.path)
        elif new is not None:
            from ..files.git import can_restore

            keep = not can_restore(found.path, data)
            copy = rewrite(found.path, data, new, state, keep)
            outcome = outcome.replace(copy=copy and shown(copy, os.getcwd()))
    except WriteError as error:
        return failed(found.shown, str(error))
    return outcome.replace(written=new is not None)


def _rewritten(found: Found, outcome: Outcome, verdict: Verdict, order: Order) -> Done:
    """What is known of a file that has just been written."""
    assert verdict.data is not None
    try:
        known_as = trusted(state_of(os.stat(found.path)))
    except OSError:
        known_as = None
    unsafe = order.is_unsafe(found.settings)
    settled = not any(row.is_fixed_by_a_run(unsafe) for row in verdict.left)
    remembered = Verdict(verdict.left, settled=settled, project=verdict.project)
    return Done(outcome, known_as, content_hash(verdict.data), remembered)


# Of a project that changes this very moment: equal to no fingerprint.
_NEVER = b"?"

_judged = 0


def _collect_garbage(size: int) -> None:
    global _judged
    if not gc.isenabled():
        _judged += size
        if _judged > _COLLECT_AFTER:
            _judged = 0
            gc.collect()
