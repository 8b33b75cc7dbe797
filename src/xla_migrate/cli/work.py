"""The work on one file: read it, judge it, and then write, compare or report the result."""

from __future__ import annotations

import gc
import os

from ..files.cache import content_hash, trusted
from ..files.launch_names import concerns_a_launch, may_launch
from ..files.read import ReadError, State, read, state_of
from ..results import FileOutcome, FileVerdict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ..files.find import FoundFile
    from ..files.modules import Projects
    from ..settings import Settings

# The engine lets go of each file; what hangs together in circles all the same is looked for after this much source.
_COLLECT_AFTER = 16 << 20


class RunOptions:
    """The options of the command line that apply to every file, named as the command's arguments."""

    __slots__ = (
        "_projects",
        "destinations",
        "diff",
        "ignore",
        "origin",
        "parallel",
        "rewriting",
        "select",
        "style",
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
        origin: str = "",
        style: str = "",
    ) -> None:
        self.rewriting = rewriting
        self.parallel = parallel
        self.origin = origin
        self.style = style
        self.diff = diff
        self.select = select
        self.ignore = ignore
        self.unsafe = unsafe
        self.verbose = verbose
        self.destinations: dict[
            str, str
        ] = {}  # path -> the path of its result, if it is another one
        self._projects: Projects | None = None

    @property
    def projects(self) -> Projects:
        """The projects that its files lie in."""
        if self._projects is None:
            from ..files.modules import Projects

            self._projects = Projects()
        return self._projects

    def is_unsafe(self, settings: Settings) -> bool:
        """True if unsafe fixes are made in files with these settings."""
        return settings.unsafe if self.unsafe is None else self.unsafe

    def origin_of(self, settings: Settings) -> str:
        """Return which code other than CUDA's is rewritten in files with these settings: "torch_xla", or ""."""
        origin = self.origin or settings.origin
        return "" if origin == "cuda" else origin

    def style_of(self, settings: Settings) -> str:
        """Return the style of files with these settings: "runtime" or "native"."""
        return self.style or settings.style

    def key(self, settings: Settings) -> tuple[object, ...]:
        """Return what results for files with these settings depend on."""
        asked = (self.select, self.ignore, self.is_unsafe(settings), self.parallel)
        return (*settings.key, *asked, self.origin_of(settings), self.style_of(settings))


class FileResult:
    """The outcome of one file, and what the cache stores for it."""

    __slots__ = ("digest", "outcome", "remembered", "state")

    def __init__(
        self,
        outcome: FileOutcome,
        state: State | None = None,
        digest: bytes = b"",
        remembered: FileVerdict | None = None,
    ) -> None:
        self.outcome = outcome
        self.state = state
        self.digest = digest  # empty: nothing in the file concerns us
        self.remembered = remembered


def failed(shown: str, reason: str) -> FileOutcome:
    """The outcome of a file that could not be looked at."""
    return FileOutcome(shown, FileVerdict(problem=reason, failed=True, settled=False))


def do(
    found: FoundFile,
    options: RunOptions,
    recall: Callable[[FoundFile, bytes], FileVerdict | None] | None = None,
) -> FileResult:
    """Read, judge and act. `recall` gives the verdict on content with this hash, if it is known."""
    try:
        data, state = read(found.path, found.path.endswith(".ipynb"))
    except ReadError as error:
        return FileResult(failed(found.shown, str(error)))
    known_as = trusted(state)
    is_ours = mentions(data, found.settings, found.path)
    if not is_ours and not found.named and not options.destinations:  # as most files are
        return FileResult(FileOutcome(found.shown, _NOTHING), known_as, b"", _NOTHING)
    digest = content_hash(data) if is_ours else b""
    if is_ours and recall is not None and (known := recall(found, digest)) is not None:
        unsafe = options.is_unsafe(found.settings)
        return FileResult(FileOutcome(found.shown, known, unsafe), known_as, digest, known)
    # A broken file that the user named is reported even if it has nothing to migrate.
    if is_ours:
        verdict = verdict_on(data, found, options)
    else:
        verdict = _glance(data, found, options) if found.named else _NOTHING
    outcome = _act(found, options, data, state, verdict)
    if outcome.written and found.path not in options.destinations:
        return _rewritten(found, outcome, verdict, options)
    # A file that would have been changed has no verdict that a later run could use. The verdict on a file
    # without trigger words depends on whether the user named the file.
    if verdict.data is not None or (verdict.failed and not verdict.settled):
        return FileResult(outcome)
    if not is_ours:
        return FileResult(outcome)
    return FileResult(outcome, known_as, digest, verdict)


