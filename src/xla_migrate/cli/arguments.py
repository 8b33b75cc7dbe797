"""The command line: which words and options there are, and which go together.

Read by hand from one table: argparse, with what it imports, takes a twelfth of the time that a whole check may take.
"""

from __future__ import annotations

import os
import sys

from .. import __version__
from ..settings import TARGETS, is_code, nearest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import NoReturn

COMMANDS = ("check", "explain", "verify", "doctor")
FORMATS = ("text", "json", "sarif", "github")

_USAGE = """\
usage: xla-migrate PATH...                 rewrite in place: safe fixes; say what is left for you
       xla-migrate check PATH...           say what there is, write nothing
       xla-migrate explain CODE | NAME     a rule's manual, or what becomes of a CUDA name
       xla-migrate verify SCRIPT -- ARGS   run original and migrated, and compare them
       xla-migrate PATH... --verify -- ARGS
                                           verify, and write only what is proven
       xla-migrate doctor                  is this machine ready to train on XLA?
"""
_CHECK_USAGE = "usage: xla-migrate check PATH... [options]\n"
_CLOSING = """
A first word that is a sub-command is one; a file of that name is written ./check.

exit codes: 0 nothing is left; 1 findings are left, or --diff is not empty;
            2 wrong usage, or a file could not be judged or written
"""

# Options by where they stand, with the name of their value ("" for none) and their help.
_REWRITING = {
    "--output": ("PATH", "write there (a file or folder), not in place"),
    "--diff": ("", "show what would change, write nothing"),
    "--check": ("", "the same as `xla-migrate check`"),
    "--unsafe": ("", "make fixes that may change results, too"),
    "--no-unsafe": ("", "do not, though the settings say so"),
}
_CHECKING = {
    "--write-baseline": ("", "write the findings into the baseline; report none"),
}
_COMMON = {
    "--select": ("CODES", "only these codes, or beginnings of codes: XLA1,XLA402"),
    "--ignore": ("CODES", "all but these, beside those that the settings ignore"),
    "--target": ("NAME", "what to migrate to: xla"),
    "--parallel": ("KIND", "replicas: one process per device; spmd: one that drives all devices"),
    "--output-format": ("FORMAT", "text, json, sarif or github"),
    "--statistics": ("", "count findings by code, instead of listing them"),
    "--effort": ("", "estimate the work: by a run, and by you"),
    "--baseline": ("FILE", "leave out the findings that this file holds"),
    "--force-exclude": ("", "leave out excluded files even where they are named"),
    "--stdin-filename": ("PATH", "where the source on standard input (-) belongs"),
    "--jobs": ("N", "processes at most; one per core if not given"),
    "--no-cache": ("", "neither use nor write the cache"),
    "--quiet": ("", "-q: findings and errors only, no summary"),
    "--verbose": ("", "-v: where in our sources an internal error comes from"),
    "--version": ("", "print the version"),
    "--help": ("", "-h: print this"),
}
_SHORT = {"-q": "--quiet", "-v": "--verbose", "-h": "--help"}


class Arguments:
    """What was given. `check` is set by the sub-command and by `--check` alike."""

    def __init__(self) -> None:
        self.paths: list[str] = []
        self.output: str | None = None
        self.diff = False
        self.check = False
        self.unsafe: bool | None = None
        self.parallel = ""
        self.select: tuple[str, ...] | None = None
        self.ignore: tuple[str, ...] = ()
        self.jobs = 0
        self.no_cache = False
        self.stdin_filename: str | None = None
        self.output_format = "text"
        self.statistics = False
        self.effort = False
        self.baseline: str | None = None
        self.write_baseline = False
        self.force_exclude = False
        self.quiet = False
        self.verbose = False


