"""The migration of a script and the modules of its project, without writing any of it: what verify and compile run."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from ..files.find import FoundFile, Walk
from ..files.read import ReadError, read
from ..results import FileVerdict
from ..settings import Finder, SettingsError
from ..verify.experiments import migration
from ..verify.experiments.imported import modules
from ..verify.experiments.migration import MigrationError, ProjectMigration, Reasons
from ..verify.experiments.workspace import project_of
from ..verify.judge.source_lines import SourceLines
from .checks import check_settings
from .usage import fail
from .work import RunOptions, mentions, verdict_on

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .arguments import Arguments


def migrated_project(
    script: Path,
    unsafe: bool,
    only: Iterable[str | Path] | None = None,
    given: Arguments | None = None,
    style: str = "",
    originals: Mapping[str, bytes | None] | None = None,
    as_needed: bool = False,
) -> ProjectMigration:
    """Return the migration of `script` and its project; with `only`, of these files and folders.

    Args:
        script: what is run.
        unsafe: with unsafe fixes, too.
        only: these files and folders, in place of the project.
        given: what the command line of the command itself says.
        style: what is written without that: "runtime", "native", or "" as the settings say.
        originals: contents that are migrated in place of those on the disk, by path in the project.
        as_needed: migrate the modules that the script imports; `complete` of the result migrates more.

    Raises:
        SettingsError: the settings of the project cannot be used.
        MigrationError: the script cannot be migrated.
        OSError: it cannot be read.
    """
    roots = [str(path) for path in only or (script, project_of(script, None))]
    options = RunOptions(rewriting=True, unsafe=unsafe or None, style=style)
    finder = Finder()
    if given is not None:
        from .migrate.run import everywhere, options_of

        options, finder = options_of(given), Finder(everywhere(given))
    files = Walk(finder).files(roots)
    project = project_of(script, None)
    reached = modules(script, project) if as_needed else ()
    out = migration.of_project(
        script,
        files,
        lambda found: _migrated_file(found, options, _known(found.path, script, originals or {})),
        _reasons(),
        {os.path.relpath(file, project) for file in reached} if as_needed else None,
    )
    _add_copies(out, project)
    migrate_more = out.complete

    def complete(names: Iterable[str]) -> None:
        migrate_more(names)
        _add_copies(out, project)

    out.complete = complete
    return out


def _add_copies(out: ProjectMigration, project: Path) -> None:
    """Return the modules of a copy of the runtime that the migrated files import (`--style native`)."""
    from ..files import vendored
    from .migrate.vendoring import needed

    contents = {
        name: data.encode() if isinstance(data, str) else data for name, data in out.files.items()
    }
    sources = {
        os.path.join(project, name): data
        for name, data in contents.items()
        if name.endswith(".py") and vendored.names_in(data)
    }
    for root, names in needed(sources).items():
        place = os.path.relpath(os.path.join(root, vendored.NAME), project)
        for name, text in vendored.files(names).items():
            out.files[os.path.join(place, *name.split("/"))] = text


def migrated_or_fail(script: Path, unsafe: bool) -> ProjectMigration:
    """`migrated_project`; if it cannot be, one line says why and the command ends with 2."""
    try:
        return migrated_project(script, unsafe)
    except (SettingsError, MigrationError, OSError) as error:
        fail(str(error))


def tell_what_is_left(proposed: ProjectMigration) -> None:
    """Print one line on standard error with the codes that the user has to deal with, if any."""
    if proposed.left:
        codes = ", ".join(sorted({finding.code for finding in proposed.left}))
        print(
            f"xla-migrate: manual changes are needed, so the script may not run: {codes}",
            file=sys.stderr,
        )


def _reasons() -> Reasons:
    """Return which verdicts of verify the findings of each rule may explain."""
    from xla_codemods import wrappers
    from xla_codemods.rules import every_rule

    return {
        rule.code: {str(name): likely for name, likely in rule.behind.items()}
        for rule in (*every_rule(), wrappers.RULE)
    }


def _known(path: str, script: Path, originals: Mapping[str, bytes | None]) -> bytes | None:
    name = os.path.relpath(os.path.realpath(path), project_of(script, None))
    return originals.get(name)


def _migrated_file(
    found: FoundFile, options: RunOptions, known: bytes | None = None
) -> tuple[FileVerdict, bytes]:
    """Return the migration of one file, and its bytes before. `known`: these bytes, if they are not the file's."""
    try:
        data = known if known is not None else read(found.path)[0]
    except ReadError as error:
        return FileVerdict(problem=str(error), failed=True), b""
    check_settings(found.settings)
    if not mentions(data, found.settings, found.path):
        return FileVerdict(), data
    return verdict_on(data, found, options), data


def places(proposed: ProjectMigration) -> Callable[[str], str]:
    """`file:line` of the migrated script -> of the script as it is."""
    known = SourceLines(proposed.texts)

    def original(place: str) -> str:
        name, _, line = place.rpartition(":")
        if name not in proposed.texts or not line.isdigit():
            return place
        return f"{name}:{known.original(name, int(line))}"

    return original