_NOTHING = FileVerdict()


def mentions(data: bytes, settings: Settings, path: str = "") -> bool:
    """True if there is a word in `data` without which there is nothing for us; or it is no text at all."""
    from xla_codemods.prefilter import concerns

    if may_launch(os.path.basename(path)):
        return concerns_a_launch(data, path)
    if concerns(data) or b"\0" in data:
        return True
    return any(name.last.encode() in data for name in settings.own)


def _glance(data: bytes, found: FoundFile, options: RunOptions) -> FileVerdict:
    """Return the verdict on a file without trigger words that the user named."""
    if may_launch(os.path.basename(found.path)):
        return _NOTHING
    return verdict_on(data, found, options)


def verdict_on(data: bytes, found: FoundFile, options: RunOptions) -> FileVerdict:
    """The engine's verdict, with the options that hold for this file."""
    from xla_codemods.engine import Options

    from .migrate.judge import judge

    settings = found.settings
    of_engine = Options(
        settings.select if options.select is None else options.select,
        (*settings.ignored_in(found.path), *options.ignore),
        options.is_unsafe(settings),
        settings.own,
        options.parallel,
        options.origin_of(settings),
        options.style_of(settings),
        _line_length(found.path) if options.rewriting else 0,
    )
    if may_launch(os.path.basename(found.path)):
        from ..target.launch_files.judge import judge as judge_launch

        verdict = judge_launch(
            data,
            found.path,
            settings.target,
            of_engine.selects,
            of_engine.unsafe,
            options.rewriting,
        )
        # A command's script is read, too, and may change.
        return verdict.replace(project=_NEVER) if b".py" in data else verdict
    project = options.projects.of(found)
    verdict = judge(data, found.path, of_engine, options.rewriting, options.verbose, project)
    _collect_garbage(len(data))
    if project is None or not project.depends_on_modules:
        return verdict
    known_as = options.projects.fingerprint(found, project.depends_on_files)
    return verdict.replace(project=known_as or _NEVER)


def _line_length(path: str) -> int:
    from ..files.line_length import line_length

    return line_length(os.path.dirname(path))


def _act(
    found: FoundFile, options: RunOptions, data: bytes, state: State, verdict: FileVerdict
) -> FileOutcome:
    """Do with the new source what was asked for; the outcome does not carry it."""
    outcome = FileOutcome(
        found.shown, verdict.replace(data=None), options.is_unsafe(found.settings)
    )
    if verdict.failed or not options.rewriting:
        return outcome
    new = verdict.data
    if options.diff:
        from ..reports.diff import difference, in_original

        if new is None:
            return outcome
        left = in_original(verdict.left, data, new, found.shown)
        verdict = outcome.verdict.replace(left=left)
        return outcome.replace(verdict=verdict, diff=difference(data, new, found.shown))
    from ..files.find import shown
    from ..files.write import WriteError, create, rewrite

    try:
        if found.path in options.destinations:
            place = options.destinations[found.path]
            copy = create(place, data if new is None else new, found.path, keep=True)
            here = os.getcwd()
            outcome = outcome.replace(left_path=shown(place, here), copy=copy and shown(copy, here))
        elif new is not None:
            from ..files.git import can_restore

            keep = not can_restore(found.path, data)
            copy = rewrite(found.path, data, new, state, keep)
            outcome = outcome.replace(copy=copy and shown(copy, os.getcwd()))
    except WriteError as error:
        return failed(found.shown, str(error))
    return outcome.replace(written=new is not None)


def _rewritten(
    found: FoundFile, outcome: FileOutcome, verdict: FileVerdict, options: RunOptions
) -> FileResult:
    """Return the result for a file that has just been written."""
    assert verdict.data is not None
    try:
        known_as = trusted(state_of(os.stat(found.path)))
    except OSError:
        known_as = None
    unsafe = options.is_unsafe(found.settings)
    settled = not any(row.is_fixed_by_a_run(unsafe) for row in verdict.left)
    remembered = FileVerdict(verdict.left, settled=settled, project=verdict.project)
    return FileResult(outcome, known_as, content_hash(verdict.data), remembered)


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