def parse(words: Sequence[str], checking: bool) -> Arguments:
    """The arguments of the command itself, or of `check`.

    Raises:
        SystemExit: with 2 for wrong usage, with 0 after `--help` and `--version`.
    """
    options = {**(_CHECKING if checking else _REWRITING), **_COMMON}
    given = Arguments()
    given.check = checking
    rest = list(reversed(words))
    while rest:
        word = rest.pop()
        if word == "--":
            given.paths += reversed(rest)
            break
        if word == "-" or not word.startswith("-"):
            given.paths.append(word)
            continue
        name, has_value, value = _SHORT.get(word, word).partition("=")
        if name not in options:
            fail(f"no option {name}{nearest(name, tuple(options))} (see --help)")
        if options[name][0] and not has_value:
            if not rest:
                fail(f"{name} needs a value: {name} {options[name][0]}")
            value = rest.pop()
        elif has_value and not options[name][0]:
            fail(f"{name} takes no value")
        if name == "--help":
            _print_help(options, checking)
            raise SystemExit(0)
        if name == "--version":
            print(f"xla-migrate {__version__}")
            raise SystemExit(0)
        _take(given, name, value)
    problem = _conflict(given)
    if problem:
        fail(problem)
    return given


def _take(given: Arguments, name: str, value: str) -> None:
    """Put one option into `given`."""
    if name in ("--select", "--ignore"):
        codes = _codes(name, value)
        if name == "--select":
            given.select = (*(given.select or ()), *codes)
        else:
            given.ignore += codes
    elif name in ("--unsafe", "--no-unsafe"):
        given.unsafe = name == "--unsafe"
    elif name == "--target":
        _one_of(name, value, TARGETS)
    elif name == "--parallel":
        given.parallel = _one_of(name, value, ("replicas", "spmd"))
    elif name == "--output-format":
        given.output_format = _one_of(name, value, FORMATS)
    elif name == "--jobs":
        if not value.isdigit() or int(value) < 1:
            fail(f"--jobs must be a number from 1, not {value!r}")
        given.jobs = int(value)
    else:
        setattr(given, name[2:].replace("-", "_"), value or True)


def _one_of(name: str, value: str, known: tuple[str, ...]) -> str:
    if value not in known:
        fail(f"{name} {value}: no such choice{nearest(value, known)}")
    return value


def _codes(name: str, value: str) -> tuple[str, ...]:
    codes = tuple(code.strip().upper() for code in value.split(",") if code.strip())
    for code in codes:
        if not is_code(code):
            fail(
                f'{name}: "{code}" is no code: codes are like XLA101, or XLA1 for all that begin so'
            )
    return codes


def _conflict(given: Arguments) -> str:
    """Why these arguments do not go together, if they do not."""
    from_stdin = given.paths == ["-"]
    if not given.paths:
        return "name a file or folder (see --help)"
    if "-" in given.paths and not from_stdin:
        return "standard input (-) goes alone"
    if given.check and (given.output is not None or given.diff):
        return "--check writes nothing: it does not go with --output and --diff"
    if given.diff and given.output is not None:
        return "--diff writes nothing: it does not go with --output"
    if given.diff and given.output_format != "text":
        return f"--diff prints a diff: it does not go with --output-format {given.output_format}"
    if from_stdin and given.output is not None:
        return "what comes on standard input goes to standard output: leave --output out"
    if given.stdin_filename is not None and not from_stdin:
        return "--stdin-filename goes with -"
    if from_stdin and not given.check and given.output_format != "text":
        return f"- prints the new source: --output-format {given.output_format} goes with check"
    return ""


def _print_help(options: dict[str, tuple[str, str]], checking: bool) -> None:
    print(_CHECK_USAGE if checking else _USAGE)
    print("PATH is a file, a folder, or - for standard input. Options:")
    for name, (value, text) in options.items():
        print(f"  {f'{name} {value}':<24}{text}")
    print(_CLOSING, end="")


def cores() -> int:
    """How many processes can run at once."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def ambiguous(words: Sequence[str]) -> str:
    """Why a first word is not taken as a sub-command, where it could be meant as a file.

    A sub-command's word always is the sub-command. Only where nothing else is said, and a file or folder of that
    name is there, it could be meant otherwise; then nothing is done.
    """
    word = words[0]
    if word in {"check", "explain", "verify"} and len(words) == 1 and os.path.lexists(word):
        return (
            f"`{word}` alone is a sub-command without arguments, and also a file or folder here: "
            f"write `xla-migrate ./{word}` to migrate it"
        )
    return ""


def fail(message: str) -> NoReturn:
    """Wrong usage: one line, and out with 2."""
    print(f"xla-migrate: {message}", file=sys.stderr)
    raise SystemExit(2)
