"""The options of `xla-migrate PATH...` and `xla-migrate check PATH...`, for argparse."""

from __future__ import annotations

import argparse

from .. import __version__
from ..settings import FAIL_ON, ORIGINS, STYLES, TARGETS
from . import usage
from .commands import COMMANDS
from .subparser import Aligned

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

_CLOSING = """\
A first argument that matches a subcommand is always treated as one. Write ./check for a file.

examples:
  xla-migrate --diff train.py                  print the changes, write nothing
  xla-migrate train.py models/                 rewrite a script and a folder
  xla-migrate check --output-format json .     report findings for another program

exit codes: 0 no findings remain, or only findings about speed (see --fail-on)
            1 findings remain, or --diff is not empty
            2 wrong usage, or a file could not be analysed or written
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
        formatter_class=Aligned,
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
    first = [("PATH...", "apply safe fixes in place, report the rest")]
    rows = first + [(f"{name} {args}", text) for name, (_, args, text) in COMMANDS.items()]
    rows.insert(4, ("PATH... --verify -- ARGS", "verify, and write only what is proven"))
    width = max(len(words) for words, _ in rows) + 2
    return "\n       ".join(f"xla-migrate {words:<{width}}{text}" for words, text in rows)


def _add_rewriting(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("output")
    group.add_argument(
        "-o", "--output", metavar="PATH", help="write the result to this file or folder"
    )
    group.add_argument("--diff", action="store_true", help="print the changes, write nothing")
    group.add_argument("--check", action="store_true", help="the same as `xla-migrate check`")
    _add_unsafe(group)
    group.add_argument(
        "--style",
        metavar="STYLE",
        type=usage.one_of(STYLES),
        help="native: use torch_xla's own calls and copy the rest of the runtime, instead of `import xla_migrate`",
    )
    group.add_argument("--output-file", metavar="FILE", help="write the report to this file")


def _add_checking(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("output")
    group.add_argument("--fix", action="store_true", help="rewrite in place, as without `check`")
    group.add_argument("--diff", action="store_true", help="print the changes, write nothing")
    _add_unsafe(group)
    group.add_argument("-o", "--output-file", metavar="FILE", help="write the report to this file")
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
        help="also apply fixes that may change results",
    )
    group.add_argument(
        "--no-unsafe",
        "--no-unsafe-fixes",
        dest="unsafe",
        action="store_false",
        help="do not apply them, even if the settings enable them",
    )


def _add_findings(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group(
        "findings",
        "CODES are codes, prefixes of codes, or names, separated by commas: XLA1,XLA402,device-string",
    )
    add = group.add_argument
    add("--select", metavar="CODES", type=usage.codes, action=_Adding, help="report only these")
    add(
        "--ignore",
        metavar="CODES",
        type=usage.codes,
        action=_Adding,
        help="do not report these, or codes that the settings ignore",
    )
    add("--baseline", metavar="FILE", help="do not report the findings in this file")
    add(
        "--fail-on",
        metavar="WHAT",
        type=usage.one_of(FAIL_ON),
        help="correctness (default): findings about speed exit with 0; speed: they exit with 1",
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
        help="torch_xla: also rewrite code that was written for torch_xla; cuda (default): keep it",
    )
    add(
        "--parallel",
        metavar="KIND",
        type=usage.one_of(("replicas", "spmd")),
        help="replicas: one process per device; spmd: one process drives all devices",
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
    add("--config", metavar="FILE", help="use the settings of this pyproject.toml for all files")
    add("--isolated", action="store_true", help="use no settings file")
    add("--show-settings", action="store_true", help="print the settings in use, and exit")
    add(
        "--force-exclude",
        action="store_true",
        help="skip excluded files, and files that folders do not give, even if you name them",
    )
    add("--stdin-filename", metavar="PATH", help="the path of the source on standard input")
    add(
        "-j",
        "--jobs",
        metavar="N",
        type=usage.count,
        help="maximum number of processes (default: one per core)",
    )
    add("--no-cache", action="store_true", help="do not use the cache")
    add("-v", "--verbose", action="store_true", help="print tracebacks of internal errors")
    add(
        "-V",
        "--version",
        action="version",
        version=f"xla-migrate {__version__}",
        help="print the version",
    )
    add("-h", "--help", action="help", help="print this help")
