"""The options of `xla-migrate PATH...` and `xla-migrate check PATH...`, for argparse."""

from __future__ import annotations

import argparse

from .. import __version__
from ..settings import FAIL_ON, ORIGINS, STYLES, TARGETS
from . import usage
from .commands import COMMANDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

_CLOSING = """\
A first word that is a sub-command is one; a file of that name is written ./check.

exit codes: 0 nothing is left, or only findings about speed (see --fail-on)
            1 findings are left, or --diff is not empty
            2 wrong usage, or a file could not be judged or written
"""


class Parser(argparse.ArgumentParser):
    """argparse, whose errors are one line like all others of this command."""

    def error(self, message: str) -> NoReturn:
        """Leave with 2."""
        place, _, what = message.removeprefix("argument ").partition(": ")
        name = next((n for n in place.split("/") if n.startswith("--")), place)
        if what.startswith("expected one argument"):
            takes = next(a.metavar for a in self._actions if name in a.option_strings)
            usage.fail(f"{name} needs a value: {name} {takes}")
        if what.startswith("ignored explicit argument"):
            usage.fail(f"{name} takes no value")
        usage.fail(f"{name}: {what}" if what else message)


FORMATS = ("text", "full", "concise", "json", "sarif", "github", "gitlab", "junit")


def parser(checking: bool) -> argparse.ArgumentParser:
    """The parser; paths are what it leaves."""
    made = Parser(
        prog="xla-migrate",
        usage=_usage(checking),
        description="PATH is a file, a folder, or - for standard input.",
        epilog=_CLOSING,
        add_help=False,
        allow_abbrev=False,
        argument_default=argparse.SUPPRESS,
        formatter_class=lambda prog: argparse.RawDescriptionHelpFormatter(
            prog, max_help_position=30, width=98
        ),
    )
    if checking:
        _add_checking(made)
    else:
        _add_rewriting(made)
    _add_findings(made)
    _add_report(made)
    _add_running(made)
    return made


def _usage(checking: bool) -> str:
    if checking:
        return "xla-migrate check PATH... [options]"
    first = [("PATH...", "rewrite in place: safe fixes; say what is left for you")]
    rows = first + [(f"{name} {args}", text) for name, (_, args, text) in COMMANDS.items()]
    rows.insert(4, ("PATH... --verify -- ARGS", "verify, and write only what is proven"))
    return "\n       ".join(f"xla-migrate {words:<25} {text}" for words, text in rows)


def _add_rewriting(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("what is written")
    group.add_argument("-o", "--output", metavar="PATH", help="write there (a file or folder)")
    group.add_argument("--diff", action="store_true", help="show what would change, write nothing")
    group.add_argument("--check", action="store_true", help="the same as `xla-migrate check`")
    _add_unsafe(group)
    group.add_argument(
        "--style",
        metavar="STYLE",
        type=usage.one_of(STYLES),
        help="native: torch_xla's own calls, and a copy of the rest of the runtime, in place of `import xla_migrate`",
    )
    group.add_argument("--output-file", metavar="FILE", help="write the report there")


def _add_checking(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("what is written")
    group.add_argument("--fix", action="store_true", help="rewrite in place, as without `check`")
    group.add_argument("--diff", action="store_true", help="show what would change, write nothing")
    _add_unsafe(group)
    group.add_argument("-o", "--output-file", metavar="FILE", help="write the report there")
    group.add_argument(
        "--write-baseline",
        action="store_true",
        help="write the findings into the baseline; report none",
    )


def _add_unsafe(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--unsafe",
        "--unsafe-fixes",
        action="store_true",
        help="make fixes that may change results, too",
    )
    group.add_argument(
        "--no-unsafe",
        "--no-unsafe-fixes",
        dest="unsafe",
        action="store_false",
        help="do not, though the settings say so",
    )


def _add_findings(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group(
        "findings", "CODES are codes, their beginnings or names: XLA1,XLA402,device-string"
    )
    add = group.add_argument
    add("--select", metavar="CODES", type=usage.codes, action=_Adding, help="only these")
    add(
        "--ignore",
        metavar="CODES",
        type=usage.codes,
        action=_Adding,
        help="all but these, and those that the settings ignore",
    )
    add("--baseline", metavar="FILE", help="leave out the findings that this file holds")
    add(
        "--fail-on",
        metavar="WHAT",
        type=usage.one_of(FAIL_ON),
        help="correctness (default): findings about speed give exit code 0; speed: they give 1",
    )
    add(
        "--target",
        metavar="NAME",
        type=usage.one_of(TARGETS),
        help="what to migrate to: xla",
    )
    add(
        "--from",
        metavar="WHAT",
        dest="origin",
        type=usage.one_of(ORIGINS),
        help="torch_xla: rewrite what is written for torch_xla by hand, too; cuda (default): leave it",
    )
    add(
        "--parallel",
        metavar="KIND",
        type=usage.one_of(("replicas", "spmd")),
        help="replicas: one process per device; spmd: one that drives all devices",
    )


class _Adding(argparse.Action):
    """Adds to a tuple: argparse's own `extend` wants a list."""

    def __call__(  # type: ignore[no-untyped-def]
        self, parser, namespace, values, option_string=None
    ) -> None:
        setattr(namespace, self.dest, (*(getattr(namespace, self.dest) or ()), *values))


def _add_report(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("report").add_argument
    add(
        "--output-format",
        "--format",
        metavar="FORMAT",
        type=usage.one_of(FORMATS),
        help="full (on a terminal) or concise (elsewhere), json, sarif, github, gitlab, junit",
    )
    add("--statistics", action="store_true", help="count findings by code instead of listing them")
    add("--effort", action="store_true", help="estimate the work by file instead of listing it")
    add(
        "--color",
        metavar="WHEN",
        type=usage.one_of(("auto", "always", "never")),
        help="auto (default; NO_COLOR switches it off), always or never",
    )
    add("-q", "--quiet", action="store_true", help="findings and errors only, no summary")


def _add_running(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("running").add_argument
    add("--config", metavar="FILE", help="take the settings from this pyproject.toml for all files")
    add("--isolated", action="store_true", help="use no settings file")
    add("--show-settings", action="store_true", help="print the settings that hold, and stop")
    add("--force-exclude", action="store_true", help="leave out excluded files that are named, too")
    add("--stdin-filename", metavar="PATH", help="where the source on standard input belongs")
    add("-j", "--jobs", metavar="N", type=usage.count, help="processes at most (one per core)")
    add("--no-cache", action="store_true", help="neither use nor write the cache")
    add("-v", "--verbose", action="store_true", help="say where an internal error comes from")
    add("-V", "--version", action="version", version=f"xla-migrate {__version__}", help="print it")
    add("-h", "--help", action="help", help="print this")
