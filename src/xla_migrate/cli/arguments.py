"""The arguments of `xla-migrate PATH...` and `xla-migrate check PATH...`.

Words without options are the paths; only if there are options is argparse imported, which takes 9 ms of the 20 to 40
that a run over files takes that are cached, or have nothing in them for us.
"""

from __future__ import annotations

import os

from .. import __version__
from ..settings import nearest
from .commands import COMMANDS
from .usage import fail

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

_FOR_PEOPLE = ("text", "full", "concise")


class Arguments:
    """The arguments, by the names of the options. `check`: nothing is rewritten."""

    def __init__(self, checking: bool = False) -> None:
        self.paths: list[str] = []
        self.output: str | None = None
        self.diff = False
        self.check = checking
        self.fix = False
        self.unsafe: bool | None = None
        self.parallel = ""
        self.origin = ""
        self.style = ""
        self.select: tuple[str, ...] | None = None
        self.ignore: tuple[str, ...] = ()
        self.jobs = 0
        self.no_cache = False
        self.stdin_filename: str | None = None
        self.output_format = "text"
        self.output_file: str | None = None
        self.color = "auto"
        self.statistics = False
        self.effort = False
        self.fail_on = ""
        self.baseline: str | None = None
        self.write_baseline = False
        self.force_exclude = False
        self.config: str | None = None
        self.isolated = False
        self.show_settings = False
        self.quiet = False
        self.verbose = False


def parse(words: Sequence[str], checking: bool) -> Arguments:
    """The arguments of the command itself, or of `check`.

    Raises:
        SystemExit: with 2 for wrong usage, with 0 after `--help` and `--version`.
    """
    given = Arguments(checking)
    if "--" in words:
        fail(_DASHES)
    if any(word.startswith("-") and word != "-" for word in words):
        # No positional arguments: argparse does not take them on both sides of an option.
        _, rest = _parser(checking).parse_known_args(list(words), given)
        _refuse_unknown(rest, checking)
        given.paths = rest
        given.ignore = tuple(given.ignore)
        given.select = None if given.select is None else tuple(given.select)
        if given.fix or given.diff:
            given.check = given.check and not checking
    else:
        given.paths = list(words)
    problem = _conflict(given, checking)
    if problem:
        fail(problem)
    return given


_DASHES = (
    "`--` is accepted only by commands that run a script: `xla-migrate verify train.py -- ARGS`"
    " (write ./-name for a file whose name begins with a dash)"
)


def print_help(checking: bool) -> None:
    """Print usage, sub-commands, options and exit codes."""
    print(_parser(checking).format_help(), end="")


def options(checking: bool) -> list[str]:
    """All options, as they are written: for completion."""
    return [text for action in _parser(checking)._actions for text in action.option_strings]


def _parser(checking: bool) -> argparse.ArgumentParser:
    from . import options as table

    return table.parser(checking)


# What other tools' options are here.
_MEANING = {
    "--verify": ": `xla-migrate verify SCRIPT -- ARGS` compares, and writes nothing",
    "--json": "; did you mean `--output-format json`?",
    "--format": "; did you mean `--output-format`?",
    "--dry-run": "; did you mean `--diff`?",
    "--show-fixes": "; did you mean `--diff`?",
    "--no-fix": ": `xla-migrate check` rewrites nothing",
    "--in-place": ": without `check`, --diff and --output files are rewritten in place",
    "-i": ": without `check`, --diff and --output files are rewritten in place",
    "-w": ": without `check`, --diff and --output files are rewritten in place",
    "--write": ": without `check`, --diff and --output files are rewritten in place",
    "--output-dir": "; did you mean `--output`?",
    "--out": "; did you mean `--output`?",
    "--workers": "; did you mean `--jobs`?",
    "--threads": "; did you mean `--jobs`?",
    "--extend-select": "; did you mean `--select`?",
    "--extend-ignore": "; did you mean `--ignore`?",
    "--disable": "; did you mean `--ignore`?",
    "--enable": "; did you mean `--select`?",
    "--exclude": ": `exclude` is a key of the settings (docs/settings.md)",
    "--extend-exclude": ": `extend-exclude` is a key of the settings (docs/settings.md)",
    "--per-file-ignores": ": `per-file-ignores` is a key of the settings (docs/settings.md)",
    "--exit-zero": ": `|| true` after the command does that; --fail-on sets which findings fail a run",
    "--device": ": it migrates to every XLA device; verify and doctor use the one in PJRT_DEVICE",
}


def _refuse_unknown(rest: Sequence[str], checking: bool) -> None:
    for word in rest:
        if word.startswith("-") and word != "-":
            name = word.partition("=")[0]
            other = name in options(not checking)
            hint = f"; it works only {'without' if checking else 'with'} `check`" if other else ""
            hint = _MEANING.get(name, hint)
            fail(f"no option {name}{hint or nearest(name, options(checking))} (see --help)")


def _conflict(given: Arguments, checking: bool) -> str:
    """Why these arguments do not go together, if they do not."""
    from_stdin = given.paths == ["-"]
    if given.show_settings:
        return ""
    if not given.paths:
        return "name a file or folder (see --help)"
    if "" in given.paths or given.output == "":
        return "a path is empty (an unset shell variable?)"
    if "-" in given.paths and not from_stdin:
        return "standard input (-) cannot be combined with other paths"
    if given.check and not checking and (given.output is not None or given.diff):
        return "--check writes nothing: it cannot be combined with --output or --diff"
    if given.fix and given.diff:
        return "--diff writes nothing: it cannot be combined with --fix"
    if given.diff and given.output is not None:
        return "--diff writes nothing: it cannot be combined with --output"
    if given.diff and given.output_format not in _FOR_PEOPLE:
        return f"--diff prints a diff: it cannot be combined with --output-format {given.output_format}"
    if given.write_baseline and not given.check:
        return "--write-baseline accepts findings: it cannot be combined with --fix or --diff"
    if given.config is not None and given.isolated:
        return "--config and --isolated exclude each other: give one of them"
    if from_stdin and given.output is not None:
        return "source from standard input is printed to standard output: remove --output"
    if given.stdin_filename is not None and not from_stdin:
        return "--stdin-filename needs - as the path"
    if from_stdin and not given.check and given.output_format not in _FOR_PEOPLE:
        return (
            f"- prints the new source: --output-format {given.output_format} works only with check"
        )
    return ""


def cores() -> int:
    """Return how many processes can run at once."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def ambiguous(words: Sequence[str]) -> str:
    """Why a first word is not taken as a sub-command, where it could be meant as a file.

    A subcommand's name always means the subcommand. If there are no other arguments and a file or
    folder of that name exists, the intent is ambiguous, so nothing is done.
    """
    word = words[0]
    takes = COMMANDS[word][1]
    if takes and not takes.startswith("[") and len(words) == 1 and os.path.lexists(word):
        return (
            f"`{word}` is a subcommand, which needs arguments, and also a file or folder here: "
            f"write `xla-migrate ./{word}` to migrate it"
        )
    return ""


def print_version() -> None:
    """Print the version of the command."""
    print(f"xla-migrate {__version__}")
