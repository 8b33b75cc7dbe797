"""The arguments of `xla-migrate verify`, and those of `xla-migrate PATH... --verify`."""

from __future__ import annotations

import math
import os
import re
from dataclasses import dataclass, field
from pathlib import Path

from .arguments import fail

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

_USAGE = """\
usage: xla-migrate verify SCRIPT [options] -- ARGUMENTS OF THE SCRIPT
       xla-migrate PATH... --verify [options] -- ARGUMENTS OF THE FIRST SCRIPT

Runs the script as it is (on CUDA, or with its CUDA calls sent to the CPU) and migrated (on XLA), each in a copy of its
project, and compares them step by step. The second form writes the migration where it is proven. Options:
  --steps N              optimizer steps after which both are stopped (20)
  --precision NAME       float32 (default: autocast off, losses to 1e-5), or bfloat16 (by the R criterion)
  --dropout NAME         off (default), or same: the same masks in both
  --tolerance X          relative, of losses in float32 (1e-5)
  --amplification        compare each step from the original's own weights in any case (two more runs; without, only
                         where the runs part, but not at once: training may amplify rounding)
  --metric REGEX         a number that both print (the first group), to agree to 0.1 %
  --nproc N              processes: a rehearsal of a distributed script
  --data-shim FILE       Python that is run before training, as a stand-in for data
  --migrated FILE        compare with this script in place of our migration of it
  --timeout SECONDS      for each run
  --unsafe               migrate with unsafe fixes, too
  --report FILE          where the page goes (report.html); --no-report for none
  --keep FOLDER          keep both runs' copies, outputs and records there
  --even-unproven        with --verify: write what could not be proven, too
  --output-format NAME   text or json

exit codes: 0 proven, 1 it differs, 2 it could not be run
"""
_VALUES: dict[str, type] = {
    "--steps": int,
    "--precision": str,
    "--dropout": str,
    "--tolerance": float,
    "--metric": str,
    "--nproc": int,
    "--data-shim": str,
    "--migrated": str,
    "--timeout": float,
    "--report": str,
    "--keep": str,
    "--output-format": str,
}
_FLAGS = ("--unsafe", "--no-report", "--even-unproven", "--amplification")
_CHOICES = {
    "--precision": ("float32", "bfloat16"),
    "--dropout": ("off", "same"),
    "--output-format": ("text", "json"),
}
_POSITIVE = ("--steps", "--tolerance", "--nproc", "--timeout")


@dataclass
class Asked:
    """What was asked for; names as in the usage.

    Attributes:
        paths: what is to be migrated and written (with `--verify`); the script is the first.
        command: the options that are the command's own (with `--verify`).
    """

    script: Path
    args: list[str]
    writing: bool
    paths: list[Path] = field(default_factory=list)
    command: list[str] = field(default_factory=list)
    steps: int = 20
    precision: str = "float32"
    dropout: str = "off"
    tolerance: float = 1e-5
    amplification: bool = False
    metric: str | None = None
    nproc: int = 1
    data_shim: str | None = None
    migrated: str | None = None
    timeout: float | None = None
    unsafe: bool = False
    report: str | None = "report.html"
    keep: str | None = None
    even_unproven: bool = False
    output_format: str = "text"


def parse(words: Sequence[str], writing: bool = False) -> Asked:
    """The arguments.

    Args:
        words: those behind `verify`, or all with `--verify` among them.
        writing: it is the latter; unknown options are then the command's own.

    Raises:
        SystemExit: wrong usage (2), or `--help` (0).
    """
    ours, args = split(list(words))
    options, paths, command = _read(ours, writing)
    if not paths or (len(paths) > 1 and not writing):
        fail("verify takes one script; its arguments go behind --")
    if not os.path.isfile(paths[0]):
        kind = "a folder: name the script first" if os.path.isdir(paths[0]) else "no such script"
        fail(f"{paths[0]}: {kind}")
    asked = Asked(Path(paths[0]), args, writing, [Path(p) for p in paths], command)
    for name, value in options.items():
        setattr(asked, name[2:].replace("-", "_"), value)
    _check(asked)
    if asked.unsafe:
        asked.command.append("--unsafe")
    return asked


def split(words: list[str]) -> tuple[list[str], list[str]]:
    """Ours, and the script's arguments behind `--`."""
    if "--" not in words:
        return words, []
    at = words.index("--")
    return words[:at], words[at + 1 :]


def _read(words: list[str], writing: bool) -> tuple[dict[str, Any], list[str], list[str]]:
    """(options with their values, paths, the command's own options)."""
    options: dict[str, Any] = {}
    paths: list[str] = []
    command: list[str] = []
    rest = list(reversed(words))
    while rest:
        word = rest.pop()
        name, equals, value = word.partition("=")
        if word in ("-h", "--help"):
            print(_USAGE, end="")
            raise SystemExit(0)
        if word == "--verify" and writing:
            continue
        if word == "--no-report":
            options["--report"] = None
        elif word in _FLAGS:
            options[word] = True
        elif name in _VALUES:
            if not equals and not rest:
                fail(f"{name} needs a value (see `xla-migrate verify --help`)")
            options[name] = _value(name, value if equals else rest.pop())
        elif word.startswith("-"):
            if not writing or word == "-":
                fail(f"verify has no option {name}; the script's own go behind --")
            command.append(word)
        else:
            paths.append(word)
    return options, paths, command


def _value(name: str, text: str) -> Any:
    if name in _CHOICES and text not in _CHOICES[name]:
        fail(f"{name} {text}: there is {' and '.join(_CHOICES[name])}")
    try:
        value = _VALUES[name](text)
    except ValueError:
        fail(f"{name} must be a number, not {text!r}")
    if name in _POSITIVE and not (value > 0 and math.isfinite(value)):
        fail(f"{name} must be more than 0, not {text}")
    return value


def _check(asked: Asked) -> None:
    for name in ("data_shim", "migrated"):
        path = getattr(asked, name)
        if path is not None and not os.path.isfile(path):
            fail(f"--{name.replace('_', '-')} {path}: no such file")
    if asked.metric is not None:
        try:
            re.compile(asked.metric)
        except re.error as error:
            fail(f"--metric {asked.metric}: {error}")
    if asked.writing and asked.migrated is not None:
        fail("--migrated goes with `xla-migrate verify`, which writes nothing")
    if asked.keep is not None and os.path.exists(asked.keep) and os.listdir(asked.keep):
        fail(f"--keep {asked.keep}: not empty")
