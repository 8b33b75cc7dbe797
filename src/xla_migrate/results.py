"""The results of a run as plain data: passed between processes, kept in the cache and written to reports.

The classes do what `typing.NamedTuple` would; importing `typing` takes as long as all else that a run does which finds
every file in the cache.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeVar

    R = TypeVar("R", bound="Record")

ERROR, WARNING, INFO = "error", "warning", "info"
SAFE, UNSAFE = "safe", "unsafe"
CORRECTNESS, SPEED = "correctness", "speed"

# Codes that are the command's own: no rule has them.
CANNOT_PARSE = "XLA001"
UNUSED_SUPPRESSION = "XLA002"


class Record:
    """A class of named fields; two instances are equal if all fields are equal."""

    __slots__: tuple[str, ...] = ()

    def fields(self) -> tuple[Any, ...]:
        """The values, in the order of `__slots__`."""
        return tuple(getattr(self, name) for name in self.__slots__)

    def replace(self: R, **changes: Any) -> R:
        """The same with other values for some fields."""
        return type(self)(**(dict(zip(self.__slots__, self.fields())) | changes))

    @classmethod
    def of(cls: type[R], fields: tuple[Any, ...]) -> R:
        """The one with these `fields()`."""
        return cls(**dict(zip(cls.__slots__, fields)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self)) and self.fields() == other.fields()

    def __hash__(self) -> int:
        return hash(self.fields())

    def __repr__(self) -> str:
        pairs = (f"{name}={value!r}" for name, value in zip(self.__slots__, self.fields()))
        return f"{type(self).__name__}({', '.join(pairs)})"


class Diagnostic(Record):
    """One finding, without its syntax tree.

    Lines and columns count from 1, columns in characters; in a notebook they count within `cell`, the number
    of the cell among all cells (from 1). `text` is the source line, stripped: it names the place when lines move.
    """

    __slots__ = (
        "about",
        "cell",
        "code",
        "column",
        "effort",
        "end_column",
        "end_line",
        "line",
        "message",
        "name",
        "safety",
        "severity",
        "text",
    )

    def __init__(
        self,
        code: str,
        name: str,
        message: str,
        line: int,
        column: int,
        end_line: int,
        end_column: int,
        severity: str = ERROR,
        effort: str = "low",
        safety: str | None = None,
        text: str = "",
        cell: int | None = None,
        about: str = CORRECTNESS,
    ) -> None:
        self.about = about
        self.code = code
        self.name = name
        self.message = message
        self.line = line
        self.column = column
        self.end_line = end_line
        self.end_column = end_column
        self.severity = severity
        self.effort = effort
        self.safety = safety
        self.text = text
        self.cell = cell

    @property
    def fails(self) -> bool:
        """True if it is more than a note."""
        return self.severity != INFO

    @property
    def is_about_speed(self) -> bool:
        """True if the code runs on XLA as it is, and computes the same, but slower than it could."""
        return self.about == SPEED and self.severity != ERROR

    def is_fixed_by_a_run(self, unsafe: bool) -> bool:
        """True if there is a fix that a run makes that makes unsafe ones, too, or not."""
        return self.safety == SAFE or (self.safety == UNSAFE and unsafe)


class FileVerdict(Record):
    """The result for one file.

    Attributes:
        left: findings that are still there, with their places in the file as it is now.
        migrated: findings that were dealt with, with their places in the original.
        data: the new bytes, where they differ from the old.
        notes: (line, cell, reason) of fixes that could not be made.
        problem: why the file could not be judged or written, if the reason has no source line.
        failed: it was not judged, or not written: the run ends with 2.
        settled: judging the same bytes again changes nothing.
        project: the fingerprint of the project whose other modules had a say in it; empty where none had.
    """

    __slots__ = ("data", "failed", "left", "migrated", "notes", "problem", "project", "settled")

    def __init__(
        self,
        left: tuple[Diagnostic, ...] = (),
        migrated: tuple[Diagnostic, ...] = (),
        data: bytes | None = None,
        notes: tuple[tuple[int, int | None, str], ...] = (),
        problem: str = "",
        failed: bool = False,
        settled: bool = True,
        project: bytes = b"",
    ) -> None:
        self.left = left
        self.migrated = migrated
        self.data = data
        self.notes = notes
        self.problem = problem
        self.failed = failed
        self.settled = settled
        self.project = project


class FileOutcome(Record):
    """The verdict on the file `path`, as shown to the user, and what was done about it.

    Attributes:
        unsafe: unsafe fixes are made in this file.
        fail_on: `speed` where findings about speed, too, make the run end with 1.
        left_path: the file that the findings' line numbers refer to, if not `path`: the written file.
        written: the new source went to the disk, or to standard output.
        copy: path of the copy of the original, if git could not restore it.
        diff: old against new, if requested.
    """

    __slots__ = (
        "copy",
        "diff",
        "fail_on",
        "left_path",
        "path",
        "unsafe",
        "verdict",
        "written",
    )

    def __init__(
        self,
        path: str,
        verdict: FileVerdict,
        unsafe: bool = False,
        written: bool = False,
        copy: str = "",
        diff: bytes = b"",
        fail_on: str = CORRECTNESS,
        left_path: str = "",
    ) -> None:
        self.fail_on = fail_on
        self.left_path = left_path or path
        self.path = path
        self.verdict = verdict
        self.unsafe = unsafe
        self.written = written
        self.copy = copy
        self.diff = diff

    @property
    def counts(self) -> bool:
        """True if a finding is left that makes the run end with 1."""
        strict = self.fail_on == SPEED
        return any(row.fails and (strict or not row.is_about_speed) for row in self.verdict.left)


class Run(Record):
    """Everything that reports tell: one outcome per file, in the order of their paths.

    `rewriting` tells whether fixes were made; `known` counts findings that the baseline holds, and `stale` the
    entries of the baseline that no longer occur. `docs` is the address of a site with the rules' pages, if there is one.
    """

    __slots__ = ("docs", "known", "outcomes", "rewriting", "stale")

    def __init__(
        self,
        outcomes: tuple[FileOutcome, ...],
        rewriting: bool = False,
        known: int = 0,
        stale: int = 0,
        docs: str = "",
    ) -> None:
        self.docs = docs
        self.outcomes = outcomes
        self.rewriting = rewriting
        self.known = known
        self.stale = stale

    @property
    def exit_code(self) -> int:
        """0 nothing left (or only what is about speed, see `FileOutcome.fail_on`), 1 findings left or a diff that is not
        empty, 2 a file was not judged or not written.
        """
        if any(outcome.verdict.failed for outcome in self.outcomes):
            return 2
        return int(any(outcome.diff or outcome.counts for outcome in self.outcomes))


def cannot_parse(reason: str, line: int, column: int, cell: int | None = None) -> Diagnostic:
    """The finding of a file that is no Python."""
    return Diagnostic(
        CANNOT_PARSE, "cannot-parse", reason, line, column, line, column, ERROR, "medium", cell=cell
    )
